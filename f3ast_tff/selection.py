"""Whom to choose: selection policies as pure functions.

A policy sees the available clients A_t and the constraint K_t, and returns the
cohort S_t with the weight of each member's update. When fewer than K_t clients
are available, all of them take part; when there are none, or K_t = 0, the
cohort is empty.
"""

from collections.abc import Callable, Mapping
import types
from typing import NamedTuple

import numpy as np

from f3ast_tff import rates

# Scores this close (relatively) are equal: they differ by rounding only. With
# r(0) = K p all scores are equal in exact arithmetic, and rounding must not
# decide by index what chance should decide.
_TIE = 1e-9


class Cohort(NamedTuple):
  """The clients that train in a round.

  Attributes:
    clients: Their indices k, ascending.
    weights: The weight of each one's update, in the same order.
  """

  clients: np.ndarray
  weights: np.ndarray


def top_k(
  scores: np.ndarray, available: np.ndarray, k: int, rng: np.random.Generator
) -> np.ndarray:
  """Returns the k available clients with the largest scores, ascending.

  This solves equation (4), the argmax over the feasible sets, because a set's
  utility is the sum of its members'. Equal scores are broken at random. The
  work grows linearly with the number of clients.

  Args:
    scores: One score >= 0 per client, infinity allowed.
    available: The mask A_t.
    k: How many to take; all available ones if there are fewer.
    rng: Breaks ties.

  Returns:
    Client indices.
  """
  candidates = np.flatnonzero(available)
  if k >= candidates.size:
    return candidates
  if k == 0:
    return candidates[:0]
  candidate_scores = scores[candidates]
  if np.isnan(candidate_scores).any():
    raise ValueError('Scores must be numbers, but some are NaN.')
  kth_largest = np.partition(candidate_scores, -k)[-k]
  if np.isinf(kth_largest):
    tied = np.isinf(candidate_scores)
  else:
    tied = np.abs(candidate_scores - kth_largest) <= _TIE * kth_largest
  above = candidates[(candidate_scores > kth_largest) & ~tied]
  drawn = rng.choice(candidates[tied], k - above.size, replace=False)
  return np.sort(np.concatenate([above, drawn]))


def f3ast(
  r: np.ndarray,
  p: np.ndarray,
  available: np.ndarray,
  k: int,
  rng: np.random.Generator,
  beta: float = 0.001,
  correlation: str = rates.UNCORRELATED,
) -> Cohort:
  """F3AST, Algorithm 1: choose greedily by -grad H(r), weight by p_k / r_k.

  Args:
    r: The participation rates r(t-1).
    p: Each client's share of the data.
    available: The mask A_t.
    k: The constraint K_t.
    rng: Breaks ties.
    beta: The step of the rates.
    correlation: The form of H.

  Returns:
    The cohort S_t with weights p_k / r_k(t).
  """
  # Line 4: S_t maximises -grad H(r(t-1)) . 1_S over the feasible sets.
  clients = top_k(-rates.gradient(p, r, correlation), available, k, rng)
  # Line 5: r(t) = (1 - beta) r(t-1) + beta 1_S, here for the members of S.
  rates_of_selected = rates.update(r[clients], np.ones(clients.size), beta)
  # Line 9: Delta = sum over S of p_k / r_k(t) v_k, with the rates of line 5.
  return Cohort(clients, rates.weights(p[clients], rates_of_selected))


def _mean(clients: np.ndarray) -> Cohort:
  """Returns a cohort whose updates are averaged with equal weights."""
  return Cohort(clients, np.full(clients.size, 1 / max(1, clients.size)))


def proportional(
  p: np.ndarray, available: np.ndarray, k: int, rng: np.random.Generator
) -> Cohort:
  """FedAvg and FedAdam: k of A_t without replacement, with probability p_k.

  Args:
    p: Each client's share of the data.
    available: The mask A_t.
    k: The constraint K_t.
    rng: Draws the clients.

  Returns:
    The cohort with equal weights, 1 / |S_t|.
  """
  # Efraimidis and Spirakis (2006): the k largest of p_k / Exp(1) are a draw
  # without replacement in which each next client comes with probability p_k
  # among those left. Clients with p_k = 0 come last.
  speed = p / rng.standard_exponential(p.size)
  return _mean(top_k(speed, available, k, rng))


def uniform(
  available: np.ndarray, k: int, rng: np.random.Generator
) -> Cohort:
  """K of A_t without replacement, all equally likely; equal weights.

  Args:
    available: The mask A_t.
    k: The constraint K_t.
    rng: Draws the clients.

  Returns:
    The cohort with equal weights, 1 / |S_t|.
  """
  # All scores tie, so chance decides.
  return _mean(top_k(np.zeros(available.size), available, k, rng))


class Situation(NamedTuple):
  """All that a policy may look at in a round."""

  r: np.ndarray
  p: np.ndarray
  available: np.ndarray
  k: int
  beta: float
  correlation: str


Policy = Callable[[Situation, np.random.Generator], Cohort]

# The policies by name.
POLICIES: Mapping[str, Policy] = types.MappingProxyType({
  'f3ast': lambda s, rng: f3ast(
    s.r, s.p, s.available, s.k, rng, s.beta, s.correlation
  ),
  'proportional': lambda s, rng: proportional(s.p, s.available, s.k, rng),
  'uniform': lambda s, rng: uniform(s.available, s.k, rng),
})
