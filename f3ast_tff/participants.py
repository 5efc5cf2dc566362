"""What clients bring to a round: their examples, packed."""

import numpy as np

from f3ast_tff import config as config_lib
from f3ast_tff import packing
from f3ast_tff import randomness
from f3ast_tff import selection
from f3ast_tff.datasets import federated

# Losses need no batches of a given size; larger ones are faster.
LOSS_BATCH_SIZE = 64


class Packer:
  """Packs the examples of the selected clients in their order of training.

  A client's order and its augmentation are drawn anew in each epoch of each
  round, as a pure function of (seed, round, client, epoch).
  """

  def __init__(
    self,
    config: config_lib.Config,
    dataset: federated.FederatedDataset,
    num_places: int,
  ):
    self._config = config
    self._dataset = dataset
    self._num_places = num_places
    self.layout = packing.layout_of(self._augmented(0, 1, 0))
    self._rows = None
    if dataset.augment is None:
      self._rows = [
        packing.to_rows(self.layout, examples) for examples in dataset.train
      ]
    self._absent = packing.absent(self.layout, config.batch_size)
    self._num_asked = min(config.num_candidates, len(dataset.train))

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
    self, cohort: selection.Cohort, round_num: int
  ) -> list[np.ndarray]:
    """Returns one packed array per client of the cohort."""
    participants = []
    for client, weight in zip(*cohort):
      epochs = [
        self._epoch(client, round_num, epoch)
        for epoch in range(self._config.local_epochs)
      ]
      participants.append(
        packing.pack(
          np.concatenate(epochs), client, weight, self._config.batch_size
        )
      )
    return participants

  def __call__(
    self, cohort: selection.Cohort, round_num: int
  ) -> list[np.ndarray]:
    """Returns one packed array per place; empty places are filled up.

    TFF's worker keeps memory for every number of participants it has seen, so
    there are always as many.
    """
    participants = self._pack(cohort, round_num)
    missing = self._num_places - len(participants)
    return participants + [self._absent] * missing

  def as_tested(self, clients: np.ndarray, round_num: int) -> list[np.ndarray]:
    """Returns the clients' whole training sets, in the form of test examples.

    Args:
      clients: Whom Power-of-Choice asks for their loss.
      round_num: Makes no difference here.

    Returns:
      One packed array per candidate; empty places are filled up.
    """
    del round_num
    prepare = self._dataset.as_tested
    packed = []
    for client in clients:
      if self._rows is not None:
        rows = self._rows[client]
      else:
        examples = self._dataset.train[client]
        rows = packing.to_rows(
          self.layout, examples if prepare is None else prepare(examples)
        )
      packed.append(packing.pack(rows, client, 0.0, LOSS_BATCH_SIZE))
    absent = packing.absent(self.layout, LOSS_BATCH_SIZE)
    return packed + [absent] * (self._num_asked - len(packed))

  def as_trained(self, clients: np.ndarray, round_num: int) -> list[np.ndarray]:
    """Returns what candidates would train on, with weight 0."""
    cohort = selection.Cohort(clients, np.zeros(clients.size))
    packed = self._pack(cohort, round_num)
    return packed + [self._absent] * (self._num_asked - len(packed))
