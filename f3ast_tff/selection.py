"""Who takes part in round t, given the rates r(t-1): `Selector`.

  A_t = availability(t)                     who is available
  K_t = constraint(t)                       how many may take part
  l_g, m_g = quotas(t)                      how many of a group, if asked for
  S_t, weights = policy(r(t-1), A_t, K_t)   whom the method selects
  D_t = delivery(t, S_t)                    who of them delivers; else all do

A `Method` can change what a policy selects and weights, and keep numbers of
each client from round to round, which are part of the server's state. A policy
is a pure function; `methods` has them. When fewer than K_t clients are
available, all of them take part; when there are none, or K_t = 0, the cohort is
empty. This module needs NumPy only.
"""

from collections.abc import Callable, Iterator, Mapping
import dataclasses
import functools
import math
import types
from typing import NamedTuple, Optional

import numpy as np

from f3ast_tff import checks
from f3ast_tff import communication
from f3ast_tff import delivery as delivery_lib
from f3ast_tff import groups
from f3ast_tff import protocols
from f3ast_tff import randomness
from f3ast_tff import rates
from f3ast_tff import vectors as vectors_lib

# Scores this close (relatively) are equal: they differ by rounding only. With
# r(0) = K p and H = sum p^2 / r all scores are equal in exact arithmetic, and
# rounding must not decide by index what chance should decide.
_TIE = 1e-9

# The name under which the step of the rates is kept, if it changes.
STEP = 'step'

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
      is those whose updates count. Losses asked for again cost nothing.
    vectors: What it does with vectors of the model's size; None for none.
    state_weights: Maps (situation, cohort) to the weights of the state sum, see
      `vectors`; p_k by default. The cohort is those who deliver.
  """

  wrap: Callable[[Policy], Policy] = lambda policy: policy
  initial: Callable[[np.ndarray], Kept] = lambda p: {}
  next: Callable[[Situation, Cohort], Kept] = lambda s, cohort: {}
  vectors: Optional[vectors_lib.Vectors] = None
  state_weights: Callable[[Situation, Cohort], np.ndarray] = _data_shares


NO_METHOD = Method()


class Selection(NamedTuple):
  """Who takes part in a round.

  Attributes:
    available: The mask A_t.
    cohort: Whom r counts, and the weights: S_t, or those of S_t that deliver.
    lost: The members of S_t that deliver nothing, ascending. If they are in
      the cohort, their weights are 0.
    kept: What the method keeps after the round, if all others count.
    state_weights: The cohort's weights in the state sum; see `vectors`.
    kept_without: Maps clients whose updates do not count to what is kept then.
  """

  available: np.ndarray
  cohort: Cohort
  lost: np.ndarray = np.zeros(0, np.intp)
  kept: Kept = types.MappingProxyType({})
  state_weights: np.ndarray = np.zeros(0)
  kept_without: Callable[[np.ndarray], Kept] = lambda clients: {}


class SimulatedRound(NamedTuple):
  """A round without training.

  Attributes:
    round_num: The round t.
    available: The mask A_t.
    cohort: Whom r counts, and the weights; see `Selection`.
    rates: r(t), the rates after it.
  """

  round_num: int
  available: np.ndarray
  cohort: Cohort
  rates: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Selector:
  """Answers who takes part in round t, given r(t-1).

  It keeps no rates of its own: those of the server's state are the only ones.
  `methods.build_selector` makes one from names and checks what it is given.

  Attributes:
    p: Each client's share of the objective, by default that of the data.
    availability: Who is available.
    constraint: How many may take part.
    policy: Whom the method selects.
    initial_rates: r(0).
    beta: The step of the rates.
    correlation: The form of H.
    seed: Decides what the policy draws.
    num_candidates: See `Situation`.
    num_predictions: See `Situation`.
    factors: By what to multiply all weights of a round, one for each; None for
      no such factor.
    delivery: Who of the selected clients delivers; None if all do.
    quotas: How many of each group take part; None for no such quotas.
    method: What is added to the policy.
    rate_step: How the step of the rates depends on the round, see `rates.step`.
    weight_cap: The highest weight; infinity for any.
    sum_cap: The highest sum of the weights of a round, to which larger ones are
      scaled down; infinity for any.
  """

  p: np.ndarray
  availability: protocols.Availability
  constraint: communication.Constraint
  policy: Policy
  initial_rates: np.ndarray
  beta: float = 0.001
  correlation: str = rates.UNCORRELATED
  seed: int = 0
  num_candidates: int = 30
  num_predictions: np.ndarray = dataclasses.field(
    default_factory=lambda: np.zeros(0)
  )
  factors: Optional[np.ndarray] = None
  delivery: Optional[delivery_lib.Delivery] = None
  quotas: Optional[groups.Quotas] = None
  method: Method = NO_METHOD
  rate_step: str = rates.CONSTANT
  weight_cap: float = math.inf
  sum_cap: float = math.inf

  def __post_init__(self) -> None:
    rates.check(self.p, self.beta)
    checks.check_number_of_clients(self.availability, self.p.size)
    checks.check_rates('initial_rates', self.initial_rates, self.p.size)

  @functools.cached_property
  def _policy(self) -> Policy:
    return self.method.wrap(self.policy)

  @property
  def needs_losses(self) -> bool:
    """Whether the policy queries clients for their loss."""
    return getattr(self._policy, 'needs_losses', False)

  @property
  def initial_kept(self) -> Kept:
    """What is kept of clients before the first round."""
    return {**self.method.initial(self.p), **self._kept_step(1)}

  def step(self, round_num: int) -> float:
    """Returns the step of the rates in a round, beta_t."""
    return rates.step(self.beta, self.rate_step, round_num)

  def _kept_step(self, round_num: int) -> Kept:
    if self.rate_step == rates.CONSTANT:
      return {}
    return {STEP: np.array(self.step(round_num))}

  @property
  def max_clients(self) -> int:
    """The most clients that train, or are queried, in a round."""
    most = self._num_selected(self.constraint.maximum)
    return max(most, self.num_candidates) if self.needs_losses else most

  def _num_selected(self, k: int) -> int:
    return k if self.delivery is None else self.delivery.num_selected(k)

  def select(
    self,
    round_num: int,
    r: np.ndarray,
    losses_of: LossesOf = no_losses,
    kept: Optional[Kept] = None,
  ) -> Selection:
    """Returns who takes part in round t, given r(t-1).

    Args:
      round_num: The round t = 1, 2, ...
      r: r(t-1), as in the state of the server.
      losses_of: Queries clients for the loss of the global model.
      kept: What the method keeps, as in the state of the server; None for what
        it begins with.

    Returns:
      A_t, S_t, who of them delivers nothing, and what is kept then.
    """
    randomness.check_round(round_num)
    available = self.availability(round_num)
    checks.check_mask(available, self.p.size, self.availability, round_num)
    kept = self.initial_kept if kept is None else kept
    s = self._situation(available, round_num, r, losses_of, kept)
    cohort = self._cohort(s)
    delivers, r_counts = np.ones(cohort.clients.size, bool), None
    if self.delivery is not None:
      r_counts = self.delivery.rates_count
      delivers = self.delivery.delivered(
        round_num, cohort.clients, self.constraint(round_num)
      )
    lost = cohort.clients[~delivers]
    weights = np.where(delivers, cohort.weights, 0.0)
    if lost.size and getattr(self._policy, 'averages', False) and weights.any():
      weights *= cohort.weights.sum() / weights.sum()
    weights = self._scaled(weights, round_num)
    delivered = Cohort(cohort.clients[delivers], weights[delivers])
    state_weights = np.zeros(delivers.size)
    state_weights[delivers] = self.method.state_weights(s, delivered)
    cohort = Cohort(cohort.clients, weights)
    if r_counts == delivery_lib.DELIVERED:
      cohort, state_weights = delivered, state_weights[delivers]

    def kept_without(clients: np.ndarray) -> Kept:
      counts = ~np.isin(delivered.clients, clients)
      counted = Cohort(*(each[counts] for each in delivered))
      step = self._kept_step(round_num + 1)
      return {**self.method.next(s, counted), **step}

    return Selection(
      available,
      cohort,
      lost,
      kept_without(np.zeros(0, np.intp)),
      state_weights,
      kept_without,
    )

  def select_among(
    self,
    available: np.ndarray,
    round_num: int,
    r: np.ndarray,
    losses_of: LossesOf = no_losses,
  ) -> Cohort:
    """Returns S_t, given A_t and r(t-1)."""
    randomness.check_round(round_num)
    checks.check_mask(available, self.p.size)
    cohort = self._cohort(
      self._situation(available, round_num, r, losses_of, self.initial_kept)
    )
    return cohort._replace(weights=self._scaled(cohort.weights, round_num))

  def _situation(
    self,
    available: np.ndarray,
    round_num: int,
    r: np.ndarray,
    losses_of: LossesOf,
    kept: Kept,
  ) -> Situation:
    checks.check_rates('r', r, self.p.size)
    k = self.constraint(round_num)
    checks.check_count(k, self.constraint, round_num)
    return Situation(
      r=np.asarray(r),
      p=self.p,
      available=available,
      k=self._num_selected(k),
      beta=self.step(round_num),
      correlation=self.correlation,
      num_candidates=self.num_candidates,
      losses_of=_remembered(
        lambda some: checks.check_losses(losses_of(some), some)
      ),
      num_predictions=self.num_predictions,
      delivery=(
        self.delivery.probabilities
        if self.delivery is not None and self.delivery.in_score
        else None
      ),
      bounds=None if self.quotas is None else self.quotas(round_num),
      round_num=round_num,
      kept=kept,
    )

  def _cohort(self, s: Situation) -> Cohort:
    rng = randomness.generator(self.seed, 'selection', s.round_num)
    cohort = self._policy(s, rng)
    checks.check_cohort(cohort, s, self._policy, s.round_num)
    return cohort

  def _scaled(self, weights: np.ndarray, round_num: int) -> np.ndarray:
    """Returns the weights of a round within the caps, times its factor."""
    weights = np.minimum(weights, self.weight_cap)
    total = weights.sum()
    if total > self.sum_cap:
      weights = weights * (self.sum_cap / total)
    if self.factors is not None:
      # The server's SGD is linear: all weights times a factor is its learning
      # rate times that. Here all that follows sees it.
      weights = float(self.factors[round_num - 1]) * weights
    return weights

  def next_rates(
    self, r: np.ndarray, cohort: Cohort, round_num: int = 1
  ) -> np.ndarray:
    """Returns r(t), given r(t-1), whom it counts, and t if it matters."""
    selected = np.zeros(r.size, bool)
    selected[cohort.clients] = True
    return rates.update(r, selected, self.step(round_num))

  def simulate(
    self, num_rounds: int, r: Optional[np.ndarray] = None
  ) -> Iterator[SimulatedRound]:
    """Yields rounds 1, 2, ... without training.

    Args:
      num_rounds: How many.
      r: r(0); None for `initial_rates`.

    Yields:
      The rounds.
    """
    r = self.initial_rates if r is None else r
    kept = self.initial_kept
    for t in range(1, num_rounds + 1):
      selected = self.select(t, r, kept=kept)
      kept = selected.kept
      r = self.next_rates(r, selected.cohort, t)
      yield SimulatedRound(t, selected.available, selected.cohort, r)


def _remembered(losses_of: LossesOf) -> LossesOf:
  """Returns what queries each client once, whoever asks how often."""
  known: dict[int, float] = {}

  def ask(clients: np.ndarray) -> np.ndarray:
    new = np.array([k for k in clients.tolist() if k not in known], np.intp)
    if new.size:
      known.update(zip(new.tolist(), losses_of(new).tolist()))
    return np.array([known[k] for k in clients.tolist()])

  return ask


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
