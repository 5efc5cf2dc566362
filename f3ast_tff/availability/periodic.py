"""Availability that changes with the round, the same way in every period.

`sine`, `staircase` and `interleaved` are the three ways in which availability
changes in Xiang et al., "Efficient Federated Learning against Heterogeneous and
Non-stationary Client Unavailability" (FedAWE, NeurIPS 2024), with its numbers.
`cyclic` is that of Wang and Ji, "A Lightweight Method for Tackling Unknown
Participation Statistics in Federated Averaging" (FedAU, ICLR 2024). `blocks`
come by turns, as in Eichner et al., "Semi-Cyclic Stochastic Gradient Descent"
(ICML 2019), whose reason is that devices charge at night: `time_zones` has the
sine of the paper's Smartphones in several of them.
"""

import dataclasses

import numpy as np

from f3ast_tff import randomness
from f3ast_tff.availability import checks
from f3ast_tff.availability import groups as groups_lib
from f3ast_tff.availability import independent
from f3ast_tff.availability import long_run as long_run_lib

# Covariances at most this are 0 but for rounding.
_ZERO = 1e-12


@dataclasses.dataclass(frozen=True, eq=False)
class Periodic:
  """Client k of group g is available with probability q_k f_{t,g}.

  Given the round, clients are independent. Where all have the same factors,
  `Independent` is the same model.

  Attributes:
    q: One probability per client.
    factors: f, shape [period, number of groups]; round 1 is the first row.
    groups: The group of each client, from 0.
    seed: Decides the draws.
  """

  q: np.ndarray
  factors: np.ndarray
  groups: np.ndarray
  seed: int = 0

  def __post_init__(self) -> None:
    checks.probabilities(self.q, 'q')
    if self.factors.ndim != 2:
      raise ValueError(
        'factors must have a row per round of the period and a column per '
        f'group, but their shape is {self.factors.shape}.'
      )
    checks.probabilities(self.factors.ravel(), 'factors')
    checks.group_of(self.groups, self.q.size, self.factors.shape[1])

  @property
  def num_clients(self) -> int:
    """N."""
    return self.q.size

  @property
  def positively_correlated(self) -> bool:
    """True when the factors of two clients are so, on average over all pairs.

    The bound on the variance with p^2 / r is for clients of whom no two are;
    with groups that take turns some pairs are and others are the opposite.
    """
    sizes = np.bincount(
      self.groups[self.q > 0], minlength=self.factors.shape[1]
    )
    # The covariances of all pairs: those of the sum but for the single ones.
    pairs = np.var(self.factors @ sizes) - np.var(self.factors, axis=0) @ sizes
    return bool(pairs > _ZERO)

  def probabilities(self, round_num: int) -> np.ndarray:
    """Returns q_k f_{t,g} for every client k."""
    randomness.check_round(round_num)
    return self.q * self.factors[(round_num - 1) % len(self.factors)][
      self.groups
    ]

  def __call__(self, round_num: int) -> np.ndarray:
    """Returns the boolean mask A_t."""
    rng = randomness.generator(self.seed, 'availability', round_num)
    return rng.random(self.num_clients) < self.probabilities(round_num)

  def long_run(self) -> long_run_lib.LongRun:
    """Returns the rounds of the period."""
    period = len(self.factors)
    return long_run_lib.LongRun(
      self.q,
      self.groups,
      self.factors,
      np.full(period, 1 / period),
      is_cycle=True,
    )


def _sine(gamma: float, period: int) -> np.ndarray:
  """Returns gamma sin(2 pi t / P) + 1 - gamma for a period, at most 1."""
  checks.at_least_one(period, 'The period')
  if not 0 <= gamma <= 0.5:
    raise ValueError(f'gamma must be in [0, 0.5], but it is {gamma}.')
  t = np.arange(1, period + 1)
  return gamma * np.sin(2 * np.pi * t / period) + 1 - gamma


def sine(
  q: np.ndarray, seed: int = 0, gamma: float = 0.3, period: int = 20
) -> independent.Independent:
  """Sine: q_k (gamma sin(2 pi t / period) + 1 - gamma).

  Args:
    q: One probability per client.
    seed: Decides the draws.
    gamma: How much availability falls: at worst to 1 - 2 gamma.
    period: Rounds in a period.

  Returns:
    The model.
  """
  return independent.Independent(q, _sine(gamma, period), seed)


def staircase(
  q: np.ndarray, seed: int = 0, low: float = 0.4, period: int = 20
) -> independent.Independent:
  """Staircase: q_k in the first half of a period, low q_k in the second.

  Args:
    q: One probability per client.
    seed: Decides the draws.
    low: The factor of the second half.
    period: Rounds in a period; the middle one of an odd number is in the first
      half.

  Returns:
    The model.
  """
  checks.at_least_one(period, 'The period')
  if not 0 <= low <= 1:
    raise ValueError(f'low must be in [0, 1], but it is {low}.')
  factors = np.where(2 * np.arange(period) < period, 1.0, low)
  return independent.Independent(q, factors, seed)


def interleaved(
  q: np.ndarray,
  seed: int = 0,
  gamma: float = 0.3,
  period: int = 20,
  least: float = 0.1,
) -> Periodic:
  """Interleaved sine: as `sine`, but 0 wherever that is below `least`.

  So clients of small q_k are not available at all in bad rounds, or never.

  Args:
    q: One probability per client.
    seed: Decides the draws.
    gamma: As for `sine`.
    period: As for `sine`.
    least: Probabilities below it are 0.

  Returns:
    The model.
  """
  factors = _sine(gamma, period)
  # How many rounds of the period are left says which, as those that are have
  # the largest factors: clients with the same number are a group.
  left = (q * factors[:, None] >= least).sum(axis=0)
  descending = np.append(np.inf, np.sort(factors)[::-1])
  table = np.where(
    factors[:, None] >= descending, factors[:, None], 0.0
  )
  return Periodic(q, table, left, seed)


@dataclasses.dataclass(frozen=True, eq=False)
class Cyclic:
  """Client k is on for some rounds of every period, one after another.

  Attributes:
    begins: The round of the period in which each client goes on, from 0.
    lengths: For how many rounds each client is on.
    period: Rounds in a period.
  """

  begins: np.ndarray
  lengths: np.ndarray
  period: int

  @property
  def num_clients(self) -> int:
    """N."""
    return self.begins.size

  @property
  def positively_correlated(self) -> bool:
    """False: clients begin independently of each other."""
    return False

  def probabilities(self, round_num: int) -> np.ndarray:
    """Returns 1 or 0: nothing is random once the beginnings are drawn."""
    return self(round_num).astype(float)

  def __call__(self, round_num: int) -> np.ndarray:
    """Returns the boolean mask A_t."""
    randomness.check_round(round_num)
    return (round_num - self.begins) % self.period < self.lengths

  def long_run(self) -> long_run_lib.LongRun:
    """Returns the rounds of the period; each client is a group."""
    n = self.num_clients
    masks = np.array([self(t) for t in range(1, self.period + 1)])
    shares = np.full(self.period, 1 / self.period)
    return long_run_lib.LongRun(
      np.ones(n), np.arange(n), masks.astype(float), shares, is_cycle=True
    )


def cyclic(q: np.ndarray, seed: int = 0, period: int = 100) -> Cyclic:
  """Cyclic: client k is on for about q_k of a period, which it begins anywhere.

  Args:
    q: One probability per client.
    seed: Decides where in its period a client begins.
    period: Rounds in a period; a client is on for at least one of them.

  Returns:
    The model.
  """
  checks.probabilities(q, 'q')
  checks.at_least_one(period, 'The period')
  rng = randomness.generator(seed, 'begin of cycles')
  lengths = np.maximum(1, np.rint(period * q))
  return Cyclic(rng.integers(period, size=q.size), lengths, period)


def time_zones(
  q: np.ndarray,
  seed: int = 0,
  zones: int = 4,
  period: int = 24,
  amplitude: float = 0.4,
  offset: float = 0.5,
) -> Periodic:
  """Time zones: q_k f(t + P g / zones), with f the sine of Smartphones.

  Args:
    q: One probability per client.
    seed: Decides who is in which zone, and the draws.
    zones: How many zones, evenly around the day. Clients are dealt to them at
      random.
    period: Rounds in a day.
    amplitude: Of the sine.
    offset: Of the sine.

  Returns:
    The model.
  """
  checks.probabilities(q, 'q')
  checks.at_least_one(period, 'The period')
  groups = groups_lib.deal(q.size, zones, seed)
  t = np.arange(1, period + 1)[:, None]
  day = t / period + np.arange(zones) / zones
  return Periodic(
    q, amplitude * np.sin(2 * np.pi * day) + offset, groups, seed
  )


def blocks(
  q: np.ndarray, seed: int = 0, groups: int = 2, length: int = 10
) -> Periodic:
  """Blocks: groups of clients take turns, each for `length` rounds.

  Clients of one block are positively correlated, those of different blocks
  negatively, and so are all pairs on average.

  Args:
    q: One probability per client, in the rounds of its block.
    seed: Decides who is in which block, and the draws.
    groups: How many blocks. Clients are dealt to them at random.
    length: For how many rounds a block has its turn.

  Returns:
    The model.
  """
  checks.probabilities(q, 'q')
  checks.at_least_one(length, 'The length of a turn')
  dealt = groups_lib.deal(q.size, groups, seed)
  return Periodic(q, np.repeat(np.eye(groups), length, axis=0), dealt, seed)
