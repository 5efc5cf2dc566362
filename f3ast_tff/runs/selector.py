"""The selector that the settings of a run describe."""

from collections.abc import Sequence
import dataclasses
import functools
from typing import Optional

import numpy as np

from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import delivery
from f3ast_tff import groups
from f3ast_tff import methods
from f3ast_tff import rates
from f3ast_tff import selector as selector_lib
from f3ast_tff import targets
from f3ast_tff.methods import released
from f3ast_tff.runs import client_files
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import server_rate_file
from f3ast_tff.runs import trace_file


def _availability(
  config: config_lib.Config,
  protocol: released.Protocol,
  p: np.ndarray,
  label_shares: Optional[availability.LabelShares],
) -> availability.Availability:
  seed = config.seed
  if protocol.one_availability:
    seed = released.AVAILABILITY_SEED
  name, values = availability.read(config.avail)
  if protocol.linspace_sine and name == 'smartphones':
    build = functools.partial(availability.smartphones, both_ends=True)
    return build(p.size, seed, *values)
  traced = trace_file.model_of(config, p, seed)
  if traced is not None:
    return traced
  return availability.parse(config.avail, p, seed, label_shares)


def _groups(
  config: config_lib.Config,
  num_clients: int,
  label_shares: Optional[availability.LabelShares],
) -> Sequence[str]:
  """Returns the name of each client's group."""
  if not config.groups:
    return ()
  grouping = groups.parse_grouping(config.groups)
  if grouping.kind == 'blocks':
    return groups.blocks(num_clients, grouping.number)
  if grouping.kind == 'labels':
    if label_shares is None:
      raise ValueError('groups=labels needs the labels, which are not known.')
    return groups.by_label(label_shares())
  return client_files.read('groups', grouping.path, num_clients)


def _target(
  config: config_lib.Config, p: np.ndarray, names: Sequence[str]
) -> np.ndarray:
  """Returns what takes the place of p, the shares of the data."""
  target = targets.parse(config.target)
  if target.kind == 'uniform':
    return targets.uniform(p)
  if target.kind == 'power':
    return targets.power(p, target.exponent)
  if target.kind == 'groups':
    return targets.equal_groups(p, names)
  if target.kind == 'file':
    return targets.given(
      client_files.numbers('target', target.path, p.size), p
    )
  return p


def _delivery(
  config: config_lib.Config, model: availability.Availability
) -> Optional[delivery.Delivery]:
  """Returns who of the selected clients delivers; None if all do."""
  given = delivery.parse(config.delivery)
  if given.kind == 'all':
    return None
  probabilities = np.full(model.num_clients, given.probability)
  if given.kind == 'file':
    probabilities = client_files.numbers(
      'delivery', given.path, model.num_clients
    )
  return delivery.Delivery(
    probabilities,
    config.seed,
    stays=getattr(model, 'stays') if given.kind == 'trace' else None,  # noqa: B009
    over_selection=config.over_selection,
    rates_count=config.rates_count,
    in_score=config.delivery_in_score,
  )


def build(
  config: config_lib.Config,
  num_examples: np.ndarray,
  num_predictions: np.ndarray,
  label_shares: Optional[availability.LabelShares] = None,
) -> selector_lib.Selector:
  """Builds the selector.

  Args:
    config: The settings, with nothing left open.
    num_examples: The number of training examples of each client.
    num_predictions: How much each client predicts.
    label_shares: Returns the share of each label in each client's examples, for
      availability models and groups that depend on it.

  Returns:
    The selector.

  Raises:
    ValueError: If these do not fit together.
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
  names = _groups(config, p.size, label_shares)
  # Who is available does not depend on what is aimed at.
  model = _availability(config, protocol, p, label_shares)
  given = server_rate_file.of(config)
  selector = methods.build_selector(
    _target(config, p, names),
    model,
    communication.parse(config.clients_per_round, config.seed),
    policy=released.policy_with_departures(config.selection, protocol),
    beta=config.beta,
    rate_init='p' if protocol.rates_start_at_p else config.rate_init or 'tie',
    correlation=correlation,
    num_candidates=config.num_candidates,
    seed=config.seed,
    quotas=(
      groups.quotas(names, config.group_quota) if config.group_quota else None
    ),
    delivery=_delivery(config, model),
    method=config.method or 'none',
    rate_step=config.rate_step or rates.CONSTANT,
    weight_cap=config.weight_cap,
    sum_cap=config.sum_cap or 0.0,
    factors=None if given is None else given.factors,
  )
  return dataclasses.replace(selector, num_predictions=num_predictions)


def check_anybody(selector: selector_lib.Selector, num_rounds: int) -> None:
  """Raises a `ValueError` if nobody could take part in any round."""
  rounds = range(1, num_rounds + 1)
  if not any(
    selector.constraint(t) and selector.availability(t).any() for t in rounds
  ):
    raise ValueError(
      f'No client is available up to round {num_rounds}, the last one '
      '(--rounds), when clients_per_round is above 0, so nobody would ever '
      'train; give more rounds, or another --avail.'
    )
