"""Runs side by side: a table and curves over seeds, from runs' files.

Runs that differ in their seeds alone share a label. The value of a run is its
mean over `run_tables.last_rounds`, or its last test: see `by_seed`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import math
import pathlib

import pandas as pd

from experiments import markdown as markdown_lib
from experiments.grid import metrics as metrics_lib
from experiments.grid import pairs
from experiments.grid import plots
from f3ast_tff.runs import run_tables

_WIDTH = 130  # Of a legend's row, in letters.


def load(runs: Iterable[tuple[str, int, pathlib.Path]]) -> pd.DataFrame:
  """Returns the tests of finished runs.

  Args:
    runs: The label, seed and folder of each.

  Returns:
    A row per test: `label`, `seed`, `round` and the metrics; the sum of weights
    is a mean over the rounds before.
  """
  tables = [
    run_tables.with_recent_weights(
      run_tables.read(folder / 'metrics.csv', ('round', *metrics_lib.METRICS)),
      run_tables.read(folder / 'rounds.csv', ('round', 'sum_of_weights')),
    ).assign(label=label, seed=seed)
    for label, seed, folder in runs
  ]
  return pd.concat(tables, ignore_index=True)


def by_seed(
  tests: pd.DataFrame, is_last_test: bool = False
) -> pd.DataFrame:
  """Returns the values of runs, by label and seed.

  Args:
    tests: From `load`.
    is_last_test: Whether they are those of the last test, and not means over
      `run_tables.last_rounds`.

  Returns:
    A row per run and a column per metric; NaN where the run diverged.
  """
  values = {}
  for place, run in tests.groupby(['label', 'seed'], sort=False):
    told = run.tail(1) if is_last_test else run_tables.last_rounds(run)
    late = told[list(metrics_lib.METRICS)]
    values[place] = late.mean(skipna=False)
    # Each is a mean over the rounds before it already.
    values[place]['sum_of_weights'] = late['sum_of_weights'].iloc[-1]
  return pd.DataFrame(values).T.rename_axis(['label', 'seed'])


def _mean(column: pd.Series) -> float:
  return column.mean(skipna=False)


def _std(column: pd.Series) -> float:
  return column.std(skipna=False)


def table(values: pd.DataFrame) -> pd.DataFrame:
  """Returns mean and standard deviation over seeds, one row per label.

  Args:
    values: From `by_seed`.

  Returns:
    Columns (metric, mean or std), and the number of seeds; NaN where a run of
    one seed diverged.
  """
  groups = values.groupby('label', sort=False)
  result = groups.agg([_mean, _std]).rename(
    columns={'_mean': 'mean', '_std': 'std'}
  )
  result['seeds'] = groups.size()
  return result


def differences(
  values: pd.DataFrame, baseline: str, metrics: Sequence[str]
) -> pd.DataFrame:
  """Returns how much each label is above a baseline, paired by seed.

  Args:
    values: From `by_seed`.
    baseline: The label that others are compared with.
    metrics: What is compared.

  Returns:
    A row per metric and other label: `seeds`, how many both have; `mean` and
    `sd` of the differences; `p` of a paired t-test; `p_adjusted` for all labels
    of that metric, see `pairs.adjusted`.
  """
  rows = []
  labels = [each for each in values.index.unique('label') if each != baseline]
  for metric in metrics:
    for label in labels if baseline in values.index.unique('label') else ():
      gain = pairs.differences(
        *(values.loc[each, metric] for each in (label, baseline))
      )
      rows.append({
        'label': label,
        'metric': metric,
        'seeds': len(gain),
        'mean': _mean(gain),
        'sd': _std(gain),
        'p': pairs.t_test(gain),
      })
  columns = ['label', 'metric', 'seeds', 'mean', 'sd', 'p']
  result = pd.DataFrame(rows, columns=columns)
  adjusted = result.groupby('metric')['p'].transform(pairs.adjusted)
  return result.assign(p_adjusted=adjusted.astype(float))


def spread(mean: float, std: float, sign: str = '') -> str:
  """Returns a mean and its spread as text; `diverged` where it is no number."""
  if not math.isfinite(mean):
    return 'diverged'
  rest = '' if math.isnan(std) else f' ± {std:.3f}'
  return f'{mean:{sign}.3f}{rest}'


def markdown(
  summary: pd.DataFrame,
  first: str,
  metrics: Iterable[str] = metrics_lib.METRICS,
  name_of: Callable[[str], str] = str,
) -> str:
  """Returns a table as Markdown that also reads well as plain text.

  Args:
    summary: From `table`.
    first: The title of the first column.
    metrics: The metrics to show.
    name_of: Returns what to call a label.

  Returns:
    The lines.
  """
  metrics = list(metrics)
  rows = [[first, *map(metrics_lib.METRICS.get, metrics), 'seeds']]
  for label, row in summary.iterrows():
    texts = [spread(row[each, 'mean'], row[each, 'std']) for each in metrics]
    rows.append([name_of(str(label)), *texts, str(int(row['seeds'].iloc[0]))])
  return markdown_lib.table(rows) + '\n'


def draw(
  tests: pd.DataFrame,
  styles: Mapping[str, tuple[str, str, str]],
  title: str,
  path: pathlib.Path,
) -> None:
  """Draws accuracy and loss over rounds as `path`.png and .svg.

  Args:
    tests: From `load`.
    styles: The name, colour and dashes of each label, in order.
    title: Above the picture.
    path: The picture, without ending.
  """
  data = tests.rename(columns={'label': 'method'})
  longest = max(len(name) for name, _, _ in styles.values()) + 8
  columns = max(1, min(5, _WIDTH // longest))
  rows = math.ceil(len(styles) / columns)
  figure, all_axes = plots.panels(1, 2, (10, 3.8 + 0.2 * rows))
  for axes, metric in zip(all_axes.flat, ('accuracy', 'loss')):
    lines = plots.over_seeds(data, ['method', 'round'], metric)
    # Where there are many bands, each is fainter.
    plots.lines(axes, lines, 'round', styles, band=min(0.15, 0.5 / len(styles)))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel='round', ylabel=f'test {metric}')
  plots.legend(figure, all_axes, columns)
  num_seeds = tests['seed'].nunique()
  seeds = 'one seed' if num_seeds == 1 else f'mean and sd of {num_seeds} seeds'
  figure.suptitle(f'{title}, {seeds}')
  plots.save(figure, path)
