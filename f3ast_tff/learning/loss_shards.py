"""Examples whose losses are queried, in shards.

Power-of-Choice queries clients for the loss of the global model on their
training data.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from f3ast_tff.learning import examples as examples_lib
from f3ast_tff.learning import shards


class LossShard(NamedTuple):
  """Examples whose losses are queried.

  Attributes:
    examples: As in `shards.Shard`.
    batches: int32 [batches, batch size], rows of `examples` or `NO_ROW`.
    owners: int32, the client of each row, `NOBODY` where there is none.
  """

  examples: Any
  batches: Any
  owners: Any


class LossPart(NamedTuple):
  """As `shards.Part`, of clients that are queried for their losses.

  Attributes:
    clients: All that are queried.
    place: Which of the shards of their examples this is.
  """

  clients: np.ndarray
  place: int


class LossShards:
  """Makes the shards of clients that are queried for their losses.

  Whose an example is matters only to the sums, so the examples of all clients
  share batches, those of like length together.
  """

  def __init__(
    self,
    train: Sequence[examples_lib.Examples],
    examples: Callable[[], examples_lib.Examples],
    *,
    batch_size: int,
    num_shards: int = 1,
    as_tested: Optional[Callable[[Any], Any]] = None,
    lengths: Optional[np.ndarray] = None,
    filled_up_to: Optional[int] = None,
  ):
    """Prepares to make shards.

    Args:
      train: The examples of each client.
      examples: Returns those of all clients behind each other; not called if
        there is an `as_tested`.
      batch_size: How many examples go through the model at a time.
      num_shards: How many shards there are.
      as_tested: Maps training examples to the form that test examples have.
      lengths: The length of each of `examples`; None if it does not matter.
      filled_up_to: The batches of all shards; None for what each needs.
    """
    self._train = train
    self._examples = examples
    self._batch_size = batch_size
    self._num_shards = num_shards
    self._as_tested = as_tested
    self._lengths = lengths
    self._filled_up_to = filled_up_to
    self._sizes = np.array([len(part['y']) for part in train])
    self._starts = np.cumsum(self._sizes) - self._sizes
    self._last: tuple[Optional[bytes], list[LossShard]] = None, []

  def parts(
    self, clients: np.ndarray, round_num: int = 0
  ) -> list[LossPart]:
    """Returns the shards of all training examples of some clients."""
    del round_num  # The same in each.
    return [LossPart(clients, place) for place in range(self._num_shards)]

  def fill(self, part: LossPart) -> LossShard:
    """Returns one of the shards of some clients."""
    whose, filled = self._last
    if whose != part.clients.tobytes():
      whose, filled = part.clients.tobytes(), self._shards(part.clients)
      self._last = whose, filled  # The other places are to come.
    return filled[part.place]

  def _shards(self, clients: np.ndarray) -> list[LossShard]:
    """Returns all shards of some clients."""
    sizes, num_shards = self._sizes[clients], self._num_shards
    owners = np.repeat(clients, sizes)
    ends = np.cumsum(sizes)
    rows = np.arange(owners.size)
    if self._as_tested is None:
      examples = self._examples()
      rows = rows + np.repeat(self._starts[clients] - (ends - sizes), sizes)
    else:
      examples = self._as_tested(
        examples_lib.concatenated([self._train[k] for k in clients])
      )
    if self._lengths is not None:
      order = np.argsort(self._lengths[rows], kind='stable')
      rows, owners = rows[order], owners[order]
    num_needed = shards.num_batches(rows.size, self._batch_size)
    count = shards.round_up(
      self._filled_up_to or 1, shards.num_batches(num_needed, num_shards)
    )
    shape = count * num_shards, self._batch_size
    batches = np.full(shape, shards.NO_ROW, np.int32)
    batches.flat[: rows.size] = rows
    owner = np.full(shape, shards.NOBODY, np.int32)
    owner.flat[: rows.size] = owners
    return [
      LossShard(examples, batches[n::num_shards], owner[n::num_shards])
      for n in range(num_shards)
    ]
