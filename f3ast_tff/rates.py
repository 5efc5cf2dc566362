"""Long-term participation rates r: the equations of the paper.

H(r), equation (3), bounds the variance that selecting clients adds to the
global model. Everything here is NumPy in float64: r moves by beta = 0.001 a
round, and a score p^2 / r^2 squares whatever rounding it has. In float32, which
would be faster for millions of clients, that rounding exceeds the 1e-9 within
which `selection` lets scores tie.
"""

import math
import numbers

import numpy as np

from f3ast_tff import checks

UNCORRELATED = 'uncorrelated'
POSITIVE = 'positive'
CORRELATIONS = (UNCORRELATED, POSITIVE)

# How the step of r depends on the round; annealed:T0 is the third.
CONSTANT, CORRECTED, ANNEALED = 'constant', 'corrected', 'annealed'

# How r(0) can be chosen; the paper says "arbitrarily".
INITIAL_RATES = ('kp', 'p', 'uniform', 'tie')


def numerator(p: np.ndarray, correlation: str) -> np.ndarray:
  """Returns what stands above r_k in H: p_k^2, or p_k if correlated."""
  if correlation not in CORRELATIONS:
    raise ValueError(
      f'Correlation must be one of {", ".join(CORRELATIONS)}, but it is '
      f'{correlation!r}.'
    )
  return p if correlation == POSITIVE else p**2


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
  """Returns above / below with 0 / 0 = 0 and c / 0 = inf."""
  with np.errstate(divide='ignore', invalid='ignore', over='ignore'):
    ratio = above / below
  np.copyto(ratio, 0, where=above == 0)
  return ratio


def variance_bound(
  p: np.ndarray, r: np.ndarray, correlation: str = UNCORRELATED
) -> float:
  """Returns H(r), equation (3): sum p_k^2 / r_k, or sum p_k / r_k."""
  return float(_ratio(numerator(p, correlation), r).sum())


def gradient(
  p: np.ndarray, r: np.ndarray, correlation: str = UNCORRELATED
) -> np.ndarray:
  """Returns the gradient of H: dH/dr_k = -p_k^2 / r_k^2, or -p_k / r_k^2."""
  return -_ratio(numerator(p, correlation), r**2)


def update(r: np.ndarray, selected: np.ndarray, beta: float) -> np.ndarray:
  """Returns r(t) = (1 - beta) r(t-1) + beta 1_S, equation (5)."""
  updated = (1 - beta) * r
  # The second term for the few members of S only: all others add 0.
  members = np.nonzero(selected)
  updated[members] += beta * selected[members]
  return updated


def parse_step(how: str) -> tuple[str, float]:
  """Returns the kind of a step and, if it is annealed, its T0."""
  kind, _, text = str(how).partition(':')
  if how in (CONSTANT, CORRECTED):
    return how, 0.0
  try:
    if kind == ANNEALED and 0 <= float(text) < math.inf:
      return kind, float(text)
  except ValueError:
    pass
  raise ValueError(
    f'The step of the rates must be {CONSTANT}, {CORRECTED} or {ANNEALED}:T0 '
    f'with a number of rounds T0 >= 0, but it is {how!r}.'
  )


def step(beta: float, how: str, round_num: int) -> float:
  """Returns beta_t, the step of the rates in round t.

  Args:
    beta: The step in the long run.
    how: `constant` for beta. `annealed:T0` for max(beta, 1 / (t + T0)): until
      that is beta, r(t) is the mean of the rounds so far and of T0 rounds at
      r(0). `corrected` for beta / (1 - (1 - beta)^t), by which r(t) is the
      moving average of the rounds so far without r(0), as Adam corrects its
      moments (Kingma and Ba, 2015); then, as with `annealed:0`, r is 0 and H
      infinite until all clients with data have been counted.
    round_num: The round t = 1, 2, ...

  Returns:
    A number in (0, 1].
  """
  if how == CONSTANT:  # The most frequent one, in every round.
    return beta
  kind, t0 = parse_step(how)
  if kind == CORRECTED:
    if round_num == 1:  # Rounding must not leave something of r(0).
      return 1.0
    return min(1.0, beta / (1 - (1 - beta) ** round_num))
  return max(beta, 1 / (round_num + t0))


def weights(p: np.ndarray, r: np.ndarray) -> np.ndarray:
  """Returns the importance weights p_k / r_k of Algorithm 1, line 9."""
  return _ratio(p, r)


def initial(
  p: np.ndarray,
  clients_per_round: float,
  how: str,
  correlation: str = UNCORRELATED,
) -> np.ndarray:
  """Returns r(0).

  Algorithm 1 leaves it open, but it is not harmless: the weights p_k / r_k sum
  to 1 in the long run, and with r(0) = p they start at a sum of about K.

  Args:
    p: Each client's share of the data.
    clients_per_round: K, or the mean of K_t.
    how: `kp` for K p capped at 1, `p`, `uniform` for K / N, or `tie` for the
      rates of sum K, capped at 1, at which all clients have the same score.
    correlation: The form of H; makes a difference to `tie` only.

  Returns:
    One rate in [0, 1] per client.
  """
  if how == 'kp' or (how, correlation) == ('tie', UNCORRELATED):
    return np.minimum(1.0, clients_per_round * p)
  if how == 'p':
    return p.copy()
  if how == 'uniform':
    return np.full(p.size, min(1.0, clients_per_round / p.size))
  if how == 'tie':
    # Scores are numerator / r^2: they are equal where r is as its square root.
    root = np.sqrt(numerator(p, correlation))
    return np.minimum(1.0, clients_per_round * root / root.sum())
  raise ValueError(
    f'Initial rates must be one of {", ".join(INITIAL_RATES)}, but they are '
    f'{how!r}.'
  )


def check(p: np.ndarray, beta: float) -> None:
  """Raises a `ValueError` unless p and beta are usable."""
  if not isinstance(p, np.ndarray) or p.ndim != 1 or p.size < 1:
    raise ValueError(
      'p must hold the data share of each of N >= 1 clients, but it is '
      f'{checks.describe(p)}.'
    )
  if not (np.isfinite(p).all() and (p >= 0).all()):
    wrong = np.flatnonzero(~(np.isfinite(p) & (p >= 0)))[0]
    raise ValueError(
      f'p must hold finite numbers >= 0, but that of client {wrong} is '
      f'{p[wrong]}.'
    )
  if not np.isclose(p.sum(), 1.0):
    raise ValueError(
      f'p must sum to 1, but it sums to {p.sum():g}; divide it by its sum.'
    )
  if not isinstance(beta, numbers.Real) or not 0 < beta <= 1:
    raise ValueError(
      f'beta must be in (0, 1], but it is {checks.describe(beta)}.'
    )
