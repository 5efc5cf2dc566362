"""The values of flags as a sweep is given them, and their combinations."""

import collections
from collections.abc import Mapping, Sequence
import hashlib
import itertools
import json
import math
import re
from typing import Any
import urllib.parse

MOST_RUNS = 10_000

_RANGE = re.compile(r'(-?\d+)\.\.(-?\d+)')
_LONGEST_NAME = 150  # Of a folder; file systems allow 255.


def _check_number(number: int) -> None:
  if number > MOST_RUNS:
    raise ValueError(
      f'These are {number:,} runs, and a sweep has {MOST_RUNS:,} at most; give '
      'fewer values.'
    )


def split(
  name: str, texts: Sequence[str], is_whole: bool = False
) -> list[str]:
  """Returns the values of a flag.

  Commas separate values, and `0..4` stands for five of them. A text with a
  colon, such as `uniform:5,15`, is one value.

  Args:
    name: The flag's name.
    texts: What the flag was given, each time.
    is_whole: Whether any text is one value.

  Returns:
    The values, as the experiment would be given them.
  """
  values: list[str] = []
  for text in texts:
    parts = [text] if is_whole or ':' in text else text.split(',')
    for part in parts:
      ends = _RANGE.fullmatch(part)
      if ends is None:
        values.append(part)
        continue
      first, last = map(int, ends.groups())
      if first > last:
        raise ValueError(
          f'--{name} has the range {part}, which is empty; the smaller number '
          'comes first.'
        )
      _check_number(last - first + 1)
      values += map(str, range(first, last + 1))
  return values


def product(values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
  """Returns all combinations; the last flag's values change first."""
  for name, some in values.items():
    counts = collections.Counter(some)
    twice = [value for value, count in counts.items() if count > 1]
    if twice:
      raise ValueError(f'--{name} has {twice[0]} twice; give it once.')
  _check_number(math.prod(map(len, values.values())))
  return [
    dict(zip(values, combination))
    for combination in itertools.product(*values.values())
  ]


def label(combination: Mapping[str, Any]) -> str:
  """Returns what to call a combination, e.g. `f3ast, beta=0.01`."""
  return ', '.join(
    str(value) if name == 'algorithm' else f'{name}={value}'
    for name, value in combination.items()
  )


def file_name(combination: Mapping[str, Any]) -> str:
  """Returns a name that no other combination has and any folder may have."""
  name = '-'.join(
    f'{flag}={urllib.parse.quote(str(value), safe=":,+")}'
    for flag, value in combination.items()
  )
  if len(name) <= _LONGEST_NAME:
    return name
  return f'{name[:_LONGEST_NAME]}-{digest(name)}'


def digest(value: Any) -> str:
  """Returns eight letters that stand for a value."""
  return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]
