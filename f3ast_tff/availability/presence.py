"""Clients that arrive and leave for good.

Ruan et al., "Towards Flexible Device Participation in Federated Learning"
(AISTATS 2021), study devices that arrive late and depart early.
"""

import dataclasses
from typing import NoReturn

import numpy as np

from f3ast_tff import protocols
from f3ast_tff import randomness
from f3ast_tff.availability import checks

NEVER = np.iinfo(np.int64).max


@dataclasses.dataclass(frozen=True, eq=False)
class Presence:
  """Client k belongs to the population in rounds a_k <= t < d_k only.

  While it does, another model says whether it is available.

  Attributes:
    model: The other model.
    arrives: a_k, the first round of each client.
    leaves: d_k, the first round without it; `NEVER` if it stays.
  """

  model: protocols.Availability
  arrives: np.ndarray
  leaves: np.ndarray

  def __post_init__(self) -> None:
    shapes = {self.arrives.shape, self.leaves.shape}
    if shapes != {(self.model.num_clients,)}:
      raise ValueError(
        f'arrives and leaves must hold a round for each of the '
        f'{self.model.num_clients} clients, but their shapes are '
        f'{self.arrives.shape} and {self.leaves.shape}.'
      )

  @property
  def num_clients(self) -> int:
    """N, with those who are not there yet or any more."""
    return self.model.num_clients

  @property
  def positively_correlated(self) -> bool:
    """As the other model says."""
    return self.model.positively_correlated

  def is_present(self, round_num: int) -> np.ndarray:
    """Returns which clients belong to the population in the round."""
    return (self.arrives <= round_num) & (round_num < self.leaves)

  def probabilities(self, round_num: int) -> np.ndarray:
    """Returns those of the other model, and 0 for who is not present."""
    chance = self.model.probabilities(round_num)
    return np.where(self.is_present(round_num), chance, 0.0)

  def __call__(self, round_num: int) -> np.ndarray:
    """Returns the boolean mask A_t."""
    return self.model(round_num) & self.is_present(round_num)

  def long_run(self) -> NoReturn:
    """Raises a ValueError."""
    raise ValueError(
      'Clients that arrive and leave have no long-run rates; choose another '
      'availability model.'
    )


def arrivals(
  model: protocols.Availability, seed: int = 0, last: int = 200, stay: int = 200
) -> Presence:
  """Arrivals: clients arrive in rounds 1 to `last` and stay for a while.

  The round is uniform, and how long a client stays is geometric. So in the end
  nobody is left, unless clients stay.

  Args:
    model: Who is available of those that are present.
    seed: Decides when clients arrive and leave.
    last: The last round in which one arrives; with 1 all are there from the
      beginning.
    stay: How many rounds a client stays on average; 0 for ever.

  Returns:
    The model.
  """
  checks.at_least_one(last, 'The last arrival')
  if stay < 0:
    raise ValueError(
      f'stay must be a number of rounds, or 0 for ever, but it is {stay}.'
    )
  rng = randomness.generator(seed, 'arrivals and departures')
  arrives = rng.integers(1, last + 1, model.num_clients)
  leaves = np.full(model.num_clients, NEVER)
  if stay:
    leaves = arrives + rng.geometric(1 / stay, model.num_clients)
  return Presence(model, arrives, leaves)
