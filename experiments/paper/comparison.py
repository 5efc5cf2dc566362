"""Methods side by side, whatever their runs are: labels, order, pairs."""

from collections.abc import Iterable, Mapping, Sequence
import itertools
import pathlib
from typing import Any

import numpy as np
import pandas as pd

from experiments.grid import comparison as grid_comparison
from experiments.grid import pairs
from experiments.paper import design
from experiments.paper import drawing
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import run_directory

# Settings of the machine and of what is written, not of the training.
_IRRELEVANT = {
  'seed',
  'parallel_clients',
  'checkpoint_every',
  'vectors_in',
  'eval_every',
  'eval_examples',
  # The names of the files tell them apart.
  'server_rate_sha256',
  'groups_sha256',
  'target_sha256',
  'delivery_sha256',
  'trace_sha256',
}
# Settings that methods have of their own, so that two methods may differ in
# them and still be compared.
_OF_METHOD = {
  'algorithm',
  'selection',
  'server_optimizer',
  'method',
  'rate_step',
  'sum_cap',
  'weight_cap',
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
# Lines and colours of methods that are not among the paper's.
_OTHER_LOOKS = tuple(
  (color, line)
  for line in ('-.', '-', '--', ':')
  for color in ('#E69F00', '#56B4E9', '#F0E442', '#000000')
)


def _styles(methods: Iterable[str]) -> dict[str, tuple[str, str, str]]:
  """Returns name, colour and line: the paper's in its order, others by name."""
  found, known = set(methods), drawing.STYLES
  others = zip(sorted(found - set(known)), itertools.cycle(_OTHER_LOOKS))
  return {
    **{method: known[method] for method in known if method in found},
    **{method: (_name(method), *look) for method, look in others},
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
    runs.append((label, settings['seed'], folder))
  return grid_comparison.load(runs)


def table(tests: pd.DataFrame) -> pd.DataFrame:
  """Returns mean and standard deviation over seeds, one row per method.

  The sum of weights stands next to the accuracy because it acts as a server
  learning rate.

  Args:
    tests: From `load`.

  Returns:
    As `grid_comparison.table`.
  """
  result = grid_comparison.table(grid_comparison.by_seed(tests))
  return result.loc[list(_styles(result.index))]


def differences(tests: pd.DataFrame) -> list[str]:
  """Returns a line per pair of methods on what F3AST changes, by seed."""
  accuracy = grid_comparison.by_seed(tests)['accuracy']
  labels = accuracy.index.unique('label')
  lines = []
  for ours, baseline in design.PAIRS:
    for label in labels:
      method, comma, rest = label.partition(',')
      other = baseline + comma + rest
      if method != ours or other not in labels:
        continue
      gain = pairs.differences(accuracy[label], accuracy[other])
      if gain.empty:
        continue
      found = f'{gain.mean():+.3f} ± {gain.std():.3f} ({len(gain)} seeds)'
      if not np.isfinite(gain).all():
        found = 'a run diverged'
      elif len(gain) == 1:
        found = f'{gain.mean():+.3f} (one seed)'
      lines.append(
        f'{design.TITLES[ours]} - {design.TITLES[baseline]}{comma}{rest}, '
        f'test accuracy by seed: {found}'
      )
  return lines


def markdown(summary: pd.DataFrame) -> str:
  """Returns the table as Markdown that also reads well as plain text."""
  return grid_comparison.markdown(summary, 'method', name_of=_name)


def draw(tests: pd.DataFrame, title: str, path: pathlib.Path) -> None:
  """Draws accuracy and loss over rounds as `path`.png and .svg."""
  grid_comparison.draw(tests, _styles(tests['label']), title, path)


def report(
  folders: Sequence[pathlib.Path], title: str, output: pathlib.Path
) -> str:
  """Draws the curves of finished runs and returns their table.

  Args:
    folders: The folders of the runs.
    title: Above the picture.
    output: The picture, without ending.

  Returns:
    The table as Markdown, and the differences paired by seed.
  """
  metrics = load(folders)
  draw(metrics, title, output)
  return '\n'.join([markdown(table(metrics)), *differences(metrics), ''])
