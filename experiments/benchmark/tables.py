"""The tables of a benchmark's page, as text."""

import math
from typing import Any, NamedTuple

import pandas as pd

from experiments import markdown as markdown_lib
from experiments.benchmark import results
from experiments.benchmark import statistics
from experiments.grid import comparison


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


def _p_text(p: float) -> str:
  if math.isnan(p):
    return 'no test'
  if p < 0.001:
    return 'p < 0.001'
  # Not 0.05 for what is just below it: the verdict has to fit.
  texts = (f'{p:.{digits}g}' for digits in range(2, 18))
  level = statistics.LEVEL
  text = next(each for each in texts if (float(each) < level) == (p < level))
  return f'p = {text}'


def rank_text(rank: float) -> str:
  """Returns a rank without needless zeros."""
  return f'{rank:.2f}'.rstrip('0').rstrip('.')


def _number(value: float, digits: int) -> str:
  return '' if math.isnan(value) else f'{value:.{digits}f}'


def _by_place(table: pd.DataFrame) -> dict[tuple[str, str], Any]:
  return {(row.avail, row.method): row for row in table.itertuples()}


def ordered(table: pd.DataFrame) -> list[str]:
  """Returns the methods, that with the best mean rank first."""
  ranks = table.groupby('method', sort=False)['mean_rank'].first()
  return ranks.sort_values(kind='stable').index.tolist()


def accuracy_table(found: results.Results) -> Table:
  """Returns mean, spread and rank of each method under each model."""
  table, avails = found.table, found.table['avail'].unique().tolist()
  places, verdicts = _by_place(table), _by_place(found.differences)

  def entry(avail: str, method: str) -> Entry:
    row = places.get((avail, method))
    if row is None:
      return Entry('not run')
    mean, std = (
      getattr(row, f'{results.METRIC}_{each}') for each in ('mean', 'std')
    )
    text = comparison.spread(mean, std)
    against = verdicts.get((avail, method))
    kind = '' if against is None else against.verdict
    return Entry(
      f'{text} ({rank_text(row.rank)})',
      '' if kind == statistics.UNDECIDED else kind,
    )

  ranks = table.groupby('method')['mean_rank'].first()
  rows = [
    [
      Entry(method),
      *(entry(avail, method) for avail in avails),
      Entry(rank_text(ranks[method])),
    ]
    for method in ordered(table)
  ]
  return Table(
    'Test accuracy',
    'Mean ± standard deviation over seeds, and the rank in brackets; the best '
    'mean rank is on top. Green is significantly above '
    f'{found.reference}, orange significantly below.',
    ['method', *avails, 'mean rank'],
    rows,
  )


def differences_table(found: results.Results) -> Table:
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
    for method in ordered(found.table)
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


def pairs_table(found: results.Results) -> Table:
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


def _measured(
  found: results.Results, column: str, digits: int, title: str, note: str
) -> Table:
  """Returns what was measured of each method under each model."""
  table, avails = found.table, found.table['avail'].unique().tolist()
  places = _by_place(table)

  def entry(avail: str, method: str) -> Entry:
    row = places.get((avail, method))
    value = math.nan if row is None else getattr(row, column)
    return Entry(_number(value, digits) or 'not recorded')

  return Table(
    title,
    note,
    ['method', *avails],
    [
      [Entry(method), *(entry(avail, method) for avail in avails)]
      for method in ordered(table)
    ],
  )


def bias_table(found: results.Results) -> Table:
  """Returns the bias of weights of each method under each model."""
  return _measured(
    found,
    'misplaced',
    3,
    'Bias of the weights',
    'The part of all weights, in the last half of the rounds, that went to the '
    'wrong clients: half the sum of |share of the weights - p|. 0 is no bias. '
    'It is about the updates of a round: methods that use stored updates can '
    'correct for it in ways that it does not show.',
  )


def work_table(found: results.Results) -> Table:
  """Returns how much the clients of each method train on."""
  return _measured(
    found,
    'examples_per_round',
    0,
    'Local work',
    'How many examples the clients of a round hold, as a mean over rounds: who '
    'selects clients with more of the data trains on more of it.',
  )


def cost_table(found: results.Results) -> Table:
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
      for method in ordered(found.table)
    ],
  )


def markdown(table: Table) -> str:
  rows = [[entry.text for entry in row] for row in table.rows]
  return (
    f'**{table.title}.** {table.note}\n\n'
    f'{markdown_lib.table([table.header, *rows])}\n'
  )
