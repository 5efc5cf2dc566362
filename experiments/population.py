"""Some rounds of a population: who is available, and what that comes to."""

from typing import NamedTuple, Optional

import numpy as np

from experiments import theory
from f3ast_tff import traces
from f3ast_tff.availability import observed
from f3ast_tff.datasets import federated
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import selector as selector_lib


class Population(NamedTuple):
  """The clients of a task, and some rounds.

  Attributes:
    avail: The availability model, as the flag says it.
    title: What is shown.
    p: Each client's share of the data.
    masks: A_t, shape [rounds, N].
    k: K_t.
    order: The clients as they are drawn, from top to bottom.
    order_name: How they are ordered.
    is_positive: Whether the model calls them positively correlated.
    reachable: On a trace, the share of p that is ever available; else None.
  """

  avail: str
  title: str
  p: np.ndarray
  masks: np.ndarray
  k: np.ndarray
  order: np.ndarray
  order_name: str
  is_positive: bool
  reachable: Optional[float] = None


def observe(
  config: config_lib.Config, dataset: federated.FederatedDataset
) -> Population:
  """Returns the rounds that a run with these settings has.

  Args:
    config: The settings; who is selected does not matter.
    dataset: The data set.

  Returns:
    The rounds.
  """
  steps = dict.fromkeys(
    config_lib.SERVER_OPTIMIZERS, config_lib.LearningRates(1.0, 1.0)
  )
  selector = selector_lib.build(
    config.resolve(steps),
    dataset.num_examples,
    dataset.num_predictions,
    lambda: dataset.label_shares,
  )
  p, model = dataset.p, selector.availability
  order, name = np.argsort(-p, kind='stable'), 'most data on top'
  # Where clients come in groups, these stay together.
  groups = getattr(model, 'groups', np.zeros(p.size, int))
  if 1 < np.unique(groups).size < p.size:
    order, name = order[np.argsort(groups[order], kind='stable')], 'by group'
  return Population(
    config.avail,
    f'{config_lib.availability_name(vars(config))} on {dataset.name}, K = '
    f'{config.clients_per_round}, seed {config.seed}',
    p,
    observed.record(model, config.rounds),
    np.array([selector.constraint(t) for t in range(1, config.rounds + 1)]),
    order,
    name,
    model.positively_correlated,
    model.reachable_share(p) if isinstance(model, traces.Clocked) else None,
  )


def _of_runs(lengths: np.ndarray) -> str:
  if not lengths.size:
    return 'never'
  return (
    f'{lengths.mean():.1f} rounds in a row on average, at most {lengths.max()}'
  )


def text(shown: Population) -> str:
  """Returns what the rounds come to, in a few lines."""
  masks, p = shown.masks, shown.p
  counts, share = masks.sum(axis=1), masks.mean(axis=0)
  never = share == 0
  quartiles = np.quantile(share, [0.25, 0.5, 0.75])
  lengths = observed.run_lengths(masks)
  correlation = observed.mean_correlation(masks)
  correlated = f'{correlation:.3f}, mean of all pairs of clients'
  if np.isnan(correlation):
    correlated = 'none, as fewer than two clients come and go'
  form = 'sum p^2/r, as the model is not positively correlated'
  if shown.is_positive:
    form = 'sum p/r, as the model is positively correlated'
  reachable = []
  if shown.reachable is not None:
    reachable.append((
      'reachable',
      f'{100 * shown.reachable:.1f} % of the data, however many rounds follow',
    ))
  lines = (
    (
      'a round has',
      f'{counts.mean():.1f} of {p.size} clients, from {counts.min()} to '
      f'{counts.max()}',
    ),
    (
      'too few',
      f'fewer than K_t in {np.sum(counts < shown.k)} of {counts.size} rounds, '
      f'none in {np.sum(counts == 0)}',
    ),
    (
      'a client has',
      f'{share.mean():.2f} of the rounds, {p @ share:.2f} by p; quartiles '
      + ', '.join(f'{quartile:.2f}' for quartile in quartiles),
    ),
    (
      'never available',
      f'{never.sum()} clients, with {100 * p[never].sum():.1f} % of the data',
    ),
    *reachable,
    ('available for', _of_runs(lengths.on)),
    ('absent for', _of_runs(lengths.off)),
    ('correlation', correlated),
    ('H of F3AST', form),
  )
  return '\n'.join([
    shown.title, *(f'  {name:<16} {what}' for name, what in lines)
  ])


def rows(shown: Population) -> list[theory.Row]:
  """Returns a row for each client."""
  masks = shown.masks
  times = masks.sum(axis=0)
  first = masks.argmax(axis=0) + 1
  return [
    {
      'client': k,
      'p': float(p),
      'times_available': int(times[k]),
      'share': float(times[k] / len(masks)),
      'first_round': int(first[k]) if times[k] else '',
      'longest_absence': int(
        observed.run_lengths(masks[:, [k]]).off.max(initial=0)
      ),
    }
    for k, p in enumerate(shown.p)
  ]
