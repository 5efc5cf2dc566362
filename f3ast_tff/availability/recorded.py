"""Rounds of a model that were drawn beforehand."""

import dataclasses

import numpy as np

from f3ast_tff import protocols
from f3ast_tff import randomness


@dataclasses.dataclass(frozen=True, eq=False)
class Recorded:
  """The masks of a model's first rounds, drawn beforehand.

  Attributes:
    masks: A_1, A_2, ..., one per row.
    model: The model that they are from.
  """

  masks: np.ndarray
  model: protocols.Availability

  @property
  def num_clients(self) -> int:
    """N."""
    return self.model.num_clients

  @property
  def positively_correlated(self) -> bool:
    """As the model says."""
    return self.model.positively_correlated

  def probabilities(self, round_num: int) -> np.ndarray:
    """Returns what the model says."""
    return self.model.probabilities(round_num)

  def __call__(self, round_num: int) -> np.ndarray:
    """Returns the boolean mask A_t."""
    randomness.check_round(round_num)
    if round_num > len(self.masks):
      raise ValueError(
        f'{len(self.masks)} rounds are recorded, but round {round_num} was '
        'wanted.'
      )
    return self.masks[round_num - 1]
