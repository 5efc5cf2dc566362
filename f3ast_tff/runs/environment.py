"""What a run's settings mean: who may come, how many, and how to choose.

  A_t, K_t, r(t-1) -> S_t and weights

NumPy only: the whole life of the rates can be simulated without training.
"""

import functools
from typing import NamedTuple, Optional

import numpy as np

from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff.runs import config as config_lib
from f3ast_tff.theory import fixed_policy
from f3ast_tff.theory import optimal_rates
from f3ast_tff import randomness
from f3ast_tff import rates
from f3ast_tff.methods import released
from f3ast_tff import selection
from f3ast_tff.runs import server_rates as server_rates_lib


class Environment(NamedTuple):
  """What the server cannot choose, and the rules by which it chooses.

  Attributes:
    p: Each client's share of the data.
    num_predictions: How much each client predicts; see `selection.Situation`.
    availability: Who is available.
    constraint: How many may take part.
    correlation: The form of H.
    initial_rates: r(0).
    policy: Who is selected.
    fixed: The fixed policy of Algorithm 2, if that is what selects.
    server_rates: By what to multiply the server's learning rate, if by
      anything.
  """

  p: np.ndarray
  num_predictions: np.ndarray
  availability: availability.Availability
  constraint: communication.Constraint
  correlation: str
  initial_rates: np.ndarray
  policy: selection.Policy
  fixed: Optional[fixed_policy.FixedPolicy] = None
  server_rates: Optional[server_rates_lib.ServerRates] = None


def _availability_model(
  config: config_lib.Config, protocol: released.Protocol, p: np.ndarray
) -> availability.Availability:
  seed = config.seed
  if protocol.one_availability:
    seed = released.AVAILABILITY_SEED
  if protocol.linspace_sine and config.avail == 'smartphones':
    return availability.smartphones(p.size, seed, both_ends=True)
  return availability.MODELS[config.avail](p, seed)


def _select_by(
  fixed: fixed_policy.FixedPolicy,
  s: selection.Situation,
  rng: np.random.Generator,
) -> selection.Cohort:
  return fixed_policy.select(fixed, s.p, s.available, s.k, rng)


def build(
  config: config_lib.Config,
  num_examples: np.ndarray,
  num_predictions: np.ndarray,
) -> Environment:
  """Returns the environment that the settings describe.

  Args:
    config: The settings, with nothing left open.
    num_examples: The number of training examples of each client.
    num_predictions: How much each client predicts.

  Returns:
    The environment.
  """
  protocol = released.parse(config.protocol)
  p = num_examples / num_examples.sum()
  if protocol.count_batches:
    p = released.share_of_batches(num_examples, config.batch_size)
  model = _availability_model(config, protocol, p)
  constraint = communication.parse(config.clients_per_round, config.seed)
  correlation = config.correlation
  if correlation == 'auto':
    is_positive = model.positively_correlated and not protocol.uncorrelated_h
    correlation = rates.POSITIVE if is_positive else rates.UNCORRELATED
  if config.selection is None:
    raise ValueError('The settings leave selection open; call resolve first.')
  fixed = None
  policy: selection.Policy
  if config.selection == 'fixed_policy':
    population = optimal_rates.population_of(model, constraint)
    best = optimal_rates.solve(population, p, correlation)
    fixed = fixed_policy.fit(population, best.rates, config.seed)
    policy = functools.partial(_select_by, fixed)
  else:
    policy = released.policy(config.selection, protocol)
  rate_init = 'p' if protocol.rates_start_at_p else config.rate_init
  return Environment(
    p=p,
    num_predictions=num_predictions,
    availability=model,
    constraint=constraint,
    correlation=correlation,
    initial_rates=rates.initial(p, constraint.mean, rate_init, correlation),
    policy=policy,
    fixed=fixed,
    server_rates=server_rates_lib.of(config),
  )


def select(
  config: config_lib.Config,
  environment: Environment,
  r: np.ndarray,
  round_num: int,
  losses_of: selection.LossesOf = selection.nobody_to_ask,
) -> tuple[np.ndarray, selection.Cohort]:
  """Returns A_t and the cohort S_t, given r(t-1).

  Args:
    config: The settings.
    environment: What they mean.
    r: r(t-1).
    round_num: The round t.
    losses_of: Asks clients for the loss of the global model on their data.

  Returns:
    The mask A_t and the cohort.
  """
  available = environment.availability(round_num)
  situation = selection.Situation(
    r=r,
    p=environment.p,
    available=available,
    k=environment.constraint(round_num),
    beta=config.beta,
    correlation=environment.correlation,
    num_candidates=config.num_candidates,
    losses_of=losses_of,
    num_predictions=environment.num_predictions,
  )
  rng = randomness.generator(config.seed, 'selection', round_num)
  cohort = environment.policy(situation, rng)
  if environment.server_rates is not None:
    # The server's SGD is linear: all weights times a factor is its learning
    # rate times that. Here all that follows sees it.
    factor = environment.server_rates.factor(round_num)
    cohort = cohort._replace(weights=factor * cohort.weights)
  return available, cohort
