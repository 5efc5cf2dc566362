"""Methods side by side: a table and curves over seeds, from runs' files."""

from collections.abc import Iterable, Mapping, Sequence
import itertools
import math
import pathlib
from typing import Any

import numpy as np
import pandas as pd

from experiments import markdown as markdown_lib
from experiments.paper import design
from experiments.paper import drawing
from experiments.paper import frames
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import run_tables

# Settings of the machine and of what is written, not of the training.
_IRRELEVANT = {
  'seed',
  'parallel_clients',
  'checkpoint_every',
  'eval_every',
  'eval_examples',
  'server_rate_sha256',  # The name of the file tells them apart.
}
# Settings that methods have of their own, so that two methods may differ in
# them and still be compared.
_OF_METHOD = {
  'algorithm',
  'selection',
  'server_optimizer',
  'proximal',
  'client_learning_rate',
  'server_learning_rate',
  'server_rate_file',
  'server_epsilon',
  'beta',
  'rate_init',
  'correlation',
  'num_candidates',
}
# Colours of methods that are not among the paper's.
_OTHER_COLORS = ('#E69F00', '#56B4E9', '#F0E442', '#000000')


def _styles(methods: Iterable[str]) -> dict[str, tuple[str, str, str]]:
  """Returns name, colour and line: the paper's in its order, others by name."""
  found, known = set(methods), drawing.STYLES
  others = zip(sorted(found - set(known)), itertools.cycle(_OTHER_COLORS))
  return {
    **{method: known[method] for method in known if method in found},
    **{method: (_name(method), color, '-.') for method, color in others},
  }


def _labels(all_settings: Sequence[Mapping[str, Any]]) -> list[str]:
  """Returns a name for each run: its method, and in what it differs.

  Runs with different settings, other than the seed, those of the machine and
  what belongs to their methods, are not to be compared as if they were alike;
  the settings that differ become part of the name.
  """
  methods = [config_lib.method_name(settings) for settings in all_settings]
  labels = []
  for method, settings in zip(methods, all_settings):
    same = [s for m, s in zip(methods, all_settings) if m == method]
    extra = [
      f'{name}={value}'
      for name, value in settings.items()
      if name not in _IRRELEVANT
      and any(
        other.get(name, run_directory.OLD_DEFAULTS.get(name, value)) != value
        for other in (same if name in _OF_METHOD else all_settings)
      )
    ]
    labels.append(', '.join([method, *extra]))
  return labels


def _name(label: str) -> str:
  """Returns a label with its method's name as people write it."""
  method, comma, rest = label.partition(',')
  return design.METHODS.get(method, method) + comma + rest


def _settings(folder: pathlib.Path) -> Mapping[str, Any]:
  """Returns the settings of a run, which name a method and a seed."""
  settings = run_directory.read_config(folder)['settings']
  try:
    config_lib.method_name(settings)
    is_sound = type(settings['seed']) is int
  except (KeyError, TypeError, ValueError):
    is_sound = False
  if not is_sound:
    raise run_directory.RunDirectoryError(
      f'{folder / "config.json"} names no method or no seed; leave it out.'
    )
  return settings


def load(folders: Sequence[pathlib.Path]) -> pd.DataFrame:
  """Returns the metrics of finished runs, with their method and seed."""
  all_settings = [_settings(folder) for folder in folders]
  runs = []
  found: dict[tuple[str, int], pathlib.Path] = {}
  for folder, settings, label in zip(
    folders, all_settings, _labels(all_settings)
  ):
    place = label, settings['seed']
    if place in found:
      raise ValueError(
        f'{found[place]} and {folder} are the same run twice, with seed '
        f'{settings["seed"]}; leave one of them out.'
      )
    found[place] = folder
    if settings.get('data_source') == 'sample':
      raise ValueError(
        f'{folder} is a run on sample data, not a result; leave it out.'
      )
    metrics = run_tables.with_recent_weights(
      run_tables.read(folder / 'metrics.csv', ('round', *design.METRICS)),
      run_tables.read(folder / 'rounds.csv', ('round', 'sum_of_weights')),
    )
    runs.append(metrics.assign(algorithm=label, seed=settings['seed']))
  return pd.concat(runs, ignore_index=True)


def _by_seed(metrics: pd.DataFrame) -> pd.DataFrame:
  """Returns a run's means over its last rounds, by method and seed.

  A run that diverged has none: NaN.
  """
  values = {}
  for place, run in metrics.groupby(['algorithm', 'seed']):
    late = run_tables.last_rounds(run)[list(design.METRICS)]
    values[place] = late.mean(skipna=False)
    # Each is a mean over the rounds before it already.
    values[place]['sum_of_weights'] = late['sum_of_weights'].iloc[-1]
  return pd.DataFrame(values).T.rename_axis(['algorithm', 'seed'])


def _mean(column: pd.Series) -> float:
  return column.mean(skipna=False)


def _std(column: pd.Series) -> float:
  return column.std(skipna=False)


def table(metrics: pd.DataFrame) -> pd.DataFrame:
  """Returns mean and standard deviation over seeds, one row per method.

  A seed's value is its mean over `run_tables.last_rounds`; the sum of weights
  stands next to the accuracy because it acts as a server learning rate.

  Args:
    metrics: From `load`.

  Returns:
    Columns (metric, mean or std), and the number of seeds; NaN where a run of
    one seed diverged.
  """
  by_method = _by_seed(metrics).groupby('algorithm')
  result = by_method.agg([_mean, _std]).rename(
    columns={'_mean': 'mean', '_std': 'std'}
  )
  result['seeds'] = by_method.size()
  return result.loc[list(_styles(result.index))]


def differences(metrics: pd.DataFrame) -> list[str]:
  """Returns a line per pair of methods on what F3AST changes, by seed.

  A seed decides the data and the availability of all methods alike, so the
  difference within a seed is not blurred by how seeds differ.
  """
  accuracy = _by_seed(metrics)['accuracy']
  labels = accuracy.index.unique('algorithm')
  lines = []
  for ours, baseline in design.PAIRS:
    for label in labels:
      method, comma, rest = label.partition(',')
      other = baseline + comma + rest
      if method != ours or other not in labels:
        continue
      gain = frames.paired_differences(accuracy[label], accuracy[other])
      if gain.empty:
        continue
      found = f'{gain.mean():+.3f} ± {gain.std():.3f} ({len(gain)} seeds)'
      if not np.isfinite(gain).all():
        found = 'a run diverged'
      elif len(gain) == 1:
        found = f'{gain.mean():+.3f} (one seed)'
      lines.append(
        f'{design.METHODS[ours]} - {design.METHODS[baseline]}{comma}{rest}, '
        f'test accuracy by seed: {found}'
      )
  return lines


def markdown(summary: pd.DataFrame) -> str:
  """Returns the table as Markdown that also reads well as plain text."""
  rows = [['method', *design.METRICS.values(), 'seeds']]
  for label, row in summary.iterrows():
    num_seeds = int(row['seeds'].iloc[0])
    cells = []
    for column in design.METRICS:
      mean, std = row[(column, 'mean')], row[(column, 'std')]
      text = f'{mean:.3f} ± {std:.3f}' if num_seeds > 1 else f'{mean:.3f}'
      cells.append(text if math.isfinite(mean) else 'diverged')
    rows.append([_name(label), *cells, str(num_seeds)])
  return markdown_lib.table(rows) + '\n'


def draw(metrics: pd.DataFrame, title: str, path: pathlib.Path) -> None:
  """Draws accuracy and loss over rounds as `path`.png and .svg."""
  data = metrics.rename(columns={'algorithm': 'method'})
  styles = _styles(data['method'])
  figure, all_axes = drawing.panels(1, 2, (10, 4))
  for axes, metric in zip(all_axes.flat, ('accuracy', 'loss')):
    lines = drawing.over_seeds(data, ['method', 'round'], metric)
    drawing.lines(axes, lines, 'round', styles)
    axes.set(xlabel='round', ylabel=f'test {metric}')
  drawing.legend(figure, all_axes)
  num_seeds = metrics['seed'].nunique()
  seeds = 'one seed' if num_seeds == 1 else f'mean and sd of {num_seeds} seeds'
  figure.suptitle(f'{title}, {seeds}')
  drawing.save(figure, path)
