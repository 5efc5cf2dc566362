"""Tests of the pages that are made from docstrings."""

import pathlib
import subprocess
import sys
import textwrap

import pytest

from tools import api_docs

_ROOT = pathlib.Path(__file__).parents[1]

_SOURCE = '''
"""A module.

A formula:

  a * b

Said of r* here.
"""

import dataclasses

_PRIVATE = 1


@dataclasses.dataclass(frozen=True)
class Point:
  """A point.

  Attributes:
    x: Its place,
      in metres.
  """

  x: float

  @property
  def double(self) -> float:
    """Twice x."""
    return 2 * self.x

  def _hidden(self):
    """Not shown."""


def move(
  point: Point, by: float = 1.0, *, how: str = 'quickly and without a sound'
) -> Point:
  """Moves a point.

  Args:
    point: The point.
    by: How far.
    how: In which way.

  Returns:
    The point
    then.

  Raises:
    ValueError: Never.
  """


def _secret():
  """Not shown."""
'''

_PAGE = '''
# pack.module

A module.

A formula:

```text
a * b
```

Said of r\\* here.

Source: [pack/module.py](../../pack/module.py) · [all modules](README.md)

## `Point`

```python
@dataclasses.dataclass(frozen=True)
class Point
  x: float
```

A point.

**Attributes**

- `x`: Its place, in metres.

#### `Point.double`

Twice x.

## `move`

```python
move(
  point: Point,
  by: float = 1.0,
  *,
  how: str = 'quickly and without a sound',
) -> Point
```

Moves a point.

**Args**

- `point`: The point.
- `by`: How far.
- `how`: In which way.

**Returns** The point then.

**Raises**

- `ValueError`: Never.
'''


def test_a_page_by_hand():
  assert api_docs.page('pack.module', _SOURCE.lstrip('\n')) == _PAGE[1:]


def test_a_page_for_each_module_and_an_index(tmp_path):
  for name in ('__init__', 'one', 'sub/__init__', 'sub/two'):
    path = tmp_path / 'f3ast_tff' / f'{name}.py'
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(f'"""It is {name}."""\n'))
  made = api_docs.pages(tmp_path)
  assert sorted(made) == ['README.md', 'one.md', 'sub.two.md']
  assert '| [`f3ast_tff.sub.two`](sub.two.md) | It is sub/two. |' in (
    made['README.md']
  )


def test_the_pages_are_up_to_date():
  tool = _ROOT / 'tools' / 'api_docs.py'
  # With -S there is no TensorFlow to import.
  subprocess.run([sys.executable, '-S', str(tool), '--check'], check=True)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
