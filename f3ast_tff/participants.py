"""What clients bring to a round: their examples, packed."""

from collections.abc import Collection, Iterable

import numpy as np

from f3ast_tff import config as config_lib
from f3ast_tff import packing
from f3ast_tff import randomness
from f3ast_tff import selection
from f3ast_tff.datasets import federated


class Packer:
  """Packs the examples of clients in their order of training.

  A client's order and its augmentation are drawn anew in each epoch of each
  round, as a pure function of (seed, round, client, epoch). There is always the
  same number of arrays, however many clients there are: TFF's worker keeps
  memory for every number it has seen.
  """

  def __init__(
    self,
    config: config_lib.Config,
    dataset: federated.FederatedDataset,
    num_arrays: int,
  ):
    self._config = config
    self._dataset = dataset
    self._num_arrays = num_arrays
    self.layout = packing.layout_of(self._augmented(0, 1, 0))
    self._rows = None
    if dataset.augment is None:
      self._rows = [
        packing.to_rows(self.layout, examples) for examples in dataset.train
      ]

  @property
  def num_examples(self) -> np.ndarray:
    """The number of training examples of each client."""
    return self._dataset.num_examples

  def _augmented(
    self, client: int, round_num: int, epoch: int
  ) -> federated.Examples:
    examples = self._dataset.train[client]
    if self._dataset.augment is None:
      return examples
    rng = randomness.generator(
      self._config.seed, f'augmentation in epoch {epoch}', round_num, client
    )
    return self._dataset.augment(examples, rng)

  def _epoch(self, client: int, round_num: int, epoch: int) -> np.ndarray:
    """Returns the rows of one pass over a client's data, in their order."""
    if self._rows is not None:
      rows = self._rows[client]
    else:
      examples = self._augmented(client, round_num, epoch)
      rows = packing.to_rows(self.layout, examples)
    rng = randomness.generator(
      self._config.seed, f'shuffling in epoch {epoch}', round_num, client
    )
    return rows[rng.permutation(len(rows))]

  def _pack(
    self, members: Iterable[packing.Member], batch_size: int
  ) -> list[np.ndarray]:
    hands = packing.deal(list(members), batch_size, self._num_arrays)
    return [packing.pack(hand, self.layout, batch_size) for hand in hands]

  def __call__(
    self,
    cohort: selection.Cohort,
    round_num: int,
    failed: Collection[int] = (),
  ) -> list[np.ndarray]:
    """Returns the arrays of a cohort that trains.

    Args:
      cohort: S_t and the weights.
      round_num: The round.
      failed: Clients of it that fail; they are there without examples.

    Returns:
      The arrays.
    """

    def member(client: int, weight: float) -> packing.Member:
      if client in failed:
        nothing = np.zeros((0, self.layout.width), np.uint8)
        return packing.Member(nothing, client, weight)
      epochs = [
        self._epoch(client, round_num, epoch)
        for epoch in range(self._config.local_epochs)
      ]
      return packing.Member(np.concatenate(epochs), client, weight)

    return self._pack(map(member, *cohort), self._config.batch_size)

  def as_tested(self, clients: np.ndarray, round_num: int) -> list[np.ndarray]:
    """Returns the clients' whole training sets, in the form of test examples.

    Args:
      clients: Whom Power-of-Choice asks for their loss.
      round_num: Makes no difference here.

    Returns:
      Arrays with batches of 1, which leave no row empty.
    """
    del round_num

    def member(client: int) -> packing.Member:
      as_tested = self._dataset.as_tested
      if self._rows is not None and as_tested is None:
        return packing.Member(self._rows[client], client, 0.0)
      examples = self._dataset.train[client]
      if as_tested is not None:
        examples = as_tested(examples)
      return packing.Member(packing.to_rows(self.layout, examples), client, 0.0)

    return self._pack(map(member, clients), batch_size=1)

  def as_trained(self, clients: np.ndarray, round_num: int) -> list[np.ndarray]:
    """Returns what candidates would train on, with weight 0."""
    return self(selection.Cohort(clients, np.zeros(clients.size)), round_num)
