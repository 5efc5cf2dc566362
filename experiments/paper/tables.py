"""A table that can be written as Markdown, LaTeX, CSV and HTML."""

from collections.abc import Sequence
import csv
import html
import io
import itertools
import math
import re
from typing import NamedTuple, Optional, Union

import pandas as pd

NOT_RUN = 'not run'
_LONG = 30  # Labels with more letters have several lines in HTML.


class Measured(NamedTuple):
  """A number of ours.

  Attributes:
    mean: Over seeds.
    sd: Sample standard deviation over seeds; NaN for one.
    seeds: How many; 0 where nothing was run.
    gain: The relative gain over its baseline, if it has one.
    group: The name of the cells behind it, which lead to the commands.
    signed: Whether the sign is always shown, as for differences.
    absent: What stands there where nothing was run.
  """

  mean: float
  sd: float = math.nan
  seeds: int = 1
  gain: Optional[float] = None
  group: Optional[str] = None
  signed: bool = False
  absent: str = NOT_RUN


class Printed(NamedTuple):
  """A number of the paper's, with as many digits as it prints."""

  value: Optional[float]
  digits: int = 3
  gain: Optional[float] = None


Entry = Union[str, Measured, Printed]


class Table(NamedTuple):
  """A table.

  Attributes:
    name: Of its files.
    title: What it shows.
    note: What one has to know to read it.
    header: The columns' titles.
    rows: As wide as the header; all entries of a column are of one kind.
    over: For each column, a title above it that neighbours share, or ''.
    label: The column that stays in view when a narrow screen scrolls.
  """

  name: str
  title: str
  note: str
  header: Sequence[str]
  rows: Sequence[Sequence[Entry]]
  over: Sequence[str] = ()
  label: int = 0


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
    return Measured(math.nan, seeds=0)
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


def _gain(gain: Optional[float]) -> str:
  if gain is None:
    return ''
  digits = 0 if abs(gain) >= 0.1 else 1
  return f' ({100 * gain:+.{digits}f} %)'


def _digits(entry: Measured) -> int:
  """Returns how many digits tell what a number says."""
  scatter = abs(entry.mean) if math.isnan(entry.sd) else entry.sd
  return 4 if entry.signed and scatter < 0.005 else 3


def text(entry: Entry) -> str:
  """Returns an entry as plain text."""
  if isinstance(entry, str):
    return entry
  if isinstance(entry, Printed):
    if entry.value is None:
      return '–'
    return f'{entry.value:.{entry.digits}f}{_gain(entry.gain)}'
  if not entry.seeds:
    return entry.absent
  if not math.isfinite(entry.mean):
    return f'diverged [{entry.seeds}]'
  digits = _digits(entry)
  mean = f'{entry.mean:{"+" if entry.signed else ""}.{digits}f}'
  sd = '' if math.isnan(entry.sd) else f' ± {entry.sd:.{digits}f}'
  return f'{mean}{sd} [{entry.seeds}]{_gain(entry.gain)}'


def _flat_header(table: Table) -> list[str]:
  over = table.over or [''] * len(table.header)
  return [f'{o}: {h}' if o else h for o, h in zip(over, table.header)]


def aligned(rows: Sequence[Sequence[str]]) -> str:
  """Returns Markdown that also reads well as plain text.

  Args:
    rows: The cells; the first row is the header.

  Returns:
    The lines, without a line break after the last.
  """
  rows = [[cell.replace('|', '\\|') for cell in row] for row in rows]
  widths = [max(map(len, column)) for column in zip(*rows)]
  lines = [
    '| ' + ' | '.join(map(str.ljust, row, widths)) + ' |' for row in rows
  ]
  rule = '|' + '|'.join('-' * (width + 2) for width in widths) + '|'
  return '\n'.join([lines[0], rule, *lines[1:]])


def markdown(table: Table) -> str:
  """Returns the table as Markdown, with its title and note."""
  rows = [_flat_header(table), *(list(map(text, row)) for row in table.rows)]
  return f'**{table.title}**\n\n{aligned(rows)}\n\n{table.note}\n'


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


def _latex(plain: str) -> str:
  text_ = plain.translate(_LATEX)
  return re.sub(r'(?<!\w)-(?=\d)', '$-$', text_)  # A minus, not a hyphen.


def latex(table: Table) -> str:
  """Returns the table as LaTeX; it needs booktabs and graphicx."""
  width = len(table.header)
  lines = [
    r'\begin{table*}',
    r'\centering',
    rf'\caption{{{_latex(table.title)}. {_latex(table.note)}}}',
    rf'\label{{tab:{table.name}}}',
    r'\resizebox{\textwidth}{!}{%',
    rf'\begin{{tabular}}{{@{{}}{"l" * width}@{{}}}}',
    r'\toprule',
  ]
  if any(table.over):
    groups = [(o, len(list(g))) for o, g in itertools.groupby(table.over)]
    lines.append(
      ' & '.join(
        rf'\multicolumn{{{n}}}{{c}}{{{_latex(o)}}}' if o else ' &' * (n - 1)
        for o, n in groups
      )
      + r' \\'
    )
  for row in (table.header, *table.rows):
    cells = (_latex(text(entry)) for entry in row)
    lines.append(' & '.join(cells) + r' \\')
    if row is table.header:
      lines.append(r'\midrule')
  lines += [r'\bottomrule', r'\end{tabular}}', r'\end{table*}', '']
  return '\n'.join(lines)


def _number(value: Optional[float]) -> str:
  return '' if value is None or math.isnan(value) else f'{value:.6g}'


def _csv_cells(entry: Entry) -> list[str]:
  if isinstance(entry, str):
    return [entry]
  if isinstance(entry, Printed):
    return [_number(entry.value), _number(entry.gain)]
  return [
    _number(entry.mean),
    _number(entry.sd),
    str(entry.seeds),
    _number(entry.gain),
  ]


def csv_text(table: Table) -> str:
  """Returns the table as CSV: means, deviations, seeds and gains apart."""
  header: list[str] = []
  for name, entry in zip(_flat_header(table), table.rows[0]):
    parts = {Measured: ['mean', 'sd', 'seeds', 'gain'], Printed: ['', 'gain']}
    endings = parts.get(type(entry), [''])
    header += [f'{name} {ending}'.strip() for ending in endings]
  file = io.StringIO()
  writer = csv.writer(file, lineterminator='\n')
  writer.writerow(header)
  for row in table.rows:
    writer.writerow([cell for entry in row for cell in _csv_cells(entry)])
  return file.getvalue()


def anchor(group: str) -> str:
  """Returns the id of the place where a group's commands are."""
  return 'cmd-' + ''.join(c if c.isalnum() else '-' for c in group)


def _html_entry(entry: Entry, is_label: bool) -> str:
  shown = html.escape(text(entry))
  if isinstance(entry, Measured):
    if entry.seeds and entry.group:
      shown = f'<a href="#{anchor(entry.group)}">{shown}</a>'
    kind = 'ours' if entry.seeds else 'missing'
    return f'<td class="{kind}">{shown}</td>'
  if isinstance(entry, Printed):
    return f'<td class="paper">{shown}</td>'
  kinds = {'holds': 'holds', 'does not hold': 'fails', NOT_RUN: 'missing'}
  kind = kinds.get(entry, 'undecided' if entry.startswith('undecided') else '')
  if is_label:
    kind = 'label long' if len(entry) > _LONG else 'label'
  return f'<td class="{kind}">{shown}</td>' if kind else f'<td>{shown}</td>'


def html_text(table: Table) -> str:
  """Returns the table as a figure of HTML that scrolls sideways."""
  head = ''
  if any(table.over):
    groups = [(o, len(list(g))) for o, g in itertools.groupby(table.over)]
    head = '<tr>' + ''.join(
      f'<th colspan="{n}">{html.escape(o)}</th>' for o, n in groups
    ) + '</tr>\n'
  head += '<tr>' + ''.join(
    f'<th{" class=label" if i == table.label else ""}>{html.escape(name)}</th>'
    for i, name in enumerate(table.header)
  ) + '</tr>'
  body = '\n'.join(
    '<tr>'
    + ''.join(_html_entry(e, i == table.label) for i, e in enumerate(row))
    + '</tr>'
    for row in table.rows
  )
  return (
    f'<figure id="{table.name}">\n'
    f'<figcaption><b>{html.escape(table.title)}.</b> '
    f'{html.escape(table.note)}</figcaption>\n<div class="wide"><table>\n'
    f'<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>\n'
    '</figure>\n'
  )
