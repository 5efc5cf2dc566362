"""Who is available: models of intermittent client availability.

Each model answers two questions about a round t = 1, 2, ...:

  mask = model(t)                  which of the N clients are available (A_t)
  q = model.probabilities(t)       with which probability each one is

Both are pure functions of the model's parameters, its seed and t. The five
models of the paper (Section 4.1 and Appendix D.4) are `always`, `scarce`,
`home_devices`, `smartphones` and `uneven`; all are one class, `Independent`,
with other probabilities. This module needs NumPy only and is useful alone.
"""

from collections.abc import Callable
import dataclasses
from typing import Protocol

import numpy as np

from f3ast_tff import markov
from f3ast_tff import randomness

# How many clients `Independent` draws at a time.
_BLOCK = 2**14


class Availability(Protocol):
  """What every availability model can do."""

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


def _check_probabilities(q: np.ndarray, name: str) -> None:
  if q.ndim != 1 or q.size < 1:
    raise ValueError(
      f'{name} must hold one number for each of N >= 1 clients, but its shape '
      f'is {q.shape}.'
    )
  if not ((q >= 0) & (q <= 1)).all():
    raise ValueError(
      f'{name} must hold probabilities in [0, 1], but it ranges from '
      f'{q.min()} to {q.max()}.'
    )


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
    _check_probabilities(self.q, 'q')
    _check_probabilities(self.factors, 'factors')

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


@dataclasses.dataclass(frozen=True, eq=False)
class Markov:
  """Each client is a two-state Markov chain, on or off, in equilibrium.

  Attributes:
    on_to_off: Per client, the probability to leave when available.
    off_to_on: Per client, the probability to return when not.
    seed: Decides the draws.
  """

  on_to_off: np.ndarray
  off_to_on: np.ndarray
  seed: int = 0

  def __post_init__(self) -> None:
    _check_probabilities(self.on_to_off, 'on_to_off')
    _check_probabilities(self.off_to_on, 'off_to_on')
    if self.on_to_off.shape != self.off_to_on.shape:
      raise ValueError(
        'on_to_off and off_to_on must have one entry per client each, but '
        f'have {self.on_to_off.size} and {self.off_to_on.size}.'
      )
    if not (self.on_to_off + self.off_to_on > 0).all():
      raise ValueError(
        'on_to_off and off_to_on must not both be 0 for a client, or its '
        'availability would never change.'
      )

  @property
  def num_clients(self) -> int:
    """N."""
    return self.on_to_off.size

  @property
  def positively_correlated(self) -> bool:
    """False: the chains are independent of each other."""
    return False

  def probabilities(self, round_num: int) -> np.ndarray:
    """Returns the stationary probability to be available."""
    randomness.check_round(round_num)
    return self.off_to_on / (self.on_to_off + self.off_to_on)

  def __call__(self, round_num: int) -> np.ndarray:
    """Returns the boolean mask A_t."""
    randomness.check_round(round_num)

    def uniforms(t: int) -> np.ndarray:
      rng = randomness.generator(self.seed, 'availability', t)
      return rng.random(self.num_clients)

    return markov.two_state(
      uniforms, round_num, self.on_to_off, self.off_to_on
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Recorded:
  """The masks of a model's first rounds, drawn beforehand.

  Attributes:
    masks: A_1, A_2, ..., one per row.
    model: The model that they are from.
  """

  masks: np.ndarray
  model: Availability

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


# The paper's five models by name; each takes (p, seed). A program may add its
# own, see docs/extending.md.
MODELS: dict[str, Callable[[np.ndarray, int], Availability]] = {
  'always': lambda p, seed: always(p.size, seed),
  'scarce': lambda p, seed: scarce(p.size, seed),
  'home_devices': lambda p, seed: home_devices(p.size, seed),
  'smartphones': lambda p, seed: smartphones(p.size, seed),
  'uneven': uneven,
}
