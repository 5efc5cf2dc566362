"""The paper's tables with our numbers beside its own.

Models of different sizes are in different tables, and ours and the paper's
numbers in different columns.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import pandas as pd

from experiments.paper import design
from experiments.paper import frames
from experiments.paper import names
from experiments.paper import results
from experiments.paper import tables
from f3ast_tff.runs import run_tables

BASELINES = dict(names.PAIRS)
HOW = (
  'Ours: mean ± standard deviation over seeds [number of seeds], a seed '
  f'being its mean over the last {run_tables.LAST_ROUNDS} rounds (the last '
  'third of shorter runs)'
)
GAIN = '; in parentheses the relative gain over FedAvg or FedAdam.'
# The paper prints accuracies with three digits and losses with two.
_DIGITS = {'accuracy': 3, 'user_accuracy': 3}


def entry(
  values: pd.DataFrame,
  key: results.Key,
  metric: str,
  baseline: Optional[results.Key] = None,
  seeds: Optional[Sequence[int]] = None,
) -> tables.Measured:
  """Returns the entry of a cell, and its gain over another."""
  if seeds is not None:
    values = values[values['seed'].isin(list(seeds))]
  return tables.measured(
    frames.by_seed(values, key, metric),
    key.group,
    None if baseline is None else frames.by_seed(values, baseline, metric),
  )


def difference(
  values: pd.DataFrame, ours: results.Key, other: results.Key, metric: str
) -> tables.Measured:
  """Returns how much one cell is above another, paired by seed."""
  pair = [frames.by_seed(values, key, metric) for key in (ours, other)]
  return tables.measured(frames.paired_differences(*pair), signed=True)


def _printed(
  paper: Mapping[Any, float],
  dataset: str,
  metric: str,
  method: str,
  avail: str,
) -> tables.Printed:
  value = paper.get((metric, dataset, method, avail))
  other = paper.get((metric, dataset, BASELINES.get(method, ''), avail))
  gain = value / other - 1 if value is not None and other is not None else None
  return tables.Printed(value, _DIGITS.get(metric, 2), gain)


def _rounds(values: pd.DataFrame, preset: str) -> str:
  """Returns a sentence on how many rounds there were."""
  part = values[(values['preset'] == preset) & (values['variant'] == '')]
  rounds = part.groupby('dataset')['rounds'].max().to_dict()
  texts = [
    f'{names.DATASETS[dataset]} {rounds[dataset]}'
    for dataset in names.PRESETS[preset]
    if dataset in rounds
  ]
  return f' Rounds: {", ".join(texts)}.' if texts else ''


def _by_avail(
  values: pd.DataFrame, paper: pd.DataFrame, preset: str, metric: str
) -> tables.Table:
  """Returns tab:accuracy, tab:loss or another of their layout."""
  printed = design.printed(paper)
  has_gain = metric != 'sum_of_weights'
  rows = []
  for dataset in names.PRESETS[preset]:
    for method, name in names.METHODS.items():
      row: list[tables.Entry] = [names.DATASETS[dataset], name]
      for avail in names.AVAILS:
        baseline = BASELINES.get(method) if has_gain else None
        row.append(
          entry(
            values,
            results.Key(preset, dataset, avail, method),
            metric,
            results.Key(preset, dataset, avail, baseline) if baseline else None,
          )
        )
        if has_gain:
          row.append(_printed(printed, dataset, metric, method, avail))
      rows.append(row)
  columns = ['ours', 'paper'] if has_gain else ['ours']
  note = HOW + (GAIN if has_gain else '. It acts as a server learning rate.')
  if preset == 'compact' and has_gain:
    note += " The paper's numbers are of larger models and more rounds."
  if metric in ('loss', 'user_loss'):
    note += (
      " On Shakespeare ours are means over characters; the paper's seem to "
      'count padding, too, which makes them smaller.'
    )
  if metric in ('user_accuracy', 'user_loss'):
    note += (
      ' On Shakespeare 26 of the 715 users have an empty test text: one '
      'prediction, the same for all of them, decides 3.6 % of a user average.'
    )
  return tables.Table(
    name=f'{metric.replace("_", "-")}-{preset}',
    title=f'{names.METRICS[metric].capitalize()}, {names.SIZES[preset]}',
    note=note + _rounds(values, preset),
    header=['dataset', 'method', *columns * len(names.AVAILS)],
    over=['', '', *(n for n in names.AVAILS.values() for _ in columns)],
    rows=rows,
    label=1,
  )


def _heterogeneity(values: pd.DataFrame, paper: pd.DataFrame) -> tables.Table:
  table = paper[paper['table'] == 'heterogeneity']
  printed = table.set_index(['method', 'alpha'])['value'].to_dict()
  rows = []
  for method in design.ALPHA_METHODS:
    row: list[tables.Entry] = [names.METHODS[method]]
    for alpha in design.ALPHAS:
      variant = design.variant('alpha', alpha)
      keys = [
        design.synthetic(m, design.ALPHA_AVAIL, variant)
        for m in (method, 'fedavg')
      ]
      is_gain = method != 'fedavg'
      gain = printed[(method, alpha)] / printed[('fedavg', alpha)] - 1
      row += [
        entry(values, keys[0], 'accuracy', keys[1] if is_gain else None),
        tables.Printed(
          printed[(method, alpha)], 2, gain if is_gain else None
        ),
      ]
    rows.append(row)
  return tables.Table(
    'heterogeneity',
    'Test accuracy on Synthetic(alpha, alpha) under Smartphones',
    HOW + GAIN,
    ['method', *['ours', 'paper'] * len(design.ALPHAS)],
    rows,
    ['', *(f'alpha = {alpha:g}' for alpha in design.ALPHAS for _ in range(2))],
  )


def _k_sweep(values: pd.DataFrame) -> tables.Table:
  rows: list[list[tables.Entry]] = []
  for k in design.KS:
    keys = {
      method: design.synthetic(
        method, design.K_AVAIL, design.variant('clients_per_round', str(k))
      )
      for method in design.K_METHODS
    }
    few = values[values['seed'].isin(list(design.FEW_SEEDS))]
    rows.append([
      str(k),
      *(entry(few, key, 'accuracy') for key in keys.values()),
      *(
        difference(few, keys['f3ast'], keys[other], 'accuracy')
        for other in design.K_METHODS
        if other != 'f3ast'
      ),
      entry(few, keys['f3ast'], 'sum_of_weights'),
    ])
  return tables.Table(
    'k-sweep',
    'Test accuracy on Synthetic(1,1) under Home-devices with K clients a round',
    f'{HOW}. Differences are paired by seed. The paper shows a figure without '
    'numbers. With K = 30 Power-of-Choice takes all of its 30 candidates.',
    [
      'K',
      *(names.METHODS[method] for method in design.K_METHODS),
      'F3AST - FedAvg',
      'F3AST - PoC',
      'sum of weights, F3AST',
    ],
    rows,
  )


def _seconds(
  values: pd.DataFrame, paper_seconds: Mapping[str, float]
) -> tables.Table:
  rows: list[list[tables.Entry]] = []
  for preset, datasets in names.PRESETS.items():
    for dataset in datasets:
      part = values[
        (values['preset'] == preset)
        & (values['dataset'] == dataset)
        & values['variant'].isin(['', design.FIRST])
      ]
      row: list[tables.Entry] = [names.DATASETS[dataset], preset]
      for method in names.METHODS:
        runs = part[part['method'] == method]
        # A run that was stopped for a while would spoil a mean.
        seconds = float((runs['seconds'] / runs['rounds']).median())
        row.append(tables.Measured(seconds, seeds=len(runs)))
      is_same = preset == 'paper'
      row.append(tables.Printed(paper_seconds[dataset] if is_same else None, 2))
      rows.append(row)
  return tables.Table(
    'seconds',
    'Seconds a round, tests and checkpoints included',
    'Ours: median over runs [number of runs], on the machines that made the '
    'results, several runs at a time. The paper: one GPU.',
    ['dataset', 'models', *names.METHODS.values(), 'paper'],
    rows,
  )


def build(
  values: pd.DataFrame,
  paper: pd.DataFrame,
  paper_seconds: Mapping[str, float],
) -> list[tables.Table]:
  """Returns the tables of numbers.

  Args:
    values: From `frames.values`.
    paper: The paper's numbers, as `experiments.paper.paper_numbers` has them.
    paper_seconds: The paper's seconds a round by dataset.

  Returns:
    The tables; there is 'not run' where there is nothing.
  """
  return [
    *(
      _by_avail(values, paper, preset, metric)
      for preset in names.PRESETS
      for metric in names.METRICS
    ),
    _heterogeneity(values, paper),
    _k_sweep(values),
    _seconds(values, paper_seconds),
  ]
