"""Who takes part in round t, given the rates r(t-1): `Selector`.

  A_t = availability(t)                     who is available
  K_t = constraint(t)                       how many may take part
  l_g, m_g = quotas(t)                      how many of a group, if asked for
  S_t, weights = policy(r(t-1), A_t, K_t)   whom the method selects
  D_t = delivery(t, S_t)                    who of them delivers; else all do

When fewer than K_t clients are available, all of them take part; when there are
none, or K_t = 0, the cohort is empty. This module needs NumPy only.
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
from f3ast_tff import selection

# The name under which the step of the rates is kept, if it changes. No method
# may keep anything of that name.
STEP = 'step'


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
  cohort: selection.Cohort
  lost: np.ndarray = np.zeros(0, np.intp)
  kept: selection.Kept = types.MappingProxyType({})
  state_weights: np.ndarray = np.zeros(0)
  kept_without: Callable[[np.ndarray], selection.Kept] = lambda clients: {}


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
  cohort: selection.Cohort
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
  policy: selection.Policy
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
  method: selection.Method = selection.NO_METHOD
  rate_step: str = rates.CONSTANT
  weight_cap: float = math.inf
  sum_cap: float = math.inf

  def __post_init__(self) -> None:
    rates.check(self.p, self.beta)
    checks.check_number_of_clients(self.availability, self.p.size)
    checks.check_rates('initial_rates', self.initial_rates, self.p.size)
    if STEP in self._initial:
      raise checks.ResultError(
        f'A method may not keep anything called {STEP!r}, which is the step of '
        'the rates; choose another name in its initial and next.'
      )
    if self.method.vectors:
      checks.check_vectors(self.method.vectors)

  @functools.cached_property
  def _initial(self) -> dict[str, np.ndarray]:
    return checks.kept(
      'The initial of a method must return', self.method.initial(self.p)
    )

  @functools.cached_property
  def _policy(self) -> selection.Policy:
    return self.method.wrap(self.policy)

  @property
  def needs_losses(self) -> bool:
    """Whether the policy queries clients for their loss."""
    return getattr(self._policy, 'needs_losses', False)

  @property
  def initial_kept(self) -> selection.Kept:
    """What is kept of clients before the first round."""
    return {**self._initial, **self._kept_step(1)}

  def step(self, round_num: int) -> float:
    """Returns the step of the rates in a round, beta_t."""
    return rates.step(self.beta, self.rate_step, round_num)

  def _kept_step(self, round_num: int) -> selection.Kept:
    if self.rate_step == rates.CONSTANT:
      return {}
    return {STEP: np.array(self.step(round_num))}

  @property
  def max_selected(self) -> int:
    """The most clients that train in a round."""
    return self._num_selected(self.constraint.maximum)

  @property
  def max_clients(self) -> int:
    """The most clients that train, or are queried, in a round."""
    most = self.max_selected
    return max(most, self.num_candidates) if self.needs_losses else most

  def _num_selected(self, k: int) -> int:
    return k if self.delivery is None else self.delivery.num_selected(k)

  def select(
    self,
    round_num: int,
    r: np.ndarray,
    losses_of: selection.LossesOf = selection.no_losses,
    kept: Optional[selection.Kept] = None,
    available: Optional[np.ndarray] = None,
  ) -> Selection:
    """Returns who takes part in round t, given r(t-1).

    Args:
      round_num: The round t = 1, 2, ...
      r: r(t-1), as in the state of the server.
      losses_of: Queries clients for the loss of the global model.
      kept: What the method keeps: `Selection.kept` of the round before. None
        for what it begins with, in round 1 or if it keeps nothing.
      available: The mask A_t, if it is observed; None to ask the model.

    Returns:
      A_t, S_t, who of them delivers nothing, and what is kept then.
    """
    randomness.check_round(round_num)
    model = None
    if available is None:
      model, available = self.availability, self.availability(round_num)
    checks.check_mask(available, self.p.size, model, round_num)
    kept = self._kept_before(round_num, kept)
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
    delivered = selection.Cohort(cohort.clients[delivers], weights[delivers])
    state_weights = np.zeros(delivers.size)
    state_weights[delivers] = checks.state_weights(
      self.method.state_weights(s, delivered), delivered.clients.size
    )
    cohort = selection.Cohort(cohort.clients, weights)
    if r_counts == delivery_lib.DELIVERED:
      cohort, state_weights = delivered, state_weights[delivers]

    def kept_without(clients: np.ndarray) -> selection.Kept:
      counts = ~np.isin(delivered.clients, clients)
      counted = selection.Cohort(*(each[counts] for each in delivered))
      after = checks.kept(
        'The next of a method must return',
        self.method.next(s, counted),
        self._initial,
      )
      return {**after, **self._kept_step(round_num + 1)}

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
    losses_of: selection.LossesOf = selection.no_losses,
    kept: Optional[selection.Kept] = None,
  ) -> selection.Cohort:
    """Returns the cohort of `select`, given A_t and r(t-1)."""
    return self.select(round_num, r, losses_of, kept, available).cohort

  def _kept_before(
    self, round_num: int, kept: Optional[selection.Kept]
  ) -> selection.Kept:
    """Returns what the method keeps before a round, without the step."""
    if kept is not None:
      if isinstance(kept, Mapping):
        kept = {name: kept[name] for name in kept if name != STEP}
      return checks.kept('kept must hold', kept, self._initial)
    if round_num > 1 and (self._initial or self.method.vectors):
      what = 'vectors' if self.method.vectors else 'numbers'
      raise ValueError(
        f'The method keeps {what} of clients, but round {round_num} is '
        'selected without; give the `kept` that select returned for the round '
        'before, or let a Training run the rounds, which also keeps vectors.'
      )
    return self._initial

  def _situation(
    self,
    available: np.ndarray,
    round_num: int,
    r: np.ndarray,
    losses_of: selection.LossesOf,
    kept: selection.Kept,
  ) -> selection.Situation:
    checks.check_rates('r', r, self.p.size)
    k = self.constraint(round_num)
    checks.check_count(k, self.constraint, round_num)
    return selection.Situation(
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

  def _cohort(self, s: selection.Situation) -> selection.Cohort:
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
      if round_num > self.factors.size:
        raise ValueError(
          f'factors has {self.factors.size} rounds, but this is round '
          f'{round_num}; give a factor for each.'
        )
      # The server's SGD is linear: all weights times a factor is its learning
      # rate times that. Here all that follows sees it.
      weights = float(self.factors[round_num - 1]) * weights
    return weights

  def next_rates(
    self,
    r: np.ndarray,
    cohort: selection.Cohort,
    round_num: Optional[int] = None,
  ) -> np.ndarray:
    """Returns r(t), given r(t-1), whom it counts, and t.

    Args:
      r: r(t-1).
      cohort: Whom r counts.
      round_num: The round t; may be left out if the step is constant.

    Returns:
      r(t).
    """
    if round_num is None:
      if self.rate_step != rates.CONSTANT:
        raise ValueError(
          f'With rate_step={self.rate_step!r} the step of the rates depends on '
          'the round; give it, as in next_rates(r, cohort, t).'
        )
      round_num = 1
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

    Raises:
      ValueError: If the policy queries losses.
    """
    if self.needs_losses:
      raise ValueError(
        f'The policy {checks.name_of(self._policy)} queries clients for their '
        'loss, but simulate has no model and so no losses; call select with a '
        'losses_of in a loop instead.'
      )
    r = self.initial_rates if r is None else r
    kept = self.initial_kept
    for t in range(1, num_rounds + 1):
      selected = self.select(t, r, kept=kept)
      kept = selected.kept
      r = self.next_rates(r, selected.cohort, t)
      yield SimulatedRound(t, selected.available, selected.cohort, r)


def _remembered(losses_of: selection.LossesOf) -> selection.LossesOf:
  """Returns what queries each client once, whoever asks how often."""
  known: dict[int, float] = {}

  def ask(clients: np.ndarray) -> np.ndarray:
    new = np.array([k for k in clients.tolist() if k not in known], np.intp)
    if new.size:
      known.update(zip(new.tolist(), losses_of(new).tolist()))
    return np.array([known[k] for k in clients.tolist()])

  return ask
