"""Small systems: who is available together, and how many may take part.

Clients may depend on each other in any way. All of it goes through all 2^N
configurations: for a handful of clients.
"""

import dataclasses
import itertools
from typing import Optional

import numpy as np

from f3ast_tff import availability
from f3ast_tff import groups
from f3ast_tff import randomness
from f3ast_tff.theory import population

_MAX_CLIENTS = 12  # 2^12 sets of clients times 2^12 configurations.


@dataclasses.dataclass(frozen=True, eq=False)
class System:
  """Who is available together, and how many may take part.

  Attributes:
    masks: The configurations C, a boolean array of shape [number of C, N].
    probabilities: pi_C; they sum to 1.
    k: The constraint K.
    bounds: How many of each group take part; None for no such quotas.
  """

  masks: np.ndarray
  probabilities: np.ndarray
  k: int
  bounds: Optional[groups.Bounds] = None

  def __post_init__(self) -> None:
    if self.masks.ndim != 2 or self.masks.dtype != bool or not self.masks.size:
      raise ValueError(
        'masks must be a boolean array with a row per configuration and a '
        f'column per client, but it is {self.masks.dtype} of shape '
        f'{self.masks.shape}.'
      )
    if self.num_clients > _MAX_CLIENTS:
      raise ValueError(
        f'An exact region needs at most {_MAX_CLIENTS} clients, but there are '
        f'{self.num_clients}; use optimal_rates for more.'
      )
    if len(np.unique(self.masks, axis=0)) < len(self.masks):
      raise ValueError('masks must list each configuration once.')
    if self.probabilities.shape != self.masks.shape[:1]:
      raise ValueError(
        f'probabilities must hold one number for each of the '
        f'{len(self.masks)} configurations, but its shape is '
        f'{self.probabilities.shape}.'
      )
    is_distribution = (self.probabilities >= 0).all() and np.isclose(
      self.probabilities.sum(), 1.0, rtol=0, atol=1e-9
    )
    if not is_distribution:
      raise ValueError(
        'probabilities must be numbers >= 0 that sum to 1, but they are '
        f'{self.probabilities}.'
      )
    if self.k < 0 or self.k != int(self.k):
      raise ValueError(
        f'K must be a whole number >= 0, but it is {self.k}.'
      )
    if self.bounds is not None:
      of, least, most = self.bounds
      if of.size != self.num_clients or not (least <= most).all():
        raise ValueError(
          'bounds must have a group for each of the '
          f'{self.num_clients} clients and least <= most, but they do not.'
        )
      if least.sum() > self.k:
        raise ValueError(
          f'The quotas require {least.sum()} clients, but K is {self.k}.'
        )

  @property
  def num_clients(self) -> int:
    """N."""
    return self.masks.shape[1]


@dataclasses.dataclass(frozen=True, eq=False)
class Configurations:
  """The availability model of a system: one of its configurations a round.

  Attributes:
    system: The system.
    seed: Decides the draws.
  """

  system: System
  seed: int = 0

  @property
  def num_clients(self) -> int:
    """N."""
    return self.system.num_clients

  @property
  def positively_correlated(self) -> bool:
    """False: H is the one of uncorrelated clients by default."""
    return False

  def probabilities(self, round_num: int) -> np.ndarray:
    """Returns P(client k is available), the same in every round."""
    randomness.check_round(round_num)
    return self.system.probabilities @ self.system.masks

  def __call__(self, round_num: int) -> np.ndarray:
    """Returns the boolean mask A_t."""
    rng = randomness.generator(self.seed, 'availability', round_num)
    c = rng.choice(len(self.system.masks), p=self.system.probabilities)
    return self.system.masks[c]


def all_sets(num_clients: int) -> np.ndarray:
  """Returns all 2^N subsets as a boolean matrix, one per row."""
  sets = itertools.product((False, True), repeat=num_clients)
  return np.array(list(sets), bool).reshape(-1, num_clients)


def independent(q: np.ndarray, k: int) -> System:
  """Returns the system of clients available independently with chance q_k."""
  q = np.asarray(q, float)
  if q.ndim != 1 or not q.size or not ((q >= 0) & (q <= 1)).all():
    raise ValueError(
      f'q must hold one probability per client, but it is {q}.'
    )
  if q.size > _MAX_CLIENTS:
    raise ValueError(
      f'An exact region needs at most {_MAX_CLIENTS} clients, but there are '
      f'{q.size}; use optimal_rates for more.'
    )
  masks = all_sets(q.size)
  return System(masks, np.where(masks, q, 1 - q).prod(axis=1), k)


def of_model(model: availability.Availability, k: int) -> System:
  """Returns the system of an availability model of a few clients.

  Args:
    model: One that has a long run. Its clients may come in groups.
    k: The constraint K.

  Returns:
    The system: who is available together in the long run.
  """
  found = population.long_run_of(model)
  if found.q.size > _MAX_CLIENTS:
    raise ValueError(
      f'An exact region needs at most {_MAX_CLIENTS} clients, but there are '
      f'{found.q.size}.'
    )
  masks = all_sets(found.q.size)
  probabilities = np.zeros(len(masks))
  for share, q in zip(found.shares, found.chances):
    probabilities += share * np.where(masks, q, 1 - q).prod(axis=1)
  return System(masks, probabilities, k)


def introduction_example() -> System:
  """Returns the two clients of the paper's introduction, Table 1, K = 1."""
  return System(
    np.array([[True, True], [True, False], [False, True], [False, False]]),
    np.array([0.3, 0.075, 0.5, 0.125]),
    1,
  )
