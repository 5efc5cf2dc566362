"""The methods: whom each selects, and how it weights. One file each.

To add one, write its file and name it below: it is then a value of
`--selection`, and of `policy` in `build_selector`.
"""

from collections.abc import Mapping
import types
from typing import NamedTuple, Union

import numpy as np

from f3ast_tff import availability as availability_lib
from f3ast_tff import communication
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


def _one_of(what: str, name: str, known: Mapping) -> ValueError:
  return ValueError(
    f'{what} must be one of {", ".join(known)} or one of your own, but it is '
    f'{name!r}.'
  )


def form_of_h(
  correlation: str, availability: availability_lib.Availability
) -> str:
  """Returns the form of H; `auto` is the one that fits the availability."""
  if correlation == 'auto':
    is_positive = availability.positively_correlated
    correlation = rates.POSITIVE if is_positive else rates.UNCORRELATED
  return correlation


def build_selector(
  p: np.ndarray,
  availability: Union[str, availability_lib.Availability],
  clients_per_round: Union[int, communication.Constraint],
  *,
  policy: Union[str, selection.Policy] = 'f3ast',
  beta: float = 0.001,
  rate_init: str = 'kp',
  correlation: str = 'auto',
  num_candidates: int = 30,
  seed: int = 0,
) -> selection.Selector:
  """Builds what says who takes part in which round.

  Args:
    p: Each client's share of the data; sums to 1.
    availability: Who is available: a model, or the name of one of the paper's.
    clients_per_round: How many may take part: K, or what gives K_t.
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

  Returns:
    The selector.

  Raises:
    ValueError: If these do not fit together.
  """
  p = np.asarray(p, np.float64)
  rates.check(p, beta)
  if isinstance(availability, str):
    models = availability_lib.MODELS
    if availability not in models:
      raise _one_of('availability', availability, models)
    availability = models[availability](p, seed)
  if availability.num_clients != p.size:
    raise ValueError(
      f'The availability model has {availability.num_clients} clients, but p '
      f'has {p.size}.'
    )
  constraint = clients_per_round
  if isinstance(constraint, (int, np.integer)):
    constraint = communication.fixed(int(constraint))
  correlation = form_of_h(correlation, availability)
  rates.numerator(p, correlation)  # Raises if there is no such form.
  chosen: selection.Policy
  if policy == FIXED_POLICY:
    chosen = fixed_policy.build(availability, constraint, p, correlation, seed)
  elif isinstance(policy, str):
    if policy not in POLICIES:
      raise _one_of('policy', policy, {**POLICIES, FIXED_POLICY: None})
    chosen = POLICIES[policy]
  else:
    chosen = policy
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
  )
