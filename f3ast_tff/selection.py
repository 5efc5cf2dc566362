"""How clients are selected: what a policy sees, and what policies share.

A policy maps a `Situation` to a `Cohort`, S_t and its weights, and is a pure
function; `methods` has them. A `Method` can change what a policy selects and
weights, and keep numbers of each client from round to round, which are part of
the server's state. `selector` puts them together. This module needs NumPy only.
"""

from collections.abc import Callable, Mapping
import dataclasses
import types
from typing import NamedTuple, Optional

import numpy as np

from f3ast_tff import groups
from f3ast_tff import rates
from f3ast_tff import vectors as vectors_lib

# Scores this close (relatively) are equal: they differ by rounding only. With
# r(0) = K p and H = sum p^2 / r all scores are equal in exact arithmetic, and
# rounding must not decide by index what chance should decide.
_TIE = 1e-9

# How many scores `_kth_largest` looks at first.
_SAMPLE = 2**16


class Cohort(NamedTuple):
  """The clients that train in a round, S_t.

  Attributes:
    clients: Their indices k, ascending.
    weights: The weight of each one's update, in the same order.
  """

  clients: np.ndarray
  weights: np.ndarray


# Maps clients to the losses of the global model on their training data.
LossesOf = Callable[[np.ndarray], np.ndarray]


def no_losses(clients: np.ndarray) -> np.ndarray:
  """Stands where clients cannot be queried for their loss."""
  raise ValueError(
    f'The policy queries {clients.size} clients for their loss, but nothing '
    'says how to: mark it with @selection.needs_losses, or give the selector a '
    'losses_of.'
  )


# Numbers of each client, or one for all, by name.
Kept = Mapping[str, np.ndarray]


class Situation(NamedTuple):
  """All that a policy may look at in a round.

  Attributes:
    r: The participation rates r(t-1).
    p: Each client's share of the objective, by default that of the data.
    available: The mask A_t.
    k: The constraint K_t.
    beta: The step of the rates.
    correlation: The form of H.
    num_candidates: How many clients Power-of-Choice queries for their loss.
    losses_of: Queries clients for the loss of the global model on their data.
    num_predictions: How much each client predicts: its examples, or, for
      sequences, their elements. Only `methods.released` looks at it.
    delivery: The probabilities d_k to deliver, if scores are to make use of
      them; else None.
    bounds: How many of each group take part; None for no such quotas. Only for
      policies that are marked with `keeps_quotas`.
    round_num: The round t.
    kept: What the method keeps of each client, by name.
  """

  r: np.ndarray
  p: np.ndarray
  available: np.ndarray
  k: int
  beta: float = 0.001
  correlation: str = rates.UNCORRELATED
  num_candidates: int = 30
  losses_of: LossesOf = no_losses
  num_predictions: np.ndarray = np.zeros(0)
  delivery: Optional[np.ndarray] = None
  bounds: Optional[groups.Bounds] = None
  round_num: int = 1
  kept: Kept = types.MappingProxyType({})


Policy = Callable[[Situation, np.random.Generator], Cohort]


def needs_losses(policy: Policy) -> Policy:
  """Marks a policy that queries losses, so that it waits for the model.

  The next round is selected while this one trains, except by such a policy.

  Args:
    policy: A policy that calls `Situation.losses_of`.

  Returns:
    The policy.
  """
  policy.needs_losses = True  # type: ignore[attr-defined]
  return policy


def takes_unavailable(policy: Policy) -> Policy:
  """Marks a policy that also takes clients that are not available."""
  policy.takes_unavailable = True  # type: ignore[attr-defined]
  return policy


def averages(policy: Policy) -> Policy:
  """Marks a policy whose weights are those of a mean.

  If some clients deliver nothing, it is the mean over the others.

  Args:
    policy: A policy whose weights sum to 1.

  Returns:
    The policy.
  """
  policy.averages = True  # type: ignore[attr-defined]
  return policy


def keeps_quotas(policy: Policy) -> Policy:
  """Marks a policy that keeps within `Situation.bounds`; others are refused."""
  policy.keeps_quotas = True  # type: ignore[attr-defined]
  return policy


def like(policy: Policy, changed: Policy, is_mean: bool = True) -> Policy:
  """Returns a changed policy with the marks of the one that it is made of.

  Args:
    policy: The one that it is made of.
    changed: The changed one.
    is_mean: Whether its weights are still those of a mean if the policy's are.

  Returns:
    The changed policy.
  """
  changed.__dict__.update(policy.__dict__)
  changed.__name__ = getattr(policy, '__name__', changed.__name__)
  if not is_mean:
    changed.__dict__.pop('averages', None)
  return changed


def _data_shares(s: Situation, cohort: Cohort) -> np.ndarray:
  return s.p[cohort.clients]


@dataclasses.dataclass(frozen=True)
class Method:
  """What a method adds to a selection; `methods` has them, one file each.

  Attributes:
    wrap: Maps the policy to the one that is used: other weights, for example.
    initial: Maps p to what is kept of each client before the first round.
    next: Maps (situation, cohort) to what is kept after the round; the cohort
      is those whose updates count. Losses asked for again cost nothing. What
      there was, by default.
    vectors: What it does with vectors of the model's size; None for none.
    state_weights: Maps (situation, cohort) to the weights of the state sum, see
      `vectors`; p_k by default. The cohort is those who deliver.
  """

  wrap: Callable[[Policy], Policy] = lambda policy: policy
  initial: Callable[[np.ndarray], Kept] = lambda p: {}
  next: Callable[[Situation, Cohort], Kept] = lambda s, cohort: s.kept
  vectors: Optional[vectors_lib.Vectors] = None
  state_weights: Callable[[Situation, Cohort], np.ndarray] = _data_shares


NO_METHOD = Method()


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
  scores: np.ndarray,
  available: np.ndarray,
  k: int,
  rng: np.random.Generator,
  bounds: Optional[groups.Bounds] = None,
) -> np.ndarray:
  """Returns the k available clients with the largest scores, ascending.

  This solves equation (4), the argmax over the feasible sets, because a set's
  utility is the sum of its members'. Equal scores are broken at random. The
  work grows linearly with the number of clients, if there are no quotas.

  Args:
    scores: One score >= 0 per client, infinity allowed.
    available: The mask A_t.
    k: How many to take; all available ones if there are fewer.
    rng: Breaks ties.
    bounds: Quotas of groups, if there are any: then the best feasible set.

  Returns:
    Client indices.
  """
  if bounds is not None:
    return groups.best_set(scores, available, k, bounds, rng, _TIE)
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


def draw_by_share(
  p: np.ndarray,
  available: np.ndarray,
  k: int,
  rng: np.random.Generator,
  bounds: Optional[groups.Bounds] = None,
) -> np.ndarray:
  """Returns k of A_t drawn without replacement with probability p_k."""
  # Efraimidis and Spirakis (2006): the k largest of p_k / Exp(1) are a draw
  # without replacement in which each next client comes with probability p_k
  # among those left, or, with quotas, among those left for whom there is room.
  # Who has no data is never drawn.
  speed = p / rng.standard_exponential(p.size)
  return top_k(speed, available & (p > 0), k, rng, bounds)


def draw_by_share_with_replacement(
  p: np.ndarray, available: np.ndarray, k: int, rng: np.random.Generator
) -> np.ndarray:
  """Returns k draws from A_t with probability p_k, repeated ones included."""
  candidates = np.flatnonzero(available)
  share = p[candidates]
  if not share.sum() > 0:
    return candidates[:0]
  return rng.choice(candidates, k, p=share / share.sum())


def with_equal_weights(clients: np.ndarray) -> Cohort:
  """Returns a cohort whose updates are averaged with equal weights, 1 / |S|."""
  return Cohort(clients, np.full(clients.size, 1 / max(1, clients.size)))
