"""Clients that are available independently: the paper's five models.

`always`, `scarce`, `home_devices`, `smartphones` and `uneven` (Section 4.1 and
Appendix D.4) are one class, `Independent`, with other probabilities.
"""

import dataclasses

import numpy as np

from f3ast_tff import randomness
from f3ast_tff.availability import checks
from f3ast_tff.availability import long_run as long_run_lib

# How many clients `Independent` draws at a time.
_BLOCK = 2**14


@dataclasses.dataclass(frozen=True, eq=False)
class Independent:
  """Client k is available in round t with probability q_k f_t, independently.

  Attributes:
    q: One probability per client.
    factors: f_1 .. f_P, a factor common to all clients that repeats with period
      P. One factor of 1 means that availability does not change with time.
    seed: Decides the draws.
  """

  q: np.ndarray
  factors: np.ndarray = dataclasses.field(default_factory=lambda: np.ones(1))
  seed: int = 0

  def __post_init__(self) -> None:
    checks.probabilities(self.q, 'q')
    checks.probabilities(self.factors, 'factors')

  @property
  def num_clients(self) -> int:
    """N."""
    return self.q.size

  @property
  def positively_correlated(self) -> bool:
    """True when the common factor changes: all clients share its good hours."""
    return bool(np.ptp(self.factors) > 0)

  def probabilities(self, round_num: int) -> np.ndarray:
    """Returns q_{k,t} = q_k f_t for every client k."""
    return self.q * self._factor(round_num)

  def _factor(self, round_num: int) -> float:
    """Returns f_t."""
    randomness.check_round(round_num)
    return self.factors[(round_num - 1) % self.factors.size]

  def __call__(self, round_num: int) -> np.ndarray:
    """Returns the boolean mask A_t."""
    factor = self._factor(round_num)
    rng = randomness.generator(self.seed, 'availability', round_num)
    mask = np.empty(self.num_clients, bool)
    # In blocks, which stay in the cache; the draws are those of one big block.
    for begin in range(0, self.num_clients, _BLOCK):
      q = self.q[begin : begin + _BLOCK] * factor
      np.less(rng.random(q.size), q, out=mask[begin : begin + _BLOCK])
    return mask

  def long_run(self) -> long_run_lib.LongRun:
    """Returns a kind of round for each factor."""
    return long_run_lib.of_one_group(self.q, self.factors)


def always(num_clients: int, seed: int = 0) -> Independent:
  """Always: every client is available in every round."""
  return Independent(np.ones(num_clients), seed=seed)


def scarce(num_clients: int, seed: int = 0, q: float = 0.2) -> Independent:
  """Scarce: each client is available with the same probability q."""
  return Independent(np.full(num_clients, float(q)), seed=seed)


def _lognormal_share(num_clients: int, seed: int, sigma: float) -> np.ndarray:
  """Returns q_k = T_k / max T with T ~ lognormal(0, sigma)."""
  if not (np.isfinite(sigma) and sigma >= 0):
    raise ValueError(f'sigma must be a number >= 0, but it is {sigma}.')
  rng = randomness.generator(seed, 'availability of devices')
  hours = rng.lognormal(0.0, sigma, num_clients)
  return hours / hours.max(initial=0.0)


def home_devices(
  num_clients: int, seed: int = 0, sigma: float = 0.5
) -> Independent:
  """Home-devices: q_k = T_k / max T, T ~ lognormal(0, sigma)."""
  return Independent(_lognormal_share(num_clients, seed, sigma), seed=seed)


def smartphones(
  num_clients: int,
  seed: int = 0,
  sigma: float = 0.25,
  amplitude: float = 0.4,
  offset: float = 0.5,
  period: int = 24,
  both_ends: bool = False,
) -> Independent:
  """Smartphones: Home-devices times a sine, q_{k,t} = q_k f_t.

  f_t = amplitude sin(2 pi t / period) + offset, so that rounds 1 .. 24 are the
  paper's j = 1 .. 24 and repeat.

  Args:
    num_clients: N.
    seed: Decides q and the draws.
    sigma: Spread of the lognormal T_k.
    amplitude: Of the sine.
    offset: Of the sine.
    period: Rounds in a day.
    both_ends: Whether the day's points go from 0 to 2 pi, both included, as in
      the authors' released code, instead of from 2 pi / period to 2 pi.

  Returns:
    The model.
  """
  if period < 1:
    raise ValueError(f'period must be at least 1 round, but it is {period}.')
  angles = 2 * np.pi * np.arange(1, period + 1) / period
  if both_ends:
    angles = np.linspace(0, 2 * np.pi, period)
  factors = amplitude * np.sin(angles) + offset
  return Independent(_lognormal_share(num_clients, seed, sigma), factors, seed)


def uneven(p: np.ndarray, seed: int = 0) -> Independent:
  """Uneven: q_k proportional to 1 / p_k.

  The paper leaves the scale open; the client with the least data is always
  available: q_k = min p / p_k.

  Args:
    p: Each client's share of the data, all positive.
    seed: Decides the draws.

  Returns:
    The model.
  """
  p = np.asarray(p, float)
  if not p.size or not (p > 0).all():
    which = f'client {np.argmin(p > 0)} has none' if p.size else 'there is none'
    raise ValueError(
      'Uneven availability is 1 / p_k and needs clients that all have data, '
      f'but {which}; leave clients without data out, or choose another model.'
    )
  return Independent(p.min() / p, seed=seed)
