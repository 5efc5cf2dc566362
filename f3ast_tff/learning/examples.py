"""Examples of clients as arrays: those of each, and all behind each other."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from f3ast_tff import checks

Examples = Mapping[str, Any]


def check(parts: Sequence[Examples]) -> None:
  """Raises a `ValueError` unless clients' examples fit together.

  Args:
    parts: The examples of each client.
  """
  for client, part in enumerate(parts):
    if not isinstance(part, Mapping) or not all(
      isinstance(field, np.ndarray) and field.ndim for field in part.values()
    ):
      raise ValueError(
        "The examples of a client must be arrays by name, {'x': x, 'y': y}, "
        f'but those of client {client} are {_what(part)}.'
      )
    sizes = {name: len(field) for name, field in part.items()}
    if len(set(sizes.values())) != 1 or set(sizes) != set(parts[0]):
      raise ValueError(
        'All clients need the same fields, and all fields of a client the same '
        f'number of examples, but client {client} has {sizes}.'
      )
    for name, first in parts[0].items():
      if part[name].shape[1:] != first.shape[1:]:
        raise ValueError(
          f'Field {name!r} must have shape {first.shape[1:]} in every example, '
          f'but at client {client} it has {part[name].shape[1:]}.'
        )


def _what(part: Any) -> str:
  """Returns what a client has instead of examples."""
  if not isinstance(part, Mapping):
    return checks.describe(part)
  return str({name: checks.describe(field) for name, field in part.items()})


def concatenated(parts: Sequence[Examples]) -> dict[str, np.ndarray]:
  """Returns the examples of several clients behind each other.

  Args:
    parts: The examples of each client.

  Returns:
    The fields, of the types that the first client's have.

  Raises:
    ValueError: If clients' examples do not fit together.
  """
  check(parts)
  fields = {}
  for name, first in parts[0].items():
    field = np.empty(
      (sum(len(part[name]) for part in parts), *first.shape[1:]), first.dtype
    )
    at = 0
    for part in parts:
      end = at + len(part[name])
      field[at:end] = _fitting(name, part[name], first)
      at = end
    fields[name] = field
  return fields


def split(
  examples: Examples, sizes: np.ndarray
) -> list[dict[str, np.ndarray]]:
  """Returns the examples of each client from those of all, without a copy."""
  ends = np.cumsum(sizes)
  return [
    {name: field[end - size : end] for name, field in examples.items()}
    for size, end in zip(sizes, ends)
  ]


def _fitting(name: str, given: np.ndarray, like: np.ndarray) -> np.ndarray:
  """Returns a field with the type of another client's."""
  if given.dtype == like.dtype:
    return given
  with np.errstate(all='ignore'):  # It is checked at once.
    kept = given.astype(like.dtype)
  if like.dtype.kind == 'f':  # Digits may be lost, numbers may not.
    is_kept = np.array_equal(np.isfinite(given), np.isfinite(kept))
  else:
    is_kept = np.array_equal(given, kept)
  if not is_kept:
    raise ValueError(
      f'Field {name!r} must fit {like.dtype.name}, the type of the first '
      f'client, but one has {given.dtype.name} that does not.'
    )
  return kept
