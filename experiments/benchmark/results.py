"""What a benchmark has found: its runs, compared."""

from collections.abc import Sequence
import math
import pathlib
from typing import NamedTuple

import pandas as pd

from experiments.benchmark import measurements
from experiments.benchmark import statistics
from experiments.grid import cell as cells_lib
from experiments.grid import comparison
from experiments.grid import runs as runs_lib
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import run_directory

METRIC = 'accuracy'
_MEASURED = (
  'misplaced', 'examples_per_round', 'seconds_per_round', 'peak_memory_mb'
)
_OTHERS = ('loss', 'user_accuracy', 'sum_of_weights', *_MEASURED, 'diverged')


class Results(NamedTuple):
  """All that the files are made of.

  Attributes:
    task: The experiment.
    title: What all runs share.
    reference: The method that others are compared with.
    runs: A row per finished run.
    tests: The curves: a row per test.
    table: From `statistics.summary`.
    differences: From the reference.
    pairs: All pairs.
    missing: The names of runs that have not finished.
    command: The command of the benchmark.
  """

  task: str
  title: str
  reference: str
  runs: pd.DataFrame
  tests: pd.DataFrame
  table: pd.DataFrame
  differences: pd.DataFrame
  pairs: pd.DataFrame
  missing: Sequence[str]
  command: str


def is_last_test(task: str) -> bool:
  """Returns whether the accuracy of a run is that of its last test.

  On real data curves still rise, so that a mean over rounds would be of no
  round, and tests before the last one are on a part of the examples.
  """
  return task != 'synthetic'


def compare(
  task: str,
  runs: pd.DataFrame,
  tests: pd.DataFrame,
  reference: str,
  title: str,
  command: str,
  missing: Sequence[str] = (),
) -> Results:
  """Compares methods by the values of their runs.

  Args:
    task: The experiment.
    runs: A row per finished run, at least one.
    tests: A row per test.
    reference: The method that others are compared with.
    title: What all runs share.
    command: The command of the benchmark.
    missing: The names of runs that have not finished.

  Returns:
    The results.
  """
  methods = runs['method'].unique().tolist()
  against = statistics.with_reference(methods, reference)
  runs = runs.assign(  # Older ones did not record all.
    **{name: math.nan for name in _OTHERS if name not in runs}
  )
  return Results(
    task,
    title,
    reference,
    runs,
    tests,
    statistics.summary(runs, METRIC, _OTHERS),
    statistics.compare(runs, METRIC, against),
    statistics.compare(runs, METRIC, statistics.all_pairs(methods)),
    missing,
    command,
  )


def of_runs(
  task: str,
  runs: Sequence[runs_lib.Run],
  places: runs_lib.Runs,
  reference: str,
  title: str,
  command: str,
) -> Results:
  """Reads the runs that have finished, at least one, and compares them.

  Args:
    task: The experiment.
    runs: All runs.
    places: Where they are.
    reference: The method that others are compared with.
    title: What all runs share.
    command: The command of the benchmark.

  Returns:
    The results.
  """
  finished = {run.name: run for run in runs if places.is_finished(run)}
  tests = comparison.load(
    (name, run.settings['seed'], places.folder(run))
    for name, run in finished.items()
  )
  told = comparison.by_seed(tests, is_last_test(task)).droplevel('seed')
  avails = {
    run.settings['avail']: config_lib.availability_name(run.settings)
    for run in runs
  }
  if len(set(avails.values())) < len(avails):  # Traces of the same name.
    avails = {avail: avail for avail in avails}
  rows = []
  for name, run in finished.items():
    folder = places.folder(run)
    rows.append({
      'avail': avails[run.settings['avail']],
      'method': run.settings['algorithm'],
      'seed': run.settings['seed'],
      **told.loc[name].to_dict(),
      **measurements.of_run(folder),
      'diverged': int(
        measurements.has_diverged(tests[tests['label'] == name])
      ),
      'rounds': run.rounds,
      'revision': run_directory.read_config(folder)['revision'],
      'command': cells_lib.command(run),
    })
  values = pd.DataFrame(rows, index=list(finished))
  tests = tests.join(values[['avail', 'method']], on='label')
  missing = [run.name for run in runs if run.name not in finished]
  return compare(task, values, tests, reference, title, command, missing)


def read(
  task: str, folder: pathlib.Path, reference: str, title: str
) -> Results:
  """Reads the results of a benchmark whose runs are no longer there.

  Args:
    task: The experiment.
    folder: The folder, with the benchmark's runs.csv and, if there are curves,
      its curves.csv.
    reference: The method that others are compared with.
    title: What all runs share.

  Returns:
    The results.
  """
  curves = folder / 'curves.csv'
  return compare(
    task,
    pd.read_csv(folder / 'runs.csv').fillna({'revision': ''}),
    pd.read_csv(curves) if curves.exists() else pd.DataFrame(),
    reference,
    title,
    command='',
  )
