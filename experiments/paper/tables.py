"""A table of numbers with their spread, as Markdown, LaTeX, CSV and HTML."""

from collections.abc import Iterable, Mapping
import dataclasses
import itertools
import math
import re
from typing import NamedTuple, Optional, Union

import pandas as pd

from experiments import markdown as markdown_lib

NOT_RUN = 'not run'


def _gain(gain: Optional[float]) -> str:
  if gain is None:
    return ''
  digits = 0 if abs(gain) >= 0.1 else 1
  return f' ({100 * gain:+.{digits}f} %)'


@dataclasses.dataclass(frozen=True)
class Measured:
  """A number of ours.

  Attributes:
    mean: Over seeds.
    sd: Sample standard deviation over seeds; NaN for one.
    seeds: How many; 0 where nothing was run.
    gain: The relative gain over its baseline, if it has one.
    group: The name of the cells behind it, which lead to the commands.
    signed: Whether the sign is always shown, as for differences.
    absent: What stands there where nothing was run.
    mark: What stands after it.
  """

  mean: float = math.nan
  sd: float = math.nan
  seeds: int = 0
  gain: Optional[float] = None
  group: Optional[str] = None
  signed: bool = False
  absent: str = NOT_RUN
  mark: str = ''

  def __str__(self) -> str:
    if not self.seeds:
      return self.absent
    if not math.isfinite(self.mean):
      return f'diverged [{self.seeds}]'
    scatter = abs(self.mean) if math.isnan(self.sd) else self.sd
    digits = 4 if self.signed and scatter < 0.005 else 3
    mean = f'{self.mean:{"+" if self.signed else ""}.{digits}f}'
    sd = '' if math.isnan(self.sd) else f' ± {self.sd:.{digits}f}'
    return f'{mean}{sd} [{self.seeds}]{_gain(self.gain)}{self.mark}'


@dataclasses.dataclass(frozen=True)
class Printed:
  """A number of the paper's, with as many digits as it prints."""

  value: Optional[float] = None
  digits: int = 3
  gain: Optional[float] = None

  def __str__(self) -> str:
    if self.value is None:
      return '–'
    return f'{self.value:.{self.digits}f}{_gain(self.gain)}'


Entry = Union[str, Measured, Printed]
Row = Mapping[str, Entry]


class Table(NamedTuple):
  """A table.

  Attributes:
    name: Of its files.
    title: What it shows.
    note: What one has to know to read it.
    frame: The entries, all of one kind in a column. Neighbours named `a: x` and
      `a: y` share the title `a` above them.
    label: The column that stays in view when a narrow screen scrolls. Those
      before it say what group a row is in.
  """

  name: str
  title: str
  note: str
  frame: pd.DataFrame
  label: str

  @property
  def header(self) -> list[tuple[str, str]]:
    """The title above each column, or '', and its own."""
    parts = [column.rpartition(': ') for column in self.frame]
    return [(over, title) for over, _, title in parts]

  @property
  def num_groups(self) -> int:
    """How many columns are before the label."""
    return list(self.frame).index(self.label)

  @property
  def groups(self) -> list[tuple[str, list[list[Entry]]]]:
    """Rows that are alike before the label: what they share, and the rest."""
    number = self.num_groups
    rows = self.frame.to_numpy().tolist()
    together = itertools.groupby(rows, lambda row: list(map(str, row[:number])))
    return [
      (', '.join(titles), [row[number:] for row in group])
      for titles, group in together
    ]

  @property
  def is_run(self) -> bool:
    """Whether there is anything of ours in it."""
    entries = self.frame.to_numpy()
    numbers = [e for e in entries.ravel() if isinstance(e, Measured)]
    if numbers:
      return any(entry.seeds for entry in numbers)
    return bool((entries[:, self.num_groups + 1 :] != NOT_RUN).any())


def table(
  name: str, title: str, note: str, rows: Iterable[Row], label: str
) -> Table:
  """Returns a table of rows that map titles of columns to entries."""
  return Table(name, title, note, pd.DataFrame(list(rows), dtype=object), label)


def measured(
  by_seed: pd.Series,
  group: Optional[str] = None,
  baseline: Optional[pd.Series] = None,
  signed: bool = False,
) -> Measured:
  """Returns the number of values by seed.

  Args:
    by_seed: The values.
    group: The name of the cells behind it.
    baseline: The values that the relative gain is over.
    signed: Whether the sign is always shown.

  Returns:
    Mean, standard deviation and number of seeds, and the gain of the means over
    the seeds that both have.
  """
  if by_seed.empty:
    return Measured()
  gain = None
  if baseline is not None:
    both = by_seed.index.intersection(baseline.index)
    ours, theirs = (s[both].mean(skipna=False) for s in (by_seed, baseline))
    # NaN if there are none, or one diverged.
    if theirs and math.isfinite(ours) and math.isfinite(theirs):
      gain = float(ours / theirs - 1)
  return Measured(
    # NaN, which is told, if a run diverged.
    float(by_seed.mean(skipna=False)),
    float(by_seed.std(skipna=False)),
    len(by_seed),
    gain,
    group,
    signed,
  )


def markdown(table: Table) -> str:
  """Returns the table as Markdown, with its title and note."""
  columns = list(table.frame)[table.num_groups :]
  rows: list[list[Entry]] = [columns]
  for title, group in table.groups:
    if title:
      rows.append([f'**{title}**', *[''] * (len(columns) - 1)])
    rows += group
  lines = markdown_lib.table(rows)
  return f'**{table.title}**\n\n{lines}\n\n{table.note}\n'


_LATEX = str.maketrans({
  '&': r'\&',
  '%': r'\%',
  '#': r'\#',
  '_': r'\_',
  '$': r'\$',
  '±': r'$\pm$',
  '–': '--',
  '·': r'$\cdot$',
  '²': r'$^2$',
})


def _latex(entry: object) -> str:
  text = str(entry).translate(_LATEX)
  return re.sub(r'(?<!\w)-(?=\d)', '$-$', text)  # A minus, not a hyphen.


def latex(table: Table) -> str:
  """Returns the table as LaTeX; it needs booktabs and graphicx."""
  frame = table.frame.map(_latex)
  header = [tuple(map(_latex, titles)) for titles in table.header]
  has_over = any(over for over, _ in header)
  frame.columns = (
    pd.MultiIndex.from_tuples(header)
    if has_over
    else [title for _, title in header]
  )
  body = frame.to_latex(
    index=False,
    column_format=f'@{{}}{"l" * len(header)}@{{}}',
    multicolumn_format='c',
  ).strip()
  return '\n'.join([
    r'\begin{table*}',
    r'\centering',
    rf'\caption{{{_latex(table.title)}. {_latex(table.note)}}}',
    rf'\label{{tab:{table.name}}}',
    r'\resizebox{\textwidth}{!}{%',
    body + '}',
    r'\end{table*}',
    '',
  ])


# What a kind of entry has in CSV, by the ending of its column.
_PARTS: Mapping[type, Mapping[str, str]] = {
  Measured: {' mean': 'mean', ' sd': 'sd', ' seeds': 'seeds', ' gain': 'gain'},
  Printed: {'': 'value', ' gain': 'gain'},
}


def csv(table: Table) -> str:
  """Returns the table as CSV: means, deviations, seeds and gains apart."""
  columns = {}
  for title, entries in table.frame.items():
    parts = _PARTS.get(type(entries.iloc[0]))
    if parts is None:
      columns[title] = list(entries)
      continue
    for ending, field in parts.items():
      columns[title + ending] = [getattr(entry, field) for entry in entries]
  return csv_of(pd.DataFrame(columns))


def csv_of(frame: pd.DataFrame) -> str:
  """Returns CSV with six digits, which is more than seeds agree on."""
  return frame.to_csv(index=False, float_format='%.6g', lineterminator='\n')
