"""What the selected clients bring to a round: their examples, packed."""

import numpy as np

from f3ast_tff import config as config_lib
from f3ast_tff import packing
from f3ast_tff import randomness
from f3ast_tff import selection
from f3ast_tff.datasets import federated


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

  def __call__(
    self, cohort: selection.Cohort, round_num: int
  ) -> list[np.ndarray]:
    """Returns one packed array per place; empty places are filled up.

    TFF's worker keeps memory for every number of participants it has seen, so
    there are always as many.
    """
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
    missing = self._num_places - len(participants)
    return participants + [self._absent] * missing
