"""How many may take part: the communication constraint K_t.

Each constraint answers `k = constraint(t)` for a round t = 1, 2, ... as a pure
function of its parameters and t, and knows its `mean` and its `maximum`.
"""

from collections.abc import Sequence
import dataclasses
import math
import numbers
from typing import Protocol

import numpy as np

from f3ast_tff import markov
from f3ast_tff import randomness

_MAXIMUM = 2**31 - 1


class Constraint(Protocol):
  """What every communication constraint can do."""

  @property
  def mean(self) -> float:
    """The long-term average of K_t."""
    ...

  @property
  def maximum(self) -> int:
    """The largest K_t."""
    ...

  def __call__(self, round_num: int) -> int:
    """Returns K_t."""
    ...


def _check_counts(counts: Sequence[int]) -> None:
  for k in counts:
    if not isinstance(k, numbers.Integral) or not 0 <= k <= _MAXIMUM:
      raise ValueError(
        'The number of clients per round K must be a whole number from 0 to '
        f'{_MAXIMUM}, but it is {k}.'
      )


@dataclasses.dataclass(frozen=True)
class Schedule:
  """K_t goes through the given values and starts over."""

  values: tuple[int, ...]

  def __post_init__(self) -> None:
    if not self.values:
      raise ValueError('A schedule of K needs at least one value.')
    _check_counts(self.values)

  @property
  def mean(self) -> float:
    """The average of the values."""
    return float(np.mean(self.values))

  @property
  def maximum(self) -> int:
    """The largest value."""
    return max(self.values)

  @property
  def minimum(self) -> int:
    """The smallest value."""
    return min(self.values)

  def __call__(self, round_num: int) -> int:
    """Returns K_t."""
    randomness.check_round(round_num)
    return self.values[(round_num - 1) % len(self.values)]


def fixed(k: int) -> Schedule:
  """K_t = k in every round."""
  return Schedule((k,))


@dataclasses.dataclass(frozen=True)
class Uniform:
  """K_t is uniform on {low, ..., high}, independently each round."""

  low: int
  high: int
  seed: int = 0

  def __post_init__(self) -> None:
    _check_counts((self.low, self.high))
    if self.low > self.high:
      raise ValueError(
        f'K uniform between {self.low} and {self.high}: the first bound must '
        'not exceed the second.'
      )

  @property
  def mean(self) -> float:
    """The middle of the two bounds."""
    return (self.low + self.high) / 2

  @property
  def maximum(self) -> int:
    """The upper bound."""
    return self.high

  @property
  def minimum(self) -> int:
    """The lower bound."""
    return self.low

  def __call__(self, round_num: int) -> int:
    """Returns K_t."""
    randomness.check_round(round_num)
    rng = randomness.generator(self.seed, 'communication', round_num)
    return int(rng.integers(self.low, self.high + 1))


@dataclasses.dataclass(frozen=True)
class MarkovLink:
  """A link that is good or bad: K_t = good or bad, a two-state Markov chain.

  Attributes:
    good: K while the link is good.
    bad: K while it is bad.
    good_to_bad: Probability that a good link turns bad.
    bad_to_good: Probability that a bad link turns good.
    seed: Decides the draws.
  """

  good: int
  bad: int
  good_to_bad: float
  bad_to_good: float
  seed: int = 0

  def __post_init__(self) -> None:
    _check_counts((self.good, self.bad))
    rates = (self.good_to_bad, self.bad_to_good)
    if not all(0 <= rate <= 1 for rate in rates) or sum(rates) == 0:
      raise ValueError(
        'A link needs probabilities in [0, 1] to turn bad and good, not both '
        f'0, but they are {self.good_to_bad} and {self.bad_to_good}.'
      )

  @property
  def mean(self) -> float:
    """The average under the stationary distribution."""
    share = self.bad_to_good / (self.good_to_bad + self.bad_to_good)
    return share * self.good + (1 - share) * self.bad

  @property
  def maximum(self) -> int:
    """The larger of the two."""
    return max(self.good, self.bad)

  @property
  def minimum(self) -> int:
    """The smaller of those that come at all."""
    if self.good_to_bad == 0:
      return self.good
    return min(self.good, self.bad) if self.bad_to_good else self.bad

  def __call__(self, round_num: int) -> int:
    """Returns K_t."""
    randomness.check_round(round_num)

    def uniforms(t: int) -> np.ndarray:
      return randomness.generator(self.seed, 'communication', t).random(1)

    is_good = markov.two_state(
      uniforms,
      round_num,
      np.array([self.good_to_bad]),
      np.array([self.bad_to_good]),
    )
    return self.good if is_good[0] else self.bad


def parse(text: str, seed: int = 0) -> Constraint:
  """Returns the constraint that a flag names.

  Args:
    text: `10`, `uniform:5,15`, `schedule:10,5,0` or `markov:10,2,0.1,0.3` (K
      when good, K when bad, probability to turn bad, to turn good).
    seed: Decides the draws.

  Returns:
    The constraint.
  """
  kind, colon, rest = text.rpartition(':')
  try:
    fields = [float(field) for field in rest.split(',')]
  except ValueError:
    fields = []
  counts = fields[:2] if kind == 'markov' else fields
  if all(count == int(count) for count in counts if math.isfinite(count)):
    k = [int(count) for count in counts if math.isfinite(count)]
    if not colon and len(fields) == len(k) == 1:
      return fixed(k[0])
    if kind == 'schedule' and len(fields) == len(k) > 0:
      return Schedule(tuple(k))
    if kind == 'uniform' and len(fields) == len(k) == 2:
      return Uniform(k[0], k[1], seed)
    if kind == 'markov' and len(fields) == 4 and len(k) == 2:
      return MarkovLink(k[0], k[1], fields[2], fields[3], seed)
  raise ValueError(
    f'Clients per round is {text!r}, but it must read like 10, uniform:5,15, '
    'schedule:10,5,0 or markov:10,2,0.1,0.3.'
  )
