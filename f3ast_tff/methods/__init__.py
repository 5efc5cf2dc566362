"""The methods: whom each selects, how it weights, what it keeps. One file each.

To add one, write its file and name it below. A policy, which selects and
weights, is then a value of `--selection`, and of `policy` in `build_selector`.
What is added to a policy is a value of `--method`, and of `method` there.
Either makes an algorithm, a value of `--algorithm`, and of `algorithm` there.
"""

from collections.abc import Callable
import inspect
import math
import numbers
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
from f3ast_tff import selector as selector_lib
from f3ast_tff.methods import afl
from f3ast_tff.methods import ca_fed
from f3ast_tff.methods import f3ast
from f3ast_tff.methods import fedau
from f3ast_tff.methods import fedavg
from f3ast_tff.methods import fedawe
from f3ast_tff.methods import feddyn
from f3ast_tff.methods import fedvarp
from f3ast_tff.methods import fixed_policy
from f3ast_tff.methods import mifa
from f3ast_tff.methods import power_of_choice
from f3ast_tff.methods import scaffold
from f3ast_tff.methods import uniform

# The policies by name. A program may add its own, see docs/extending.md.
POLICIES: dict[str, selection.Policy] = {
  'f3ast': f3ast.select,
  'proportional': fedavg.select,
  'proportional_with_replacement': fedavg.select_with_replacement,
  'uniform': uniform.select,
  'uniform_by_data': uniform.select_by_data,
  'power_of_choice': power_of_choice.select,
}

# The policy that depends on availability and constraint: it is fitted to them.
FIXED_POLICY = 'fixed_policy'


def _ca_fed(
  availability: Optional[availability_lib.Availability] = None,
) -> selection.Method:
  """CA-Fed; if it is told the availability, with the true probabilities."""
  if availability is None:
    return ca_fed.build()
  eigenvalues = None
  if isinstance(availability, availability_lib.Markov):
    eigenvalues = 1 - availability.on_to_off - availability.off_to_on
  return ca_fed.build(availability.probabilities, eigenvalues)


# What can be added to a policy, by name. What has a parameter is given a number
# after a colon; `availability` is given for `true`. See docs/methods.md.
METHODS: dict[str, Callable[..., selection.Method]] = {
  'none': lambda: selection.NO_METHOD,
  'fedau': fedau.build,
  'ca_fed': _ca_fed,
  'afl': afl.build,
  'mifa': mifa.build,
  'fedvarp': fedvarp.build,
  'fedawe': fedawe.build,
  'scaffold': scaffold.build,
  'feddyn': feddyn.build,
}


def parse_method(
  text: str, availability: Optional[availability_lib.Availability] = None
) -> selection.Method:
  """Returns the method that a text names, e.g. `scaffold` or `feddyn:0.1`.

  Args:
    text: A name of `METHODS`, with a number after a colon if it takes one.
    availability: Who is available, for `ca_fed:true`.

  Returns:
    The method.

  Raises:
    ValueError: If there is no such method, or it does not take that number.
  """
  name, colon, value = text.partition(':')
  if name not in METHODS:
    raise checks.unknown('method', name, list(METHODS))
  build, form = METHODS[name], name
  if not colon:
    return build()
  takes = inspect.signature(build).parameters
  if 'availability' in takes:
    form = f'{name} or {name}:true'
    if value == 'true':
      return build(availability)
  elif takes:
    form = f'{name}:NUMBER'
    try:
      number = float(value)
    except ValueError:
      number = math.nan
    if math.isfinite(number):
      return build(number)
  raise ValueError(f'method must be {form}, but it is {text!r}.')


SERVER_OPTIMIZERS = ('sgd', 'momentum', 'adam', 'yogi', 'adagrad')


class Algorithm(NamedTuple):
  """What makes up an algorithm, by name.

  Attributes:
    selection: The policy.
    server_optimizer: The server's optimizer.
    method: What is added to the policy.
    rate_init: r(0), see `rates.initial`.
    rate_step: The step of the rates, see `rates.step`.
    sum_cap: The highest sum of a round's weights; 0 for any.
  """

  selection: str
  server_optimizer: str
  method: str = 'none'
  rate_init: str = 'tie'
  rate_step: str = rates.CONSTANT
  sum_cap: float = 0.0


# The paper's five; its two baselines as Li et al. (2020) draw; F3AST with what
# makes it safe to use; what others have proposed for the same problem; then the
# same with F3AST's selection, and with its weights but for FedAU and AFL, which
# have their own. `register` adds to them.
ALGORITHMS: dict[str, Algorithm] = {
  'fedavg': Algorithm('proportional', 'sgd'),
  'f3ast': Algorithm('f3ast', 'sgd'),
  'power_of_choice': Algorithm('power_of_choice', 'sgd'),
  'fedadam': Algorithm('proportional', 'adam'),
  'f3ast_adam': Algorithm('f3ast', 'adam'),
  'fedavg_with_replacement': Algorithm('proportional_with_replacement', 'sgd'),
  'fedadam_with_replacement': Algorithm(
    'proportional_with_replacement', 'adam'
  ),
  'uniform': Algorithm('uniform_by_data', 'sgd'),
  'f3ast_safe': Algorithm(
    'f3ast', 'sgd', rate_step='annealed:10', sum_cap=1.0
  ),
  'fedau': Algorithm('uniform', 'sgd', 'fedau'),
  'ca_fed': Algorithm('uniform', 'sgd', 'ca_fed'),
  'mifa': Algorithm('uniform', 'sgd', 'mifa'),
  'fedvarp': Algorithm('proportional', 'sgd', 'fedvarp'),
  'fedawe': Algorithm('uniform', 'sgd', 'fedawe'),
  'scaffold': Algorithm('proportional', 'sgd', 'scaffold'),
  'feddyn': Algorithm('proportional', 'sgd', 'feddyn'),
  'afl': Algorithm('uniform', 'sgd', 'afl', rate_init='uniform'),
  **{
    f'f3ast_{method}': Algorithm('f3ast', 'sgd', method)
    for method in ('fedau', 'fedvarp', 'scaffold', 'feddyn', 'afl')
  },
}


def _check_policy(policy: Any, instead: str = '') -> None:
  """Raises a `ValueError` unless it is a function or the name of a policy.

  Args:
    policy: Who selects.
    instead: What to do with the name of an algorithm, the end of a sentence.
  """
  known = [*POLICIES, FIXED_POLICY]
  if callable(policy) or (isinstance(policy, str) and policy in known):
    return
  if not isinstance(policy, str):
    raise ValueError(
      f'policy must be one of {", ".join(known)}, or a function of your own, '
      f'but it is {checks.describe(policy)}.'
    )
  if policy in ALGORITHMS:
    raise ValueError(
      f'policy must be one of {", ".join(known)} or one of your own, but '
      f'{policy!r} is an algorithm, whose policy is '
      f'{ALGORITHMS[policy].selection!r}{instead}.'
    )
  raise checks.unknown('policy', policy, known)


def _method(
  method: Any, availability: Optional[availability_lib.Availability] = None
) -> selection.Method:
  """Returns a method that is given, or named; see `parse_method`."""
  if isinstance(method, str):
    return parse_method(method, availability)
  if isinstance(method, selection.Method):
    return method
  raise ValueError(
    f'method must be one of {", ".join(METHODS)}, or a selection.Method, but '
    f'it is {checks.describe(method)}.'
  )


def _check_cap(name: str, cap: Any) -> None:
  """Raises a `ValueError` unless a cap is a number, 0 for none."""
  if not (isinstance(cap, numbers.Real) and float(cap) >= 0):
    raise ValueError(
      f'{name} must be a number above 0, or 0 for none, but it is '
      f'{checks.describe(cap)}.'
    )


def register(
  name: str,
  policy: Union[str, selection.Policy],
  server_optimizer: str = 'sgd',
  method: Union[str, selection.Method] = 'none',
  *,
  rate_init: str = 'tie',
  rate_step: str = rates.CONSTANT,
  sum_cap: float = 0.0,
) -> None:
  """Adds an algorithm of your own: a value of `--algorithm`.

  Args:
    name: What to call it, and its policy if that is a function.
    policy: Whom it selects and how it weights: a function, or a name of
      `POLICIES`, or `fixed_policy`.
    server_optimizer: The server's optimizer.
    method: What is added to the policy, which may keep numbers or vectors of
      clients: a `selection.Method`, or a text that `parse_method` reads.
    rate_init: r(0), see `rates.initial`.
    rate_step: The step of the rates, see `rates.step`.
    sum_cap: The highest sum of a round's weights; 0 for any.

  Raises:
    ValueError: If the name is taken or cannot be one, or the others are not
      what they must be. Then nothing is added.
  """
  if not (isinstance(name, str) and name.isascii() and name.isidentifier()):
    raise ValueError(
      'The name of a method must be of letters, digits and _, but it is '
      f'{name!r}.'
    )
  if name in (*ALGORITHMS, *POLICIES, *METHODS, FIXED_POLICY):
    raise ValueError(f'There is a method {name} already; choose another name.')
  _check_policy(policy)
  if server_optimizer not in SERVER_OPTIMIZERS:
    raise ValueError(
      f'The server optimizer of {name} must be one of '
      f'{", ".join(SERVER_OPTIMIZERS)}, but it is {server_optimizer!r}.'
    )
  own = _method(method)
  if rate_init not in rates.INITIAL_RATES:
    raise ValueError(
      f'rate_init must be one of {", ".join(rates.INITIAL_RATES)}, but it is '
      f'{checks.describe(rate_init)}.'
    )
  rates.parse_step(rate_step)
  _check_cap('sum_cap', sum_cap)
  check_caps(own, 0, sum_cap)
  if not isinstance(method, str):
    METHODS[name] = lambda: own
    method = name
  if not isinstance(policy, str):
    POLICIES[name] = policy
    policy = name
  ALGORITHMS[name] = Algorithm(
    policy, server_optimizer, method, rate_init, rate_step, float(sum_cap)
  )


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


def check_over_selection(over_selection: float) -> None:
  """Raises a `ValueError` unless quotas can be kept with over-selection."""
  if over_selection > 1:
    raise ValueError(
      'Quotas of groups need over_selection=1, because who of more clients '
      f'counts is drawn whatever the groups, but it is {over_selection:g}; '
      'leave one of them out.'
    )


def check_caps(
  method: selection.Method, weight_cap: float, sum_cap: float
) -> None:
  """Raises a `ValueError` if caps are set on weights that bound nothing."""
  caps = {'weight_cap': weight_cap, 'sum_cap': sum_cap}
  is_set = [name for name, cap in caps.items() if cap]
  if is_set and method.vectors and method.vectors.replaces_sum:
    raise ValueError(
      f'{" and ".join(is_set)} must be 0 with mifa and fedawe, whose steps are '
      'no sums of weighted updates; set 0, or take another method.'
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


def _check_factors(factors: Any, method: selection.Method) -> None:
  """Raises a `ValueError` unless factors are numbers, and fit the method."""
  must = 'factors must be an array of finite numbers >= 0, one for each round'
  try:
    array = np.asarray(factors)
  except ValueError:  # Rows of different lengths.
    array = np.zeros((0, 0))
  if array.ndim != 1 or array.dtype.kind not in 'fiu':
    raise ValueError(f'{must}, but it is {checks.describe(factors)}.')
  (bad,) = np.nonzero(~(np.isfinite(array) & (array >= 0)))
  if bad.size:
    raise ValueError(
      f'{must}, but that of round {bad[0] + 1} is {array[bad[0]]}.'
    )
  check_linear('factors', method)


def check_linear(setting: str, method: selection.Method) -> None:
  """Raises a `ValueError` if factors of weights are none of the step."""
  if not method.vectors:
    return
  checks.check_vectors(method.vectors)
  if not method.vectors.is_linear:
    raise ValueError(
      f'{setting} is for methods whose step is a sum of weighted updates, '
      'but that of this method is not; leave it out, or take another method.'
    )


def _of_algorithm(name: Any) -> Algorithm:
  """Returns the parts of an algorithm that a selector alone can be."""
  if not isinstance(name, str) or name not in ALGORITHMS:
    raise checks.unknown('algorithm', str(name), ALGORITHMS)
  parts = ALGORITHMS[name]
  if parts.server_optimizer != 'sgd':
    rest = ''.join(
      f', {field}={getattr(parts, field)!r}'
      for field, default in Algorithm._field_defaults.items()
      if getattr(parts, field) != default
    )
    raise ValueError(
      f'The algorithm {name} is more than a selector: give build_training the '
      f'server_optimizer {parts.server_optimizer}, and build_selector '
      f'policy={parts.selection!r}{rest}.'
    )
  return parts


def build_selector(
  p: np.ndarray,
  availability: Union[str, availability_lib.Availability],
  clients_per_round: Union[int, str, communication.Constraint],
  *,
  algorithm: str = 'f3ast',
  policy: Union[None, str, selection.Policy] = None,
  beta: float = 0.001,
  rate_init: Optional[str] = None,
  correlation: str = 'auto',
  num_candidates: int = 30,
  seed: int = 0,
  delivery: Optional[delivery_lib.Delivery] = None,
  quotas: Optional[groups.Quotas] = None,
  method: Union[None, str, selection.Method] = None,
  rate_step: Optional[str] = None,
  weight_cap: float = 0.0,
  sum_cap: Optional[float] = None,
  factors: Optional[np.ndarray] = None,
) -> selector_lib.Selector:
  """Builds what says who takes part in which round.

  Args:
    p: Each client's share of the objective; sums to 1. Its share of the data,
      or another target, see `targets`.
    availability: Who is available: a model, or a text that
      `availability.parse` reads, e.g. `home_devices` or `markov:0.3,0.1`.
    clients_per_round: How many may take part: K, a text such as
      `uniform:5,15` (see `communication.parse`), or what gives K_t.
    algorithm: One of `ALGORITHMS`, such as `scaffold` or `f3ast_safe`, whose
      policy, method, rate_init, rate_step and sum_cap are taken where these are
      None. One with another server optimizer than SGD is refused, because that
      is for `build_training`; the error says what to give to each.
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
    method: What is added to the policy: `scaffold`, `feddyn:0.1`, one of
      `METHODS`, or a `selection.Method` of your own.
    rate_step: The step of the rates: `constant`, `annealed:T0`, `corrected`.
    weight_cap: The highest weight of a client; 0 for any.
    sum_cap: The highest sum of a round's weights; 0 for any.
    factors: By what to multiply all weights of a round, a number for each; it
      is the same to multiply the learning rate of the server's SGD. None for no
      such factors.

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
  parts = _of_algorithm(algorithm)
  policy = parts.selection if policy is None else policy
  method = parts.method if method is None else method
  rate_init = parts.rate_init if rate_init is None else rate_init
  rate_step = parts.rate_step if rate_step is None else rate_step
  sum_cap = parts.sum_cap if sum_cap is None else sum_cap
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
  if quotas is not None and delivery is not None:
    check_over_selection(delivery.over_selection)
  rates.parse_step(rate_step)
  _check_cap('weight_cap', weight_cap)
  _check_cap('sum_cap', sum_cap)
  if isinstance(policy, str) and policy in ALGORITHMS:
    _of_algorithm(policy)  # Raises if it is more than a selector.
  _check_policy(policy, f'; build_selector takes algorithm={policy!r}')
  method = _method(method, availability)
  check_caps(method, weight_cap, sum_cap)
  if factors is not None:
    _check_factors(factors, method)
  correlation = form_of_h(correlation, availability)
  rates.numerator(p, correlation)  # Raises if there is no such form.
  if quotas is not None:
    check_quotas(policy)
    _check_fit(quotas, p.size, constraint)
  if policy == FIXED_POLICY:
    policy = fixed_policy.build(availability, constraint, p, correlation, seed)
  elif isinstance(policy, str):
    policy = POLICIES[policy]
  return selector_lib.Selector(
    p=p,
    availability=availability,
    constraint=constraint,
    policy=policy,
    initial_rates=rates.initial(p, constraint.mean, rate_init, correlation),
    beta=beta,
    correlation=correlation,
    seed=seed,
    num_candidates=num_candidates,
    factors=None if factors is None else np.asarray(factors, np.float64),
    delivery=delivery,
    quotas=quotas,
    method=method,
    rate_step=rate_step,
    weight_cap=weight_cap or math.inf,
    sum_cap=sum_cap or math.inf,
  )
