"""A client's examples as one array of bytes: the fast path into TFF.

What a round costs is decided by how many values cross into TFF's worker, so a
client brings one `uint8` matrix: a header row, then one row per example.

  row 0      num_examples (int32), client index k (int32), weight (float32)
  row 1..n   the fields of one example behind each other, e.g. x then y
  row n+1..  zeros, up to 1, 2, 3, 4, 6, 8, 12, 16, ... batches, so that clients
             of similar size share one compiled program

`packed_training` reads it back with `tf.bitcast`. NumPy only here.
"""

from collections.abc import Mapping
import dataclasses

import numpy as np

HEADER = np.dtype(
  [('num_examples', '<i4'), ('index', '<i4'), ('weight', '<f4')]
)
ABSENT = -1  # The index of a participant that only fills a place.


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
    """The number of bytes in a row."""
    return max(self.dtype.itemsize, HEADER.itemsize)


def layout_of(examples: Mapping[str, np.ndarray]) -> Layout:
  """Returns the layout of examples given as arrays with a leading axis."""
  return Layout(
    tuple(
      (name, tuple(array.shape[1:]), array.dtype.newbyteorder('<').str)
      for name, array in examples.items()
    )
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
    records[name] = examples[name]
  rows = np.zeros((num_examples, layout.width), np.uint8)
  rows[:, : layout.dtype.itemsize] = records.view(np.uint8).reshape(
    num_examples, layout.dtype.itemsize
  )
  return rows


def padded_size(num_examples: int, batch_size: int) -> int:
  """Returns the rows to set aside: batch_size times 2^i or 3 * 2^i."""
  batches = max(1, -(-num_examples // batch_size))
  power = 1 << (batches - 1).bit_length()
  is_enough = batches <= power * 3 // 4
  return batch_size * (power * 3 // 4 if is_enough and power > 2 else power)


def pack(
  rows: np.ndarray, index: int, weight: float, batch_size: int
) -> np.ndarray:
  """Returns what one participant brings to a round.

  Args:
    rows: Its examples in the order of training, from `to_rows`.
    index: The client k, or `ABSENT`.
    weight: The weight of its update.
    batch_size: The size of a local batch.

  Returns:
    A `uint8` matrix.
  """
  size = padded_size(len(rows), batch_size)
  packed = np.zeros((1 + size, rows.shape[1]), np.uint8)
  header = np.array([(len(rows), index, weight)], HEADER)
  packed[0, : HEADER.itemsize] = header.view(np.uint8)
  packed[1 : 1 + len(rows)] = rows
  return packed


def absent(layout: Layout, batch_size: int) -> np.ndarray:
  """Returns a participant without data, to fill a place in the cohort."""
  rows = np.zeros((0, layout.width), np.uint8)
  return pack(rows, ABSENT, 0.0, batch_size)
