"""What a cohort trains on: shards of clients, and batches as rows of examples.

The examples of all clients are kept once. A round names, for each shard, its
clients and the rows of their batches; `shard_training` gathers the rows. A
shard's clients train one after the other, and shards train side by side.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from f3ast_tff import randomness
from f3ast_tff import selection
from f3ast_tff.learning import examples as examples_lib

NOBODY = -1  # The index of a client that only fills up a table.
NO_ROW = -1  # The row of an example that only fills up a batch.


class Shard(NamedTuple):
  """Clients that train one after the other.

  Attributes:
    examples: The fields of examples, by name; rows are along the first axis.
    clients: int32 [clients, 3]: each one's index k, its first batch, and the
      batch after its last. From the first `NOBODY` on there are no more.
    weights: float32 [clients], the weight of each one's update.
    batches: int32 [batches, batch size], rows of `examples` or `NO_ROW`.
    vectors: The `ShardVectors` if the method keeps vectors, else nothing.
  """

  examples: Any
  clients: Any
  weights: Any
  batches: Any
  vectors: Any = ()


class ShardVectors(NamedTuple):
  """What a shard's clients have besides if the method keeps vectors.

  Attributes:
    state_weights: float32 [clients], see `vectors`.
    slots: int32 [clients], the place of each one in the cohort.
    own: float32 [clients, size of the model], each one's vector.
  """

  state_weights: Any
  slots: Any
  own: Any


class Part(NamedTuple):
  """Who is in a shard: all that makes one, but for the examples.

  Attributes:
    clients: Their indices k.
    weights: The weight of each one's update.
    round_num: The round.
    failed: Those whose training fails; they are there without examples.
    vectors: As in `Shard`.
  """

  clients: Sequence[int]
  weights: np.ndarray
  round_num: int
  failed: Collection[int] = ()
  vectors: Any = ()


class Capacity(NamedTuple):
  """The size to which shards are filled up, so that all have one shape."""

  clients: int
  batches: int


def num_batches(num_examples: Any, batch_size: int) -> Any:
  """Returns how many batches a client fills."""
  return -(-num_examples // batch_size)


def _num_steps(
  num_examples: Any, batch_size: int, epochs: int, steps: int
) -> Any:
  """Returns how many batches clients train on; none without examples."""
  if steps:
    return steps * (num_examples > 0)
  return num_batches(epochs * num_examples, batch_size)


def capacity(
  num_examples: np.ndarray,
  batch_size: int,
  epochs: int,
  max_clients: int,
  steps: int = 0,
) -> Capacity:
  """Returns the size of the largest shard that any cohort can make.

  Args:
    num_examples: The number of examples of each client.
    batch_size: The size of a local batch.
    epochs: The passes over the local data.
    max_clients: The most clients of a round.
    steps: The local steps; 0 if `epochs` decide.

  Returns:
    The size of a shard that holds the clients with the most batches.
  """
  needs = _num_steps(num_examples, batch_size, epochs, steps)
  batches = np.sort(needs)[::-1]
  most = min(max_clients, batches.size)
  return Capacity(max(1, most), max(1, int(batches[:most].sum())))


def round_up(size: int, needed: int) -> int:
  """Returns the multiple of a size that something fits into."""
  return size * max(1, num_batches(needed, size))


def deal(loads: Sequence[int], num_shards: int) -> list[list[int]]:
  """Deals clients out so that all shards have about the same load.

  The largest client goes first, always to the shard with the least load.

  Args:
    loads: The number of batches of each client.
    num_shards: How many shards.

  Returns:
    The places of its clients for each shard, some of them empty if there are
    few.
  """
  dealt: list[list[int]] = [[] for _ in range(num_shards)]
  totals = [0] * num_shards
  for place in sorted(range(len(loads)), key=lambda i: (-loads[i], i)):
    least = totals.index(min(totals))
    dealt[least].append(place)
    totals[least] += loads[place]
  return dealt


def _filled_up(vectors: ShardVectors, num_clients: int) -> ShardVectors:
  """Returns what a shard's clients have, and zeros for those who fill up."""

  def filled_up(each: np.ndarray) -> np.ndarray:
    more = np.zeros((num_clients - len(each), *each.shape[1:]), each.dtype)
    return np.concatenate([each, more])

  return ShardVectors(*map(filled_up, vectors))


class ClientShards:
  """Makes the shards of cohorts.

  A client's order of examples and its augmentation are drawn anew in each epoch
  of each round, as a pure function of (seed, round, client, epoch). With
  `steps` a client goes through its examples as often as that takes: all batches
  are full, and the last epoch ends where the last batch does.

  Attributes:
    num_examples: The number of examples of each client.
  """

  def __init__(
    self,
    train: Sequence[examples_lib.Examples],
    examples: Callable[[], examples_lib.Examples],
    *,
    batch_size: int,
    epochs: int = 1,
    steps: int = 0,
    num_shards: Optional[int] = 1,
    seed: int = 0,
    augment: Optional[Callable[[Any, np.random.Generator], Any]] = None,
    is_shuffled: bool = True,
    filled_up_to: Optional[Capacity] = None,
  ):
    """Prepares to make shards.

    Args:
      train: The examples of each client.
      examples: Returns those of all clients behind each other, as what trains
        wants them; not called if there is an `augment`.
      batch_size: The size of a local batch.
      epochs: The passes over the local data.
      steps: The local steps, each on a full batch; 0 if `epochs` decide.
      num_shards: How many shards a cohort has; None for one for each client.
      seed: Decides the order and the augmentation.
      augment: Maps (examples, generator) to those of one epoch.
      is_shuffled: Whether the order is drawn; else it is as given.
      filled_up_to: The size of all shards; None for what each needs.
    """
    self._train = train
    self._examples = examples
    self._batch_size = batch_size
    self._epochs = epochs
    self._steps = steps
    self._num_shards = num_shards
    self._seed = seed
    self._augment = augment
    self._is_shuffled = is_shuffled
    self._filled_up_to = filled_up_to
    self.num_examples = np.array([len(part['y']) for part in train])
    # Numbers of Python, because those of NumPy are slow one by one.
    self._sizes = self.num_examples.tolist()
    starts = np.cumsum(self.num_examples) - self.num_examples
    self._starts = starts.tolist()

  @property
  def some_examples(self) -> examples_lib.Examples:
    """Some examples in the form in which clients train on them."""
    if self._augment is None:
      return self._train[0]
    return self._augmented(0, 1, 0)

  def _order(self, client: int, round_num: int, epoch: int) -> np.ndarray:
    if not self._is_shuffled:
      return np.arange(self._sizes[client])
    rng = randomness.generator(
      self._seed, f'shuffling in epoch {epoch}', round_num, client
    )
    return rng.permutation(self._sizes[client])

  def _augmented(
    self, client: int, round_num: int, epoch: int
  ) -> examples_lib.Examples:
    assert self._augment is not None
    rng = randomness.generator(
      self._seed, f'augmentation in epoch {epoch}', round_num, client
    )
    return self._augment(self._train[client], rng)

  def fill(self, part: Part) -> Shard:
    """Returns the shard of some clients."""
    clients, weights, round_num, failed, vectors = part
    batch_size, size = self._batch_size, self._filled_up_to
    counts = [
      0
      if k in failed
      else _num_steps(self._sizes[k], batch_size, self._epochs, self._steps)
      for k in clients
    ]
    if size is None:
      size = Capacity(1, 1)
    # A policy of a user's may take more clients than were to be expected.
    size = Capacity(
      round_up(size.clients, len(clients)),
      round_up(size.batches, sum(counts)),
    )
    table = np.full((size.clients, 3), NOBODY, np.int32)
    ends = np.cumsum(counts, dtype=np.int32)
    table[: len(clients)] = np.stack([clients, ends - counts, ends], axis=1)
    all_weights = np.zeros(size.clients, np.float32)
    all_weights[: len(clients)] = weights
    rows = np.full(size.batches * batch_size, NO_ROW, np.int32)
    own: list[examples_lib.Examples] = []
    num_own = 0
    for k, end, count in zip(clients, ends.tolist(), counts):
      at, behind = (end - count) * batch_size, end * batch_size
      if not self._steps:
        behind = at + (self._epochs * self._sizes[k] if count else 0)
      epoch = 0
      while at < behind:
        first = self._starts[k]
        if self._augment is not None:
          own.append(self._augmented(k, round_num, epoch))
          first, num_own = num_own, num_own + self._sizes[k]
        order = self._order(k, round_num, epoch)[: behind - at]
        rows[at : at + order.size] = first + order
        at, epoch = at + order.size, epoch + 1
    if self._augment is None:
      examples = self._examples()
    else:
      examples = examples_lib.concatenated(own or [self.some_examples])
    return Shard(
      examples,
      table,
      all_weights,
      rows.reshape(-1, batch_size),
      vectors and _filled_up(vectors, size.clients),
    )

  def parts(
    self,
    cohort: selection.Cohort,
    round_num: int,
    failed: Collection[int] = (),
    vectors: Any = (),
  ) -> list[Part]:
    """Deals a cohort that trains out to shards.

    Args:
      cohort: S_t and the weights.
      round_num: The round.
      failed: Clients of it whose training fails.
      vectors: The `ShardVectors` of the cohort if the method keeps vectors.

    Returns:
      Who is in which shard, for `fill`.
    """
    clients = cohort.clients.tolist()
    loads = [
      max(1, _num_steps(self._sizes[k], self._batch_size, 1, self._steps))
      for k in clients
    ]
    return [
      Part(
        [clients[place] for place in some],
        cohort.weights[some],
        round_num,
        failed,
        vectors and ShardVectors(*(each[some] for each in vectors)),
      )
      for some in (
        deal(loads, self._num_shards)
        if self._num_shards
        else [[place] for place in range(len(clients))]
      )
    ]

  def __call__(self, cohort: selection.Cohort, round_num: int) -> list[Shard]:
    """Returns the shards of a cohort that trains in a round."""
    return [self.fill(part) for part in self.parts(cohort, round_num)]
