"""What a benchmark leaves: tables, tests, curves and one page."""

import base64
from collections.abc import Mapping, Sequence
import math
import pathlib
from typing import Any, NamedTuple

import jinja2
import pandas as pd

from experiments import markdown as markdown_lib
from experiments.benchmark import conclusion
from experiments.benchmark import measurements
from experiments.benchmark import statistics
from experiments.grid import cell as cells_lib
from experiments.grid import comparison
from experiments.grid import plots
from experiments.grid import runs as runs_lib
from experiments.grid import sweep_report
from f3ast_tff import wording
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import run_tables

METRIC = 'accuracy'
_MEASURED = ('misplaced', 'seconds_per_round', 'peak_memory_mb')
_OTHERS = ('loss', 'user_accuracy', 'sum_of_weights', *_MEASURED, 'diverged')
_PANELS = 3  # In a row.

_TEMPLATES = jinja2.Environment(
  loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent / 'templates'),
  autoescape=True,
  undefined=jinja2.StrictUndefined,
  trim_blocks=True,
  lstrip_blocks=True,
)


class Entry(NamedTuple):
  """An entry of a table on the page.

  Attributes:
    text: What it says.
    kind: How it looks: `above`, `below`, or nothing.
  """

  text: str
  kind: str = ''


class Table(NamedTuple):
  """A table on the page.

  Attributes:
    title: Above it.
    note: What it shows.
    header: The titles of its columns.
    rows: Its entries; the first of each is its label.
  """

  title: str
  note: str
  header: list[str]
  rows: list[list[Entry]]


class Results(NamedTuple):
  """All that the files are made of.

  Attributes:
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

  title: str
  reference: str
  runs: pd.DataFrame
  tests: pd.DataFrame
  table: pd.DataFrame
  differences: pd.DataFrame
  pairs: pd.DataFrame
  missing: list[str]
  command: str


def results(
  runs: Sequence[runs_lib.Run],
  places: runs_lib.Runs,
  reference: str,
  title: str,
  command: str,
) -> Results:
  """Reads the runs that have finished, at least one, and compares them.

  Args:
    runs: All runs.
    places: Where they are.
    reference: The method that others are compared with.
    title: What all runs share.
    command: The command of the benchmark.

  Returns:
    The results.
  """
  finished = [run for run in runs if places.is_finished(run)]
  labels = {run.name: run for run in finished}
  tests = comparison.load(
    (run.name, run.settings['seed'], places.folder(run)) for run in finished
  )
  late = comparison.by_seed(tests).droplevel('seed')
  avails = {
    run.settings['avail']: config_lib.availability_name(run.settings)
    for run in runs
  }
  if len(set(avails.values())) < len(avails):  # Traces of the same name.
    avails = {avail: avail for avail in avails}
  rows = []
  for name, run in labels.items():
    folder = places.folder(run)
    rows.append({
      'avail': avails[run.settings['avail']],
      'method': run.settings['algorithm'],
      'seed': run.settings['seed'],
      **late.loc[name].to_dict(),
      **measurements.of_run(folder),
      'diverged': int(
        measurements.has_diverged(tests[tests['label'] == name])
      ),
      'rounds': run.rounds,
      'revision': run_directory.read_config(folder)['revision'],
      'command': cells_lib.command(run),
    })
  values = pd.DataFrame(rows, index=list(labels))
  tests = tests.join(values[['avail', 'method']], on='label')
  methods = list(dict.fromkeys(run.settings['algorithm'] for run in runs))
  return Results(
    title,
    reference,
    values,
    tests,
    statistics.summary(values, METRIC, _OTHERS),
    statistics.compare(
      values, METRIC, statistics.with_reference(methods, reference)
    ),
    statistics.compare(values, METRIC, statistics.all_pairs(methods)),
    [run.name for run in runs if run.name not in labels],
    command,
  )


def _p_text(p: float) -> str:
  if math.isnan(p):
    return 'no test'
  return 'p < 0.001' if p < 0.001 else f'p = {p:.2g}'


def _rank_text(rank: float) -> str:
  return f'{rank:.2f}'.rstrip('0').rstrip('.')


def _number(value: float, digits: int) -> str:
  return '' if math.isnan(value) else f'{value:.{digits}f}'


def _by_place(table: pd.DataFrame) -> dict[tuple[str, str], Any]:
  return {(row.avail, row.method): row for row in table.itertuples()}


def _ordered(table: pd.DataFrame) -> list[str]:
  """Returns the methods, that with the best mean rank first."""
  ranks = table.groupby('method', sort=False)['mean_rank'].first()
  return ranks.sort_values(kind='stable').index.tolist()


def accuracy_table(found: Results) -> Table:
  """Returns mean, spread and rank of each method under each model."""
  table, avails = found.table, found.table['avail'].unique().tolist()
  places, verdicts = _by_place(table), _by_place(found.differences)

  def entry(avail: str, method: str) -> Entry:
    row = places.get((avail, method))
    if row is None:
      return Entry('not run')
    text = comparison.spread(
      getattr(row, f'{METRIC}_mean'), getattr(row, f'{METRIC}_std')
    )
    against = verdicts.get((avail, method))
    kind = '' if against is None else against.verdict
    return Entry(
      f'{text} ({_rank_text(row.rank)})',
      '' if kind == statistics.UNDECIDED else kind,
    )

  ranks = table.groupby('method')['mean_rank'].first()
  rows = [
    [
      Entry(method),
      *(entry(avail, method) for avail in avails),
      Entry(_rank_text(ranks[method])),
    ]
    for method in _ordered(table)
  ]
  return Table(
    'Test accuracy',
    'Mean ± standard deviation over seeds, and the rank in brackets; the best '
    'mean rank is on top. Green is significantly above '
    f'{found.reference}, orange significantly below.',
    ['method', *avails, 'mean rank'],
    rows,
  )


def differences_table(found: Results) -> Table:
  """Returns how much each method is above the reference."""
  avails = found.differences['avail'].unique().tolist()
  places = _by_place(found.differences)

  def entry(avail: str, method: str) -> Entry:
    row = places.get((avail, method))
    if row is None:
      return Entry('not run')
    text = comparison.spread(row.mean, row.sd, '+')
    kind = '' if row.verdict == statistics.UNDECIDED else row.verdict
    return Entry(f'{text}, {_p_text(row.p_adjusted)}', kind)

  methods = [
    method
    for method in _ordered(found.table)
    if method in set(found.differences['method'])
  ]
  return Table(
    f'Accuracy minus that of {found.reference}',
    'Within seeds: mean ± standard deviation of the differences. p is of a '
    f'paired t-test, adjusted for all {len(found.differences)} of this table '
    '(Benjamini and Hochberg).',
    ['method', *avails],
    [
      [Entry(method), *(entry(avail, method) for avail in avails)]
      for method in methods
    ],
  )


def pairs_table(found: Results) -> Table:
  """Returns all pairs, one a row."""
  return Table(
    'All pairs',
    'Accuracy of the first method minus that of the second. p is adjusted for '
    f'all {len(found.pairs)} rows.',
    ['availability', 'first', 'second', 'difference', 'p', 'seeds', ''],
    [
      [
        Entry(row.avail),
        Entry(row.method),
        Entry(row.other),
        Entry(comparison.spread(row.mean, row.sd, '+')),
        Entry(_p_text(row.p_adjusted)),
        Entry(str(row.seeds)),
        Entry(
          row.verdict,
          '' if row.verdict == statistics.UNDECIDED else row.verdict,
        ),
      ]
      for row in found.pairs.itertuples()
    ],
  )


def bias_table(found: Results) -> Table:
  """Returns the bias of weights of each method under each model."""
  table, avails = found.table, found.table['avail'].unique().tolist()
  places = _by_place(table)

  def entry(avail: str, method: str) -> Entry:
    row = places.get((avail, method))
    value = math.nan if row is None else row.misplaced
    return Entry(_number(value, 3) or 'not recorded')

  return Table(
    'Bias of the weights',
    'The part of all weights, in the last half of the rounds, that went to the '
    'wrong clients: half the sum of |share of the weights - p|. 0 is no bias. '
    'It is about the updates of a round: methods that use stored updates can '
    'correct for it in ways that it does not show.',
    ['method', *avails],
    [
      [Entry(method), *(entry(avail, method) for avail in avails)]
      for method in _ordered(table)
    ],
  )


def cost_table(found: Results) -> Table:
  """Returns seconds and memory of each method."""
  by_method = found.runs.groupby('method', sort=False)
  seconds = by_method['seconds_per_round'].median()
  memory = by_method['peak_memory_mb'].max()
  has_memory = bool(memory.notna().any())
  memory_note = (
    'Memory is the highest of all runs, TensorFlow included, as seen at the '
    'end of each round.'
    if has_memory
    else 'The runs did not record their memory.'
  )
  return Table(
    'Time and memory',
    'Seconds of a round without tests: the median of the runs, which may have '
    f'shared the machine. {memory_note}',
    ['method', 'seconds a round', *(['peak memory, MB'] if has_memory else [])],
    [
      [
        Entry(method),
        Entry(_number(seconds[method], 3)),
        *([Entry(_number(memory[method], 0))] if has_memory else []),
      ]
      for method in _ordered(found.table)
    ],
  )


def _markdown(table: Table) -> str:
  rows = [[entry.text for entry in row] for row in table.rows]
  return (
    f'**{table.title}.** {table.note}\n\n'
    f'{markdown_lib.table([table.header, *rows])}\n'
  )


def draw(found: Results, path: pathlib.Path) -> None:
  """Draws accuracy over rounds, a panel per model, as `path`.png and .svg."""
  avails = found.table['avail'].unique().tolist()
  methods = found.table['method'].unique().tolist()
  styles = sweep_report.styles({each: {'algorithm': each} for each in methods})
  columns = min(_PANELS, len(avails))
  rows = math.ceil(len(avails) / columns)
  size = max(6.0, 3.6 * columns), 2.7 * rows + 0.8 + 0.2 * len(methods) / 4
  figure, all_axes = plots.panels(rows, columns, size, sharex=True, sharey=True)
  for axes, avail in zip(all_axes.flat, avails):
    of_avail = found.tests[found.tests['avail'] == avail]
    lines = plots.over_seeds(of_avail, ['method', 'round'], METRIC)
    band = min(0.15, 0.5 / len(methods))
    plots.lines(axes, lines, 'round', styles, band=band)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title(avail, fontsize='medium')
    axes.tick_params(labelbottom=True)
  for axes in all_axes.flat[len(avails):]:
    axes.set_axis_off()
  for axes in all_axes[:, 0]:
    axes.set_ylabel('test accuracy')
  for column in range(columns):
    last = [i for i in range(len(avails)) if i % columns == column][-1]
    all_axes.flat[last].set_xlabel('round')
  plots.legend(figure, all_axes)
  plots.save(figure, path)


def _made(found: Results) -> str:
  """Returns what was run, in a sentence or two."""
  runs = found.runs
  rounds = sorted(set(runs['rounds']))
  last = ''
  if len(rounds) == 1:
    last = (
      f' Accuracy is the mean over the last {run_tables.num_last(rounds[0])} '
      f'of {rounds[0]} rounds.'
    )
  seeds = wording.count(runs['seed'].nunique(), 'seed')
  return (
    f'{found.title}: {wording.count(len(runs), "run")}, '
    f'{wording.count(runs["method"].nunique(), "method")}, '
    f'{wording.count(runs["avail"].nunique(), "availability model")}, '
    f'{seeds}, which all methods share.{last}'
  )


def _missing(found: Results) -> str:
  names = found.missing
  if not names:
    return ''
  return (
    f'{wording.count(len(names), "run")} did not finish and '
    f'{"is" if len(names) == 1 else "are"} left out: {", ".join(names[:5])}'
    f'{", ..." * (len(names) > 5)}.'
  )


def content(found: Results) -> dict[str, Any]:
  """Returns what the page and the text are made of."""
  has_pairs = not found.differences.empty
  tables = [accuracy_table(found)]
  if has_pairs:
    tables.append(differences_table(found))
  return {
    'made': _made(found),
    'missing': _missing(found),
    'conclusion': conclusion.sentences(
      found.table, found.differences, found.reference
    ),
    'tables': [*tables, bias_table(found), cost_table(found)],
    'pairs': pairs_table(found) if has_pairs else None,
  }


def text(said: Mapping[str, Any]) -> str:
  """Returns the conclusion and the tables as Markdown."""
  lines = [said['made'], *filter(None, [said['missing']])]
  points = [f'- {sentence}' for sentence in said['conclusion']]
  return '\n\n'.join(
    [*lines, '\n'.join(points), *map(_markdown, said['tables'])]
  )


def page(found: Results, said: Mapping[str, Any], svg: bytes) -> str:
  """Returns the page, with its picture inside."""
  groups = found.runs.groupby(['method', 'avail'], sort=False)
  return _TEMPLATES.get_template('benchmark.html.j2').render(
    said,
    title=f'Benchmark: {found.title}',
    svg=base64.b64encode(svg).decode(),
    command=found.command,
    groups=[
      (f'{method}, {avail}', list(rows.itertuples()))
      for (method, avail), rows in groups
    ],
  )


def write(found: Results, output: pathlib.Path) -> str:
  """Writes all files; returns the text of `table.md`."""
  for name, frame in (
    ('runs', found.runs),
    ('table', found.table),
    ('differences', found.differences),
    ('pairs', found.pairs),
  ):
    run_directory.write_atomically(
      output / f'{name}.csv',
      frame.to_csv(index=False, float_format='%.6g', lineterminator='\n'),
    )
  draw(found, output / 'curves')
  said = content(found)
  svg = (output / 'curves.svg').read_bytes()
  run_directory.write_atomically(
    output / 'benchmark.html', page(found, said, svg)
  )
  written = text(said)
  run_directory.write_atomically(output / 'table.md', written)
  return written
