"""Whom to choose: selection policies as pure functions.

A policy sees the available clients A_t and the constraint K_t, and returns the
cohort S_t with the weight of each member's update. When fewer than K_t clients
are available, all of them take part; when there are none, or K_t = 0, the
cohort is empty.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from f3ast_tff import rates

# Scores this close (relatively) are equal: they differ by rounding only. With
# r(0) = K p and H = sum p^2 / r all scores are equal in exact arithmetic, and
# rounding must not decide by index what chance should decide.
_TIE = 1e-9

# Losses are sums in float32, so that equal ones differ by this much.
_LOSS_TIE = 1e-5

# How many scores `_kth_largest` looks at first.
_SAMPLE = 2**16


class Cohort(NamedTuple):
  """The clients that train in a round.

  Attributes:
    clients: Their indices k, ascending.
    weights: The weight of each one's update, in the same order.
  """

  clients: np.ndarray
  weights: np.ndarray


# Maps clients to the losses of the global model on their training data.
LossesOf = Callable[[np.ndarray], np.ndarray]


def nobody_to_ask(clients: np.ndarray) -> np.ndarray:
  """Stands where no clients can be asked for their loss."""
  raise ValueError(
    f'The policy asks {clients.size} clients for their loss, but nothing says '
    'how to: mark it with @selection.needs_model, or give the situation a '
    'losses_of.'
  )


def _kth_largest(scores: np.ndarray, available: np.ndarray, k: int) -> float:
  """Returns the k-th largest score of the more than k available clients."""
  # To partition all scores would take most of the time of a selection. But the
  # k-th largest of some is at most the k-th largest of all, so that only what
  # exceeds it is left to look at.
  step = max(1, scores.size // max(_SAMPLE, 4 * k))
  some = scores[::step][available[::step]]
  bound = np.partition(some, -k)[-k] if some.size >= k else -np.inf
  exceeding = scores[available & ~(scores <= bound)]  # With NaN.
  if np.isnan(exceeding).any():
    raise ValueError('Scores must be numbers, but some are NaN.')
  if exceeding.size < k:
    return bound
  return np.partition(exceeding, -k)[-k]


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
  if k >= np.count_nonzero(available):
    return np.flatnonzero(available)
  if k == 0:
    return np.empty(0, np.intp)
  # Masks of all clients rather than copies of the available ones' scores: to
  # gather those of a random half takes longer than to compare all.
  kth_largest = _kth_largest(scores, available, k)
  tie = 0.0 if np.isinf(kth_largest) else _TIE * kth_largest
  above = available & (scores > kth_largest + tie)
  tied = available & (scores >= kth_largest - tie) & ~above
  sure = np.flatnonzero(above)
  drawn = rng.choice(np.flatnonzero(tied), k - sure.size, replace=False)
  return np.sort(np.concatenate([sure, drawn]))


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


def draw_by_share(
  p: np.ndarray, available: np.ndarray, k: int, rng: np.random.Generator
) -> np.ndarray:
  """Returns k of A_t drawn without replacement with probability p_k."""
  # Efraimidis and Spirakis (2006): the k largest of p_k / Exp(1) are a draw
  # without replacement in which each next client comes with probability p_k
  # among those left. Who has no data is never drawn.
  speed = p / rng.standard_exponential(p.size)
  return top_k(speed, available & (p > 0), k, rng)


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
  return _mean(draw_by_share(p, available, k, rng))


def draw_by_share_with_replacement(
  p: np.ndarray, available: np.ndarray, k: int, rng: np.random.Generator
) -> np.ndarray:
  """Returns k draws from A_t with probability p_k, repeated ones included."""
  candidates = np.flatnonzero(available)
  share = p[candidates]
  if not share.sum() > 0:
    return candidates[:0]
  return rng.choice(candidates, k, p=share / share.sum())


def proportional_with_replacement(
  p: np.ndarray, available: np.ndarray, k: int, rng: np.random.Generator
) -> Cohort:
  """FedAvg of Li et al. (2020), scheme I: k draws from A_t with replacement.

  Who is drawn m times trains once, with the weight of m. So the mean of the
  weights over the draws is p_k over its sum in A_t, which is not so without
  replacement. There are k draws also where fewer clients are available.

  Args:
    p: Each client's share of the data.
    available: The mask A_t.
    k: The constraint K_t.
    rng: Draws the clients.

  Returns:
    The cohort with weights m / K_t.
  """
  drawn = draw_by_share_with_replacement(p, available, k, rng)
  clients, times = np.unique(drawn, return_counts=True)
  return Cohort(clients, times / max(1, k))


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


def highest(
  losses: np.ndarray, k: int, rng: np.random.Generator
) -> np.ndarray:
  """Returns the places of the k highest losses, ties broken at random.

  Args:
    losses: One loss per candidate; one that is not finite ranks below all.
      Losses that are equal but for rounding tie.
    k: How many; all if there are fewer.
    rng: Breaks ties.

  Returns:
    Indices into `losses`, ascending.
  """
  losses = np.where(np.isfinite(losses), losses, -np.inf)
  if k >= losses.size:
    return np.arange(losses.size)
  if k == 0:
    return np.arange(0)
  kth_highest = np.sort(losses)[-k]
  is_tied = np.isclose(losses, kth_highest, rtol=_LOSS_TIE, atol=0)
  sure = np.flatnonzero((losses > kth_highest) & ~is_tied)
  drawn = rng.choice(np.flatnonzero(is_tied), k - sure.size, replace=False)
  return np.sort(np.concatenate([sure, drawn]))


def power_of_choice(
  losses_of: LossesOf,
  p: np.ndarray,
  available: np.ndarray,
  k: int,
  num_candidates: int,
  rng: np.random.Generator,
) -> Cohort:
  """Power-of-Choice (Cho et al., 2020): the highest losses of d candidates.

  Args:
    losses_of: Maps clients to the losses of the global model on their training
      data, in the same order. Nobody is asked when k = 0.
    p: Each client's share of the data.
    available: The mask A_t.
    k: The constraint K_t, the method's m.
    num_candidates: The method's d. Fewer are drawn when fewer are available;
      all of them train when d <= k.
    rng: Draws the candidates and breaks ties.

  Returns:
    The cohort with equal weights, 1 / |S_t|.
  """
  candidates = draw_by_share(
    p, available, num_candidates if k > 0 else 0, rng
  )
  if k >= candidates.size:
    return _mean(candidates)
  best = highest(np.asarray(losses_of(candidates)), k, rng)
  return _mean(np.sort(candidates[best]))


class Situation(NamedTuple):
  """All that a policy may look at in a round.

  Attributes:
    r: The participation rates r(t-1).
    p: Each client's share of the data.
    available: The mask A_t.
    k: The constraint K_t.
    beta: The step of the rates.
    correlation: The form of H.
    num_candidates: How many clients Power-of-Choice asks for their loss.
    losses_of: Asks clients for the loss of the global model on their data.
    num_predictions: How much each client predicts: its examples, or, for
      sequences, their elements. Only `released` looks at it.
  """

  r: np.ndarray
  p: np.ndarray
  available: np.ndarray
  k: int
  beta: float = 0.001
  correlation: str = rates.UNCORRELATED
  num_candidates: int = 30
  losses_of: LossesOf = nobody_to_ask
  num_predictions: np.ndarray = np.zeros(0)


Policy = Callable[[Situation, np.random.Generator], Cohort]


def needs_model(policy: Policy) -> Policy:
  """Marks a policy that asks for losses, so that it waits for the model.

  The next round is chosen while this one trains, except by such a policy.

  Args:
    policy: A policy that calls `Situation.losses_of`.

  Returns:
    The policy.
  """
  policy.needs_model = True  # type: ignore[attr-defined]
  return policy


def is_waiting_for_model(policy: Policy) -> bool:
  """Returns whether a policy is marked with `needs_model`."""
  return getattr(policy, 'needs_model', False)


# The policies by name. A program may add its own, see docs/extending.md.
POLICIES: dict[str, Policy] = {
  'f3ast': lambda s, rng: f3ast(
    s.r, s.p, s.available, s.k, rng, s.beta, s.correlation
  ),
  'proportional': lambda s, rng: proportional(s.p, s.available, s.k, rng),
  'proportional_with_replacement': lambda s, rng: proportional_with_replacement(
    s.p, s.available, s.k, rng
  ),
  'uniform': lambda s, rng: uniform(s.available, s.k, rng),
  'power_of_choice': needs_model(
    lambda s, rng: power_of_choice(
      s.losses_of, s.p, s.available, s.k, s.num_candidates, rng
    )
  ),
}
