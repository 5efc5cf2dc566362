"""Marks parameters whose tests take long and are like others that do not."""

from collections.abc import Iterable
from typing import Any

import pytest


def but(quick: Iterable[Any], values: Iterable[Any]) -> list[Any]:
  """Returns the values for `parametrize`, slow but for some.

  Args:
    quick: The values that are run each time.
    values: All of them; tuples are several arguments, the first of which
      counts.

  Returns:
    Parameters.
  """
  quick = list(quick)

  def param(value: Any) -> Any:
    each = value if isinstance(value, tuple) else (value,)
    marks = () if each[0] in quick else pytest.mark.slow
    return pytest.param(*each, marks=marks)

  return list(map(param, values))
