"""The selector that the settings of a run describe."""

import dataclasses

import numpy as np

from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import methods
from f3ast_tff import rates
from f3ast_tff import selection
from f3ast_tff.methods import released
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import server_rate_file


def _availability(
  config: config_lib.Config, protocol: released.Protocol, p: np.ndarray
) -> availability.Availability:
  seed = config.seed
  if protocol.one_availability:
    seed = released.AVAILABILITY_SEED
  if protocol.linspace_sine and config.avail == 'smartphones':
    return availability.smartphones(p.size, seed, both_ends=True)
  return availability.MODELS[config.avail](p, seed)


def build(
  config: config_lib.Config,
  num_examples: np.ndarray,
  num_predictions: np.ndarray,
) -> selection.Selector:
  """Builds the selector.

  Args:
    config: The settings, with nothing left open.
    num_examples: The number of training examples of each client.
    num_predictions: How much each client predicts.

  Returns:
    The selector.
  """
  if config.selection is None:
    raise ValueError('The settings leave selection open; call resolve first.')
  protocol = released.parse(config.protocol)
  p = num_examples / num_examples.sum()
  if protocol.count_batches:
    p = released.share_of_batches(num_examples, config.batch_size)
  correlation = config.correlation
  if correlation == 'auto' and protocol.uncorrelated_h:
    correlation = rates.UNCORRELATED
  selector = methods.build_selector(
    p,
    _availability(config, protocol, p),
    communication.parse(config.clients_per_round, config.seed),
    policy=released.policy_with_departures(config.selection, protocol),
    beta=config.beta,
    rate_init='p' if protocol.rates_start_at_p else config.rate_init,
    correlation=correlation,
    num_candidates=config.num_candidates,
    seed=config.seed,
  )
  given = server_rate_file.of(config)
  return dataclasses.replace(
    selector,
    num_predictions=num_predictions,
    factors=None if given is None else given.factors,
  )
