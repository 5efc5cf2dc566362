"""Clients' examples as one array of bytes: the fast path into TFF.

What a round costs is decided by how many values cross into TFF's worker, so one
`uint8` matrix brings one client or several:

  row 0        the number of clients
  then a row   for each client: its index k, its weight, its first batch and the
               batch after its last
  then rows    for each batch of each client, one per example: the fields of the
               example behind each other, e.g. x then y, and a 1; rows of zeros
               fill up a client's last batch

`packed_training` reads it back with `tf.bitcast`. NumPy only here.
"""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import NamedTuple

import numpy as np

CLIENT = np.dtype([
  ('index', '<i4'),
  ('weight', '<f4'),
  ('first', '<i4'),
  ('end', '<i4'),
])


@dataclasses.dataclass(frozen=True)
class Layout:
  """Where each field of an example lies in its row.

  Attributes:
    fields: (name, shape, dtype name) of each field, in order.
  """

  fields: tuple[tuple[str, tuple[int, ...], str], ...]

  @property
  def dtype(self) -> np.dtype:
    """The NumPy record type of one example."""
    return np.dtype([(name, kind, shape) for name, shape, kind in self.fields])

  @property
  def width(self) -> int:
    """The number of bytes in a row; the last one is 1 for an example."""
    return max(self.dtype.itemsize + 1, CLIENT.itemsize)


class Member(NamedTuple):
  """A client in a packed array.

  Attributes:
    rows: Its examples in the order of training, from `to_rows`.
    client: The client k.
    weight: The weight of its update.
  """

  rows: np.ndarray
  client: int
  weight: float


def layout_of(examples: Mapping[str, np.ndarray]) -> Layout:
  """Returns the layout of examples given as arrays with a leading axis."""
  return Layout(
    tuple(
      (name, tuple(array.shape[1:]), array.dtype.newbyteorder('<').str)
      for name, array in examples.items()
    )
  )


def _check_cast(name: str, given: np.ndarray, kept: np.ndarray) -> None:
  """Raises a ValueError if the layout's type has lost more than digits."""
  if kept.dtype.kind == 'f':
    is_kept = np.array_equal(np.isfinite(given), np.isfinite(kept))
  else:
    is_kept = np.array_equal(given, kept)
  if not is_kept:
    raise ValueError(
      f'Field {name!r} must fit {kept.dtype.name}, the type of the first '
      f'client, but one has {given.dtype.name} that does not.'
    )


def to_rows(layout: Layout, examples: Mapping[str, np.ndarray]) -> np.ndarray:
  """Returns the examples as a `uint8` matrix, one row per example."""
  sizes = {name: len(examples[name]) for name, _, _ in layout.fields}
  if len(set(sizes.values())) != 1:
    raise ValueError(
      f'All fields of a client need the same number of examples, but they have '
      f'{sizes}.'
    )
  num_examples = next(iter(sizes.values()))
  records = np.zeros(num_examples, layout.dtype)
  for name, shape, _ in layout.fields:
    if examples[name].shape[1:] != shape:
      raise ValueError(
        f'Field {name!r} must have shape {shape} in every example, but it has '
        f'{examples[name].shape[1:]}.'
      )
    with np.errstate(all='ignore'):  # It is checked at once.
      records[name] = examples[name]
    _check_cast(name, examples[name], records[name])
  rows = np.zeros((num_examples, layout.width), np.uint8)
  rows[:, : layout.dtype.itemsize] = records.view(np.uint8).reshape(
    num_examples, layout.dtype.itemsize
  )
  rows[:, -1] = 1
  return rows


def num_batches(num_examples: int, batch_size: int) -> int:
  """Returns how many batches a client fills."""
  return -(-num_examples // batch_size)


def pack(
  members: Sequence[Member], layout: Layout, batch_size: int
) -> np.ndarray:
  """Returns some clients as one array.

  Args:
    members: The clients; may be none.
    layout: The layout of their examples.
    batch_size: The size of a local batch.

  Returns:
    A `uint8` matrix.
  """
  counts = [num_batches(len(member.rows), batch_size) for member in members]
  ends = np.cumsum(counts, dtype=int)
  head = 1 + len(members)
  packed = np.zeros((head + batch_size * sum(counts), layout.width), np.uint8)
  packed[0, :4] = np.array([len(members)], '<i4').view(np.uint8)
  for place, (member, end) in enumerate(zip(members, ends)):
    first = end - counts[place]
    client = np.array([(member.client, member.weight, first, end)], CLIENT)
    packed[1 + place, : CLIENT.itemsize] = client.view(np.uint8)
    begin = head + batch_size * first
    packed[begin : begin + len(member.rows)] = member.rows
  return packed


def deal(
  members: Sequence[Member], batch_size: int, num_hands: int
) -> list[list[Member]]:
  """Deals clients out so that all hands hold about as many batches.

  The largest client goes first, always to the hand with the fewest batches.

  Args:
    members: The clients.
    batch_size: The size of a local batch.
    num_hands: How many hands.

  Returns:
    One list of members per hand, some of them empty if there are few.
  """
  hands: list[list[Member]] = [[] for _ in range(num_hands)]
  loads = [0] * num_hands
  for member in sorted(members, key=lambda m: (-len(m.rows), m.client)):
    least = loads.index(min(loads))
    hands[least].append(member)
    loads[least] += num_batches(len(member.rows), batch_size)
  return hands
