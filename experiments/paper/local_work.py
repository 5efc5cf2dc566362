"""Is a method ahead, or has it only trained on more data?

Clients of Shakespeare hold between 1 and 550 sequences. A method that draws
them by their data, as FedAvg does, has more of them trained on in a round than
one that takes all clients in turn. So methods are compared once more where they
have trained on equally many examples, not had equally many rounds.
"""

import itertools
import math

import numpy as np
import pandas as pd

from experiments.paper import design
from experiments.paper import names
from experiments.paper import results
from experiments.paper import tables

_PLACE = ['preset', 'dataset', 'variant', 'avail', 'pair']
_KEYS = [*_PLACE[:-1], 'seed']
_VARIANTS = ('', design.LONGER)


def at_equal_work(ours: pd.DataFrame, other: pd.DataFrame) -> dict[str, float]:
  """Compares two runs at the end, and after equally many examples.

  Args:
    ours: The tests of a run in the order of rounds: `round`,
      `examples_trained`, the sum up to then, and `accuracy`.
    other: Those of another run.

  Returns:
    `ours` and `other`, the accuracies when both had trained on as many examples
    as the one that trained on fewer, between two tests on the line through
    them; the `difference` of these; `by_rounds`, the difference after the last
    round of both; and the examples a round of each.
  """
  ends = [run.iloc[-1] for run in (ours, other)]
  examples = min(end['examples_trained'] for end in ends)
  accuracies = [
    float(np.interp(examples, run['examples_trained'], run['accuracy']))
    for run in (ours, other)
  ]
  return {
    'ours': accuracies[0],
    'other': accuracies[1],
    'difference': accuracies[0] - accuracies[1],
    'by_rounds': ends[0]['accuracy'] - ends[1]['accuracy'],
    'ours_examples': ends[0]['examples_trained'] / ends[0]['round'],
    'other_examples': ends[1]['examples_trained'] / ends[1]['round'],
  }


def _pairs(curves: pd.DataFrame) -> pd.DataFrame:
  """Returns a row per pair of methods and seed, with what they differ in."""
  known = curves[
    curves['examples_trained'].notna()
    & curves['variant'].isin(_VARIANTS)
    # Its clients hold 100 images each, so that rounds are equal work.
    & (curves['dataset'] != 'cifar100')
  ]
  rows = []
  for place, runs in known.groupby(_KEYS):
    by_method = dict(list(runs.groupby('method')))
    rows += [
      {
        **dict(zip(_KEYS, place)),
        'pair': pair,
        'rounds': runs['round'].max(),
        **at_equal_work(*(by_method[method] for method in pair)),
      }
      for pair in names.COMPARISONS
      if set(pair) <= set(by_method)
    ]
  return pd.DataFrame(rows, columns=None if rows else [*_PLACE, 'seed'])


def table(curves: pd.DataFrame) -> tables.Table:
  """Returns the comparison of methods after equally many examples.

  Args:
    curves: From `frames.curves`.

  Returns:
    The table; without rows it says that nothing was run.
  """
  found = {
    place: of_pair.set_index('seed')
    for place, of_pair in _pairs(curves).groupby(_PLACE)
  }
  rows: list[list[tables.Entry]] = []
  for place in itertools.product(
    names.PRESETS,
    names.DATASETS,
    _VARIANTS,
    names.AVAILS,
    names.COMPARISONS,
  ):
    if place in found:
      preset, dataset, variant, avail, pair = place
      of_pair = found[place]
      groups = [
        results.Key(preset, dataset, avail, method, variant).group
        for method in pair
      ]
      rows.append([
        f'{names.DATASETS[dataset]}, {preset}',
        names.AVAILS[avail],
        ' and '.join(names.METHODS[method] for method in pair),
        f'{of_pair["rounds"].max()}',
        f'{of_pair["ours_examples"].mean():.0f}',
        f'{of_pair["other_examples"].mean():.0f}',
        tables.measured(of_pair['by_rounds'], signed=True),
        tables.measured(of_pair['ours'], groups[0]),
        tables.measured(of_pair['other'], groups[1]),
        tables.measured(of_pair['difference'], signed=True),
      ])
  if not rows:
    absent = tables.Measured(math.nan, seeds=0)
    rows = [['–', '–', '–', '', '', '', *[absent] * 4]]
  return tables.Table(
    'local-work',
    'Test accuracy after equally many rounds and after equally many examples',
    'Equal rounds: after the last one. Equal examples: when both had trained '
    'on as many as the one that trained on fewer in all, on the line between '
    'the tests before and after; mean ± standard deviation over seeds [number '
    'of seeds]. Clients of CIFAR-100 hold equally much, so that there the two '
    'are one.',
    [
      'dataset, models',
      'availability',
      'methods',
      'rounds',
      'first',
      'second',
      'difference',
      'first',
      'second',
      'difference',
    ],
    rows,
    [''] * 4
    + ['examples a round'] * 2
    + ['accuracy, equal rounds']
    + ['accuracy, equal examples'] * 3,
    label=2,
  )
