"""The methods: whom each selects, and how it weights. One file each.

To add one, write its file and name it below: it is then a value of
`--selection`, and of `policy` in `build_selector`.
"""

from collections.abc import Mapping
import types
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from f3ast_tff import availability as availability_lib
from f3ast_tff import checks
from f3ast_tff import communication
from f3ast_tff import delivery as delivery_lib
from f3ast_tff import groups
from f3ast_tff import randomness
from f3ast_tff import rates
from f3ast_tff import selection
from f3ast_tff.methods import f3ast
from f3ast_tff.methods import fedavg
from f3ast_tff.methods import fixed_policy
from f3ast_tff.methods import power_of_choice
from f3ast_tff.methods import uniform

# The policies by name. A program may add its own, see docs/extending.md.
POLICIES: dict[str, selection.Policy] = {
  'f3ast': f3ast.select,
  'proportional': fedavg.select,
  'proportional_with_replacement': fedavg.select_with_replacement,
  'uniform': uniform.select,
  'power_of_choice': power_of_choice.select,
}

# The policy that depends on availability and constraint: it is fitted to them.
FIXED_POLICY = 'fixed_policy'


class Algorithm(NamedTuple):
  """A policy, by name, and the server's optimizer."""

  selection: str
  server_optimizer: str


# The paper's five; then its two baselines as Li et al. (2020) draw.
ALGORITHMS: Mapping[str, Algorithm] = types.MappingProxyType({
  'fedavg': Algorithm('proportional', 'sgd'),
  'f3ast': Algorithm('f3ast', 'sgd'),
  'power_of_choice': Algorithm('power_of_choice', 'sgd'),
  'fedadam': Algorithm('proportional', 'adam'),
  'f3ast_adam': Algorithm('f3ast', 'adam'),
  'fedavg_with_replacement': Algorithm('proportional_with_replacement', 'sgd'),
  'fedadam_with_replacement': Algorithm(
    'proportional_with_replacement', 'adam'
  ),
})


def _unknown_policy(name: str) -> ValueError:
  known = [*POLICIES, FIXED_POLICY]
  meant = ALGORITHMS[name].selection if name in ALGORITHMS else name
  return checks.unknown('policy', name, known, meant)


def form_of_h(
  correlation: str, availability: availability_lib.Availability
) -> str:
  """Returns the form of H; `auto` is the one that fits the availability."""
  if correlation == 'auto':
    is_positive = availability.positively_correlated
    correlation = rates.POSITIVE if is_positive else rates.UNCORRELATED
  return correlation


def check_quotas(policy: Union[str, selection.Policy]) -> None:
  """Raises a `ValueError` unless a policy can keep quotas of groups."""

  def keeps(one: Any) -> bool:
    found = POLICIES.get(one) if isinstance(one, str) else one
    return getattr(found, 'keeps_quotas', False)

  if not keeps(policy):
    name = getattr(policy, '__name__', policy)
    raise ValueError(
      'Quotas of groups are kept by the selections '
      f'{", ".join(filter(keeps, POLICIES))}, or one that is marked with '
      f'@selection.keeps_quotas, but not by {name}.'
    )


def _check_fit(
  quotas: groups.Quotas,
  num_clients: int,
  constraint: communication.Constraint,
) -> None:
  """Raises a `ValueError` unless the quotas are for p, and K allows them."""
  if quotas.group_of.size != num_clients:
    raise ValueError(
      f'The quotas are for {quotas.group_of.size} clients, but p has '
      f'{num_clients}.'
    )
  groups.check(quotas, constraint)


def build_selector(
  p: np.ndarray,
  availability: Union[str, availability_lib.Availability],
  clients_per_round: Union[int, str, communication.Constraint],
  *,
  policy: Union[str, selection.Policy] = 'f3ast',
  beta: float = 0.001,
  rate_init: str = 'kp',
  correlation: str = 'auto',
  num_candidates: int = 30,
  seed: int = 0,
  delivery: Optional[delivery_lib.Delivery] = None,
  quotas: Optional[groups.Quotas] = None,
) -> selection.Selector:
  """Builds what says who takes part in which round.

  Args:
    p: Each client's share of the objective; sums to 1. Its share of the data,
      or another target, see `targets`.
    availability: Who is available: a model, or a text that
      `availability.parse` reads, e.g. `home_devices` or `markov:0.3,0.1`.
    clients_per_round: How many may take part: K, a text such as
      `uniform:5,15` (see `communication.parse`), or what gives K_t.
    policy: Whom to select: `f3ast`, `proportional` (as FedAvg does),
      `proportional_with_replacement`, `uniform`, `power_of_choice`,
      `fixed_policy`, or a function of your own.
    beta: The step of the rates.
    rate_init: r(0), see `rates.initial`.
    correlation: The form of H; `auto` takes the one that fits the availability
      model.
    num_candidates: How many clients Power-of-Choice queries for their loss.
    seed: Decides what is drawn in the selection, and who is available if that
      is given by name.
    delivery: Who of the selected clients delivers; None if all do.
    quotas: How many of each group of clients take part, see `groups`.

  Returns:
    The selector.

  Raises:
    ValueError: If these do not fit together.
  """
  try:
    p = np.asarray(p, np.float64)
  except (TypeError, ValueError):
    pass  # The check says what it is instead.
  rates.check(p, beta)
  randomness.generator(seed, 'selection')  # Raises if there is no such seed.
  if not checks.is_whole(num_candidates, 1):
    raise ValueError(
      'num_candidates must be a whole number >= 1, but it is '
      f'{checks.describe(num_candidates)}.'
    )
  if isinstance(availability, str):
    availability = availability_lib.parse(availability, p, seed)
  checks.check_availability(
    f'availability must be one of {", ".join(availability_lib.MODELS)}, or',
    availability,
  )
  constraint = clients_per_round
  if isinstance(constraint, (int, np.integer)):
    constraint = communication.fixed(int(constraint))
  elif isinstance(constraint, str):
    constraint = communication.parse(constraint, seed)
  checks.check_constraint(
    "clients_per_round must be a whole number, a text like 'uniform:5,15', or",
    constraint,
  )
  for name, given, kind in (
    ('delivery', delivery, delivery_lib.Delivery),
    ('quotas', quotas, groups.Quotas),
  ):
    if given is not None and not isinstance(given, kind):
      raise ValueError(
        f'{name} must be a {kind.__module__}.{kind.__name__} or None, but it '
        f'is {checks.describe(given)}.'
      )
  if delivery is not None and delivery.probabilities.size != p.size:
    raise ValueError(
      f'The delivery has the probabilities of {delivery.probabilities.size} '
      f'clients, but p has {p.size}.'
    )
  if delivery is not None and policy == FIXED_POLICY:
    raise ValueError(
      'A fixed policy has fixed weights and cannot make up for updates that '
      'are not delivered; take another policy, or no delivery.'
    )
  correlation = form_of_h(correlation, availability)
  rates.numerator(p, correlation)  # Raises if there is no such form.
  if quotas is not None:
    check_quotas(policy)
    _check_fit(quotas, p.size, constraint)
  chosen: selection.Policy
  if policy == FIXED_POLICY:
    chosen = fixed_policy.build(availability, constraint, p, correlation, seed)
  elif isinstance(policy, str):
    if policy not in POLICIES:
      raise _unknown_policy(policy)
    chosen = POLICIES[policy]
  elif callable(policy):
    chosen = policy
  else:
    raise ValueError(
      f'policy must be one of {", ".join(POLICIES)}, {FIXED_POLICY}, or a '
      f'function of your own, but it is {checks.describe(policy)}.'
    )
  return selection.Selector(
    p=p,
    availability=availability,
    constraint=constraint,
    policy=chosen,
    initial_rates=rates.initial(p, constraint.mean, rate_init, correlation),
    beta=beta,
    correlation=correlation,
    seed=seed,
    num_candidates=num_candidates,
    delivery=delivery,
    quotas=quotas,
  )
