"""What a sweep leaves: tables, paired differences, a figure."""

from collections.abc import Mapping, Sequence
import itertools
import math
from typing import Any

import pandas as pd

from experiments import markdown as markdown_lib
from experiments.grid import cell as cells_lib
from experiments.grid import combinations
from experiments.grid import comparison
from experiments.grid import metrics as metrics_lib
from experiments.grid import runs as runs_lib
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import run_tables
from f3ast_tff.runs import summary

_METRICS = ['accuracy', 'user_accuracy', 'loss']

_COLORS = (
  summary.ORANGE,
  summary.BLUE,
  summary.GREEN,
  summary.PINK,
  summary.GREY,
  '#E69F00',
  '#56B4E9',
  '#000000',
)
_DASHES = ('-', '--', ':', '-.')


def styles(
  varied: Mapping[str, Mapping[str, Any]],
) -> dict[str, tuple[str, str, str]]:
  """Returns the name, colour and dashes of each combination.

  Where several flags vary, one of colour and dashes is that of the first flag,
  so that what belongs together looks alike.

  Args:
    varied: The values of the flags that vary, by label.

  Returns:
    By label.
  """
  keys = [[*map(str, values.values()), ''] for values in varied.values()]
  firsts = list(dict.fromkeys(key[0] for key in keys))
  rests = list(dict.fromkeys(tuple(key[1:]) for key in keys))
  found = {}
  for number, (label, key) in enumerate(zip(varied, keys)):
    places = firsts.index(key[0]), rests.index(tuple(key[1:]))
    if len(firsts) < len(rests):
      places = places[::-1]
    few, many = sorted((len(firsts), len(rests)))
    if few > len(_DASHES) or many > len(_COLORS):  # Too many to look alike.
      places = number, number // len(_COLORS)
    color, dash = places
    found[label] = (
      label, _COLORS[color % len(_COLORS)], _DASHES[dash % len(_DASHES)]
    )
  return found


def _index(
  runs: Sequence[runs_lib.Run],
  varied: Sequence[Mapping[str, Any]],
  places: runs_lib.Runs,
) -> pd.DataFrame:
  """Returns a row per run: what is known of it without its results."""
  rows = []
  for run, values in zip(runs, varied):
    is_finished = places.is_finished(run)
    revision = ''
    if is_finished:
      revision = run_directory.read_config(places.folder(run))['revision']
    rows.append({
      'label': combinations.label(values)
      or config_lib.method_name(run.settings),
      'seed': run.settings['seed'],
      'run': run.name,
      'finished': int(is_finished),
      'revision': revision,
      'command': cells_lib.command(run),
    })
  return pd.DataFrame(rows)


def _table(flags: pd.DataFrame, means: pd.DataFrame) -> pd.DataFrame:
  """Returns a row per combination, also of those without a finished run."""
  flat = means.loc[:, [*itertools.product(_METRICS, ('mean', 'std'))]]
  flat.columns = [f'{metric}_{column}' for metric, column in flat]
  joined = flags.join([means['seeds'].rename('runs'), flat])
  return joined.assign(runs=joined['runs'].fillna(0).astype(int))


def _differences_text(differences: pd.DataFrame, baseline: str) -> str:
  """Returns the differences as Markdown."""
  titles = [[metrics_lib.METRICS[metric], 'p'] for metric in _METRICS]
  rows = [[f'minus {baseline}', *itertools.chain(*titles), 'seeds']]
  for label, of_label in differences.groupby('label', sort=False):
    row = [label]
    for _, each in of_label.iterrows():
      p = each['p_adjusted']
      row.append(comparison.spread(each['mean'], each['sd'], '+'))
      row.append('' if math.isnan(p) else f'{p:.2g}')
    rows.append([*row, of_label['seeds'].iloc[0]])
  return (
    'Differences within seeds; p is of a paired t-test, adjusted for '
    f'{len(rows) - 1} of them (Benjamini and Hochberg).\n\n'
    f'{markdown_lib.table(rows)}\n'
  )


def _text(
  title: str,
  means: pd.DataFrame,
  differences: pd.DataFrame,
  baseline: str,
  missing: Sequence[str],
) -> str:
  """Returns all of it as Markdown."""
  parts = [
    f'{title}\n', comparison.markdown(means, 'combination', _METRICS)
  ]
  if not differences.empty:
    parts.append(_differences_text(differences, baseline))
  if missing:
    parts.append(
      f'{len(missing)} of the runs have not finished: '
      f'{", ".join(missing[:5])}{", ..." * (len(missing) > 5)}\n'
    )
  return '\n'.join(parts)


def _rounds_text(all_rounds: set[int]) -> str:
  if len(all_rounds) > 1:
    return 'means over the last 100 rounds, or the last third if it is less'
  (rounds,) = all_rounds
  return f'means over the last {run_tables.num_last(rounds)} of {rounds} rounds'


def write(
  runs: Sequence[runs_lib.Run],
  varied: Sequence[Mapping[str, Any]],
  places: runs_lib.Runs,
  title: str,
) -> str:
  """Writes the tables and the figure of the runs that have finished.

  Args:
    runs: All runs, of which one at least has finished. The others are compared
      with those of the first one's combination.
    varied: The values of the flags of each that vary, but for its seed.
    places: Where the runs are; the files go to the folder above.
    title: What all runs share.

  Returns:
    The tables as Markdown, as in `table.md`.
  """
  output = places.runs.parent
  index = _index(runs, varied, places)
  flags = pd.DataFrame(list(varied), index=index['label'])
  flags = flags[~flags.index.duplicated()]
  # By combination; they were run by seed.
  index = index.set_index('label').loc[flags.index]
  finished = index[index['finished'] == 1]
  tests = comparison.load(
    (row.Index, row.seed, places.runs / row.run)
    for row in finished.itertuples()
  )
  values = comparison.by_seed(tests)
  means = comparison.table(values)
  baseline = flags.index[0]
  differences = comparison.differences(values, baseline, _METRICS)
  text = _text(
    f'{title}: {_rounds_text({run.rounds for run in runs})}',
    means,
    differences,
    baseline,
    index.loc[index['finished'] == 0, 'run'].tolist(),
  )
  of_runs = flags.join(index).join(values, on=['label', 'seed'])
  last = ['revision', 'command']
  for name, frame in (
    ('table', _table(flags, means)),
    ('differences', flags.join(differences.set_index('label'), how='right')),
    ('runs', of_runs[[*of_runs.columns.drop(last), *last]]),
  ):
    content = frame.to_csv(
      index=False, float_format='%.6g', lineterminator='\n'
    )
    run_directory.write_atomically(output / f'{name}.csv', content)
  looks = styles(flags.T.to_dict())
  drawn = {label: looks[label] for label in means.index}
  comparison.draw(tests, drawn, title, output / 'curves')
  run_directory.write_atomically(output / 'table.md', text)
  return text
