"""The paper's tables with our numbers next to its own.

Models of different sizes are in different tables, and ours and the paper's
numbers in different columns.
"""

from collections.abc import Iterator, Mapping
import itertools
from typing import Any, Optional

import pandas as pd

from experiments.grid import metrics as metrics_lib
from experiments.paper import design
from experiments.paper import frames
from experiments.paper import paper_numbers
from experiments.paper import tables
from f3ast_tff.runs import run_tables

BASELINES = dict(design.PAIRS)
_OURS = 'Ours: mean ± standard deviation over seeds [number of seeds], a seed'
_LAST_ROUNDS = f'its mean over the last {run_tables.LAST_ROUNDS} rounds'
_LAST_TEST = 'its last test, which is on all test examples'
HOW = f'{_OURS} being {_LAST_ROUNDS}'  # On Synthetic.
_HOW_OF = {
  'paper': f'{_OURS} being on Synthetic {_LAST_ROUNDS}, otherwise {_LAST_TEST}',
  'compact': f'{_OURS} being {_LAST_TEST}',
}
GAIN = '; in parentheses the relative gain over FedAvg or FedAdam.'


def entry(
  values: pd.DataFrame,
  key: design.Key,
  metric: str,
  baseline: Optional[design.Key] = None,
) -> tables.Measured:
  """Returns the entry of a cell, and its gain over another."""
  return tables.measured(
    frames.by_seed(values, key, metric),
    key.group,
    None if baseline is None else frames.by_seed(values, baseline, metric),
  )


def difference(
  values: pd.DataFrame, ours: design.Key, other: design.Key, metric: str
) -> tables.Measured:
  """Returns how much one cell is above another, paired by seed."""
  found = frames.difference(values, ours, other, metric)
  return tables.measured(found, signed=True)


def _printed(
  paper: Mapping[Any, float], key: Any, baseline: Any, digits: int
) -> tables.Printed:
  value, other = paper.get(key), paper.get(baseline)
  gain = value / other - 1 if value is not None and other is not None else None
  return tables.Printed(value, digits, gain)


def _rounds(values: pd.DataFrame, preset: str) -> str:
  """Returns a sentence on how many rounds there were."""
  part = values[(values['preset'] == preset) & (values['variant'] == '')]
  rounds = part.groupby('dataset')['rounds'].max().to_dict()
  texts = [
    f'{design.DATASETS[dataset]} {rounds[dataset]}'
    for dataset in design.PRESETS[preset]
    if dataset in rounds
  ]
  return f' Rounds: {", ".join(texts)}.' if texts else ''


def _by_avail(
  values: pd.DataFrame, paper: pd.DataFrame, preset: str, metric: str
) -> tables.Table:
  """Returns tab:accuracy, tab:loss or another of their layout."""
  printed = paper_numbers.of_grid(paper)
  has_gain = metric != 'sum_of_weights'
  # The paper prints accuracies with three digits and losses with two.
  digits = 3 if design.is_higher_better(metric) else 2
  rows = []
  for dataset, method in itertools.product(
    design.PRESETS[preset], design.METHODS
  ):
    baseline = BASELINES.get(method) if has_gain else None
    row: dict[str, tables.Entry] = {
      'dataset': design.DATASETS[dataset], 'method': design.TITLES[method]
    }
    for avail, name in design.AVAILS.items():
      place = preset, dataset, avail
      row[f'{name}: ours'] = entry(
        values,
        design.Key(*place, method),
        metric,
        design.Key(*place, baseline) if baseline else None,
      )
      if has_gain:
        row[f'{name}: paper'] = _printed(
          printed,
          (metric, dataset, method, avail),
          (metric, dataset, baseline, avail),
          digits,
        )
    rows.append(row)
  note = _HOW_OF[preset] + (
    GAIN
    if has_gain
    else '. It acts as a server learning rate, and is a mean over the last '
    f'{run_tables.LAST_ROUNDS} rounds or the last third of all.'
  )
  if preset == 'compact' and has_gain:
    note += " The paper's numbers are of larger models and more rounds."
  if metric.endswith('loss'):
    note += (
      " On Shakespeare ours are means over characters; the paper's seem to "
      'count padding, too, which makes them smaller.'
    )
  if metric.startswith('user'):
    note += (
      ' On Shakespeare 26 of the 715 users have an empty test text: one '
      'prediction, the same for all of them, decides 3.6 % of a user average.'
    )
  return tables.table(
    f'{metric.replace("_", "-")}-{preset}',
    f'{metrics_lib.METRICS[metric].capitalize()}, {design.SIZES[preset]}',
    note + _rounds(values, preset),
    rows,
    'method',
  )


def _heterogeneity(values: pd.DataFrame, paper: pd.DataFrame) -> tables.Table:
  printed = paper_numbers.of_heterogeneity(paper)
  rows = []
  for method, title, from_kp in (
    *((method, design.TITLES[method], '') for method in design.ALPHA_METHODS),
    ('f3ast', 'F3AST from r(0) = K p, as at first', design.KP),
  ):
    baseline = BASELINES.get(method)
    row: dict[str, tables.Entry] = {'method': title}
    for alpha in design.ALPHAS:
      place = design.ALPHA_AVAIL, design.variant('alpha', alpha)
      variant = '-'.join(filter(None, [place[1], from_kp]))
      row[f'alpha = {alpha:g}: ours'] = entry(
        values,
        design.synthetic(method, design.ALPHA_AVAIL, variant),
        'accuracy',
        design.synthetic(baseline, *place) if baseline else None,
      )
      row[f'alpha = {alpha:g}: paper'] = _printed(
        {} if from_kp else printed, (method, alpha), (baseline, alpha), 2
      )
    rows.append(row)
  return tables.table(
    'heterogeneity',
    'Test accuracy on Synthetic(alpha, alpha) under Smartphones',
    f'{HOW}{GAIN} K p is the tie point of sum p²/r, and here H is sum p/r.',
    rows,
    'method',
  )


def _k_sweep(values: pd.DataFrame) -> tables.Table:
  def row(k: int) -> tables.Row:
    variant = design.variant('clients_per_round', str(k))
    keys = {
      method: design.synthetic(method, design.K_AVAIL, variant)
      for method in design.K_METHODS
    }
    ours = keys['f3ast']
    return {
      'K': str(k),
      **{
        design.TITLES[method]: entry(values, key, 'accuracy')
        for method, key in keys.items()
      },
      **{
        f'F3AST - {design.TITLES[method]}': difference(
          values, ours, key, 'accuracy'
        )
        for method, key in keys.items()
        if key != ours
      },
      'sum of weights, F3AST': entry(values, ours, 'sum_of_weights'),
    }

  return tables.table(
    'k-sweep',
    'Test accuracy on Synthetic(1,1) under Home-devices with K clients a round',
    f'{HOW}. Differences are paired by seed. The paper shows a figure without '
    'numbers. With K = 30 Power-of-Choice takes all of its 30 candidates.',
    map(row, design.KS),
    'K',
  )


def _seconds_rows(values: pd.DataFrame) -> Iterator[tables.Row]:
  part = values[values['variant'].isin(['', design.FIRST])]
  per_round = (part['seconds'] / part['rounds']).groupby(
    [part['preset'], part['dataset'], part['method']]
  )
  # A run that was stopped for a while would spoil a mean.
  known = per_round.agg(['median', 'size']).to_dict('index')
  for preset, datasets in design.PRESETS.items():
    for dataset in datasets:
      row: dict[str, tables.Entry] = {
        'dataset': design.DATASETS[dataset], 'models': preset
      }
      for method, name in design.METHODS.items():
        found = known.get((preset, dataset, method))
        row[name] = tables.Measured()
        if found:
          row[name] = tables.Measured(found['median'], seeds=found['size'])
      is_same = preset == 'paper'
      paper = paper_numbers.SECONDS[dataset] if is_same else None
      yield {**row, 'paper': tables.Printed(paper, 2)}


def build(values: pd.DataFrame, paper: pd.DataFrame) -> list[tables.Table]:
  """Returns the tables; there is 'not run' where there is nothing."""
  return [
    *(
      _by_avail(values, paper, preset, metric)
      for preset in design.PRESETS
      for metric in metrics_lib.METRICS
    ),
    _heterogeneity(values, paper),
    _k_sweep(values),
    tables.table(
      'seconds',
      'Seconds a round, tests and checkpoints included',
      'Ours: median over runs [number of runs], several runs at a time. The '
      'runs are of different revisions and machines, so columns cannot be '
      'compared. The paper: one GPU.',
      _seconds_rows(values),
      'dataset',
    ),
  ]
