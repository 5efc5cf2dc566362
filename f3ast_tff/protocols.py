"""What the parts of a round need to know of each other."""

from typing import Protocol

import numpy as np


class Availability(Protocol):
  """What every availability model can do; `availability` has them.

  The mask and the probabilities are pure functions of the model's parameters,
  its seed and the round: rounds may be asked for in any order.
  """

  @property
  def num_clients(self) -> int:
    """N."""
    ...

  @property
  def positively_correlated(self) -> bool:
    """Whether one available client makes others more likely to be available."""
    ...

  def probabilities(self, round_num: int) -> np.ndarray:
    """Returns P(client k is available in the round) for every k."""
    ...

  def __call__(self, round_num: int) -> np.ndarray:
    """Returns the boolean mask A_t of the clients available in the round."""
    ...
