"""Targets: what share p_k of the objective each client is to have.

The paper minimises sum p_k F_k where p_k is the client's share of the data, and
notes that another distribution in its place is another notion of fairness. The
functions here make one of the share of the data. It takes the place of p in
all that a method does: scores, weights p_k / r_k, H, r(0), and draws with
probability p_k. Clients without data have no share in any of them.
"""

from collections.abc import Sequence
import math
from typing import NamedTuple

import numpy as np

from f3ast_tff import groups as groups_lib


class Target(NamedTuple):
  """What a text names.

  Attributes:
    kind: `data`, `uniform`, `power`, `groups` or `file`.
    exponent: Of `power`.
    path: Of `file`.
  """

  kind: str
  exponent: float = 1.0
  path: str = ''


def parse(text: str) -> Target:
  """Returns the target that a flag names.

  Args:
    text: `data`, `uniform`, `power:0.5`, `groups` or `file:PATH`.

  Returns:
    The target.
  """
  kind, colon, rest = text.partition(':')
  if kind in ('data', 'uniform', 'groups') and not colon:
    return Target(kind)
  if kind == 'file' and rest:
    return Target(kind, path=rest)
  if kind == 'power':
    try:
      exponent = float(rest)
    except ValueError:
      exponent = math.nan
    if 0 <= exponent < math.inf:
      return Target(kind, exponent)
  raise ValueError(
    f'target is {text!r}, but it must be data, uniform, power:A with a number '
    'A >= 0, groups, or file:PATH.'
  )


def power(p: np.ndarray, exponent: float) -> np.ndarray:
  """Returns p_k^a / sum p^a: between users (a = 0) and data (a = 1).

  Args:
    p: Each client's share of the data.
    exponent: a >= 0.

  Returns:
    The target.
  """
  # Of the largest first: p^a could be 0 for all.
  raised = np.where(p > 0, (p / p.max()) ** exponent, 0.0)
  return raised / raised.sum()


def uniform(p: np.ndarray) -> np.ndarray:
  """Returns the same share for each client that has data."""
  return power(p, 0.0)


def equal_groups(p: np.ndarray, groups: Sequence[str]) -> np.ndarray:
  """Returns the same share for each group, inside by data.

  Args:
    p: Each client's share of the data.
    groups: The name of each client's group.

  Returns:
    The target.

  Raises:
    ValueError: If a group has no data.
  """
  names, group_of = groups_lib.numbered(groups)
  totals = np.bincount(group_of, weights=p)
  for g in np.flatnonzero(totals == 0):
    raise ValueError(
      f'target=groups gives all groups the same share, but group {names[g]!r} '
      'has no data; put its clients into another.'
    )
  return p / totals[group_of] / len(names)


def given(weights: np.ndarray, p: np.ndarray) -> np.ndarray:
  """Returns the target that is proportional to given numbers.

  Args:
    weights: One number >= 0 per client, not all 0.
    p: Each client's share of the data.

  Returns:
    The target.

  Raises:
    ValueError: If they are others, or a client without data has a share.
  """
  if not ((weights >= 0) & (weights < math.inf)).all() or not weights.any():
    raise ValueError(
      'The shares of a target must be finite numbers >= 0, not all 0, but they '
      'are not.'
    )
  for k in np.flatnonzero((weights > 0) & (p == 0)):
    raise ValueError(
      f'Client {k} has a share of the target but no data; give it 0.'
    )
  weights = weights / weights.max()  # Or the sum could be infinite.
  return weights / weights.sum()
