"""Who takes part in round t, for any training loop.

  mask = availability(t)     who is there (A_t)
  k = constraint(t)          how many may speak (K_t)
  cohort = cohorts(t)        who takes part, with which weights (S_t)

F3AST chooses by availability, constraint and its own rates r and by nothing
that training computes. So S_t is a pure function of t like the other two: r(t)
is what all rounds up to t make of r(0), here as in the state of
`process.build_f3ast`, and a loop that was interrupted at round t asks for the
cohort of round t again. This module needs NumPy only.
"""

from typing import NamedTuple, Optional, Union

import numpy as np

from f3ast_tff import availability as availability_lib
from f3ast_tff import communication
from f3ast_tff import randomness
from f3ast_tff import rates
from f3ast_tff import selection


class _Round(NamedTuple):
  """A round, the rates r(t-1) before it, and its cohort."""

  round_num: int
  r: np.ndarray
  cohort: selection.Cohort


class Cohorts:
  """The cohorts S_1, S_2, ... of a training.

  Rounds in ascending order cost one selection each. An earlier round than the
  last one asked for is found by playing all rounds from the first.

  Attributes:
    p: Each client's share of the data.
    availability: Who is available.
    constraint: How many may take part.
    beta: The step of the rates.
    correlation: The form of H, `uncorrelated` or `positive`.
    initial_rates: r(0).
  """

  def __init__(
    self,
    p: np.ndarray,
    availability: availability_lib.Availability,
    constraint: Union[int, communication.Constraint],
    *,
    policy: Union[str, selection.Policy] = 'f3ast',
    beta: float = 0.001,
    rate_init: str = 'kp',
    correlation: str = 'auto',
    seed: int = 0,
  ):
    """Makes the cohorts.

    Args:
      p: Each client's share of the data; sums to 1.
      availability: Who is available.
      constraint: How many may take part: K, or what gives K_t.
      policy: How to select: `f3ast`, `proportional` (as FedAvg does),
        `proportional_with_replacement`, `uniform`, or a function of your own.
      beta: The step of the rates.
      rate_init: r(0), see `rates.initial`.
      correlation: The form of H; `auto` takes the one that fits the
        availability model.
      seed: Decides what is drawn in the selection.
    """
    p = np.asarray(p, np.float64)
    rates.check(p, beta)
    if availability.num_clients != p.size:
      raise ValueError(
        f'The availability model has {availability.num_clients} clients, but p '
        f'has {p.size}.'
      )
    if isinstance(constraint, (int, np.integer)):
      constraint = communication.fixed(int(constraint))
    if correlation == 'auto':
      is_positive = availability.positively_correlated
      correlation = rates.POSITIVE if is_positive else rates.UNCORRELATED
    rates.numerator(p, correlation)  # Raises if there is no such form.
    if isinstance(policy, str):
      policies = {
        name: function
        for name, function in selection.POLICIES.items()
        if name != 'power_of_choice'  # Needs the losses of a model.
      }
      if policy not in policies:
        raise ValueError(
          f'policy must be one of {", ".join(policies)} or a function, but it '
          f'is {policy!r}.'
        )
      policy = policies[policy]
    self.p = p
    self.availability = availability
    self.constraint = constraint
    self.beta = beta
    self.correlation = correlation
    self.initial_rates = rates.initial(
      p, constraint.mean, rate_init, correlation
    )
    self._policy = policy
    self._seed = seed
    self._last: Optional[_Round] = None

  def _play(self, round_num: int, r: np.ndarray) -> _Round:
    situation = selection.Situation(
      r=r,
      p=self.p,
      available=self.availability(round_num),
      k=self.constraint(round_num),
      beta=self.beta,
      correlation=self.correlation,
    )
    rng = randomness.generator(self._seed, 'selection', round_num)
    return _Round(round_num, r, self._policy(situation, rng))

  def _rates_after(self, played: _Round) -> np.ndarray:
    selected = np.zeros(self.p.size)
    selected[played.cohort.clients] = 1
    return rates.update(played.r, selected, self.beta)

  def _round(self, round_num: int) -> _Round:
    randomness.check_round(round_num)
    last = self._last
    if last is None or last.round_num > round_num:
      last = self._play(1, self.initial_rates)
    while last.round_num < round_num:
      last = self._play(last.round_num + 1, self._rates_after(last))
    self._last = last
    return last

  def __call__(self, round_num: int) -> selection.Cohort:
    """Returns the cohort S_t."""
    return self._round(round_num).cohort

  def rates(self, round_num: int) -> np.ndarray:
    """Returns r(t); r(0) for round 0."""
    if round_num == 0:
      return self.initial_rates.copy()
    return self._rates_after(self._round(round_num))
