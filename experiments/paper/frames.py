"""Results as tables: a row per cell, or per cell and evaluated round."""

from collections.abc import Iterable, Mapping
import dataclasses
import math
from typing import Any

import pandas as pd

from experiments.grid import metrics as metrics_lib
from experiments.grid import pairs
from experiments.paper import design
from f3ast_tff.runs import run_tables

ENOUGH_TESTS = 8  # To tell how much they scatter.
_KEY_FIELDS = [field.name for field in dataclasses.fields(design.Key)]
_METRICS = list(metrics_lib.METRICS)
# What a row has as the result file does.
_COPIED = [
  'mean_sum_of_weights',
  'rounds_with_fewer_than_k',
  'empty_rounds',
  'updates_left_out',
  'revision',
  'command',
]
_COLUMNS = [
  'name',
  'group',
  *_KEY_FIELDS,
  *_METRICS,
  *('unsteadiness', 'final_accuracy', 'final_loss', 'mean_sum_of_weights'),
  *('server_learning_rate', 'rounds', 'rounds_with_fewer_than_k'),
  *('empty_rounds', 'updates_left_out', 'seconds', 'revision', 'command'),
]


def curves(found: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
  """Returns the metrics of all results, a row per cell and evaluated round.

  Args:
    found: From `results.read_all`.

  Returns:
    The metrics, the fields of `Key`, its `group`, and `examples_trained`: how
    many examples clients had trained on by then, NaN where a result does not
    say.
  """
  frames = [
    pd.DataFrame(result['metrics']).assign(
      examples_trained=result.get('examples_trained', math.nan),
      group=design.Key(**result['cell']).group,
      **result['cell'],
    )
    for result in found
  ]
  columns = ['round', *_METRICS, 'examples_trained', 'group', *_KEY_FIELDS]
  empty = pd.DataFrame(columns=columns)
  return pd.concat(frames, ignore_index=True) if frames else empty


def _unsteadiness(tests: pd.Series) -> float:
  """Returns the standard deviation of tests; NaN if they are few."""
  if len(tests) < ENOUGH_TESTS:
    return math.nan
  return float(tests.std(skipna=False))


def _row(result: Mapping[str, Any]) -> dict[str, Any]:
  metrics = pd.DataFrame(result['metrics'])
  late, end = run_tables.last_rounds(metrics), metrics.iloc[-1]
  settings, key = result['settings'], design.Key(**result['cell'])
  # A mean over a curve that still rises would be of no round.
  told = late if key.dataset == 'synthetic' else metrics.tail(1)
  return {
    'name': key.name,
    'group': key.group,
    **result['cell'],
    # With NaN if one of them is: a run that diverged has no mean.
    **told[_METRICS].mean(skipna=False).to_dict(),
    # Is a mean over these rounds already.
    'sum_of_weights': end['sum_of_weights'],
    'unsteadiness': _unsteadiness(late['accuracy']),
    'final_accuracy': end['accuracy'],
    'final_loss': end['loss'],
    'server_learning_rate': settings['server_learning_rate'],
    'rounds': settings['rounds'],
    'seconds': result['wall_seconds'],
    **{name: result[name] for name in _COPIED},
  }


def values(found: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
  """Returns a row per cell: what is told of it, and more.

  Args:
    found: From `results.read_all`.

  Returns:
    The cell's `name` and `group`; a column per field of `Key` and per metric:
    on Synthetic its mean over `run_tables.last_rounds`, otherwise its last
    test, which is on all test data; `unsteadiness`, the standard deviation of
    the accuracy in the tests of these rounds, NaN if they are few;
    `final_...`, the last test.
  """
  return pd.DataFrame([_row(result) for result in found], columns=_COLUMNS)


def by_seed(values_: pd.DataFrame, key: design.Key, metric: str) -> pd.Series:
  """Returns the values of a metric in all seeds of a cell, by seed."""
  is_it = (values_['group'] == key.group).to_numpy()
  found = pd.Series(
    values_[metric].to_numpy(float)[is_it],
    index=values_['seed'].to_numpy(int)[is_it],
  )
  return found.sort_index()


def difference(
  values_: pd.DataFrame, ours: design.Key, other: design.Key, metric: str
) -> pd.Series:
  """Returns by seed how much one cell is above another."""
  pair = (by_seed(values_, key, metric) for key in (ours, other))
  return pairs.differences(*pair)
