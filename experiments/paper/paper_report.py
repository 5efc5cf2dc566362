"""All files of the report on the paper, as a pure function of the results.

So that writing them and checking them are the same work.
"""

from collections.abc import Mapping, Sequence
import pathlib
import re
from typing import Any, NamedTuple

import pandas as pd

from experiments.paper import claims as claims_lib
from experiments.paper import control_tables
from experiments.paper import frames
from experiments.paper import html_report
from experiments.paper import local_work
from experiments.paper import open_points
from experiments.paper import paper_figures
from experiments.paper import paper_tables
from experiments.paper import tables
from experiments.paper import verdict_tables
from f3ast_tff.runs import run_directory


class Paper(NamedTuple):
  """What the paper prints.

  Attributes:
    numbers: As `experiments.paper.paper_numbers.load` returns them.
    seconds: Seconds a round by dataset.
  """

  numbers: pd.DataFrame
  seconds: Mapping[str, float]


def _overview(
  number_tables: Sequence[tables.Table],
  verdict_tables: Sequence[tables.Table],
  figures: Sequence[paper_figures.Figure],
  points: Sequence[open_points.Point],
) -> str:
  """Returns the page for those who read Markdown."""
  lines = [
    '# The paper beside our runs',
    '',
    'Made by `python -m experiments.paper --report_only`; do not edit.',
    '`report.html` is the same with the command behind each number, '
    '`cells.csv` has a line and a command for each run, `claims.md` all '
    'comparisons with their statistics.',
    '',
    '## Verdicts',
    '',
    *map(tables.markdown, verdict_tables[:-1]),
    '## Tables',
    '',
    *map(tables.markdown, number_tables),
    '## Figures',
    '',
    *(
      f'**{f.title}.** {f.note}\n\n![{f.title}]({f.name}.png)\n'
      for f in figures
    ),
    '## Where the paper is silent or contradicts itself',
    '',
    *(
      f'{i}. **{point.title}.** The paper: {point.paper} Here: {point.here} '
      f'Found: {point.found}'
      for i, point in enumerate(points, 1)
    ),
    '',
  ]
  return '\n'.join(lines)


def _cells(values: pd.DataFrame) -> str:
  return values.sort_values('name').to_csv(
    index=False, float_format='%.6g', lineterminator='\n'
  )


def build(
  all_results: Sequence[Mapping[str, Any]],
  paper: Paper,
  other_pictures: Mapping[str, tuple[str, bytes]],
) -> dict[str, bytes]:
  """Returns the content of every file of the report by its name.

  Args:
    all_results: From `results.read_all`.
    paper: What the paper prints.
    other_pictures: Kind and content of pictures made elsewhere, by caption.

  Returns:
    Tables as .md, .tex and .csv; figures as .png, .svg and their numbers as
    .csv; `cells.csv`, `README.md` and `report.html`.
  """
  values, curves = frames.values(all_results), frames.curves(all_results)
  number_tables = [
    *paper_tables.build(values, paper.numbers, paper.seconds),
    *control_tables.build(values, curves),
    local_work.table(curves),
  ]
  verdicts = verdict_tables.build(claims_lib.claims(values, paper.numbers))
  figures = paper_figures.figures(values, curves, paper.numbers)
  points = open_points.points(values)
  texts, files = {}, {}
  for table in (*number_tables, *verdicts):
    texts[f'{table.name}.md'] = tables.markdown(table)
    if table is not verdicts[-1]:  # All claims would not fit on a page.
      texts[f'{table.name}.tex'] = tables.latex(table)
    texts[f'{table.name}.csv'] = tables.csv_text(table)
  for figure in figures:
    texts[f'figure-{figure.name}.csv'] = paper_figures.csv_text(figure)
    for ending, content in paper_figures.images(figure).items():
      files[f'{figure.name}.{ending}'] = content
  texts['cells.csv'] = _cells(values)
  texts['README.md'] = _overview(number_tables, verdicts, figures, points)
  texts['report.html'] = html_report.page(
    values,
    number_tables,
    verdicts,
    figures,
    {f.name: files[f'{f.name}.svg'] for f in figures},
    points,
    other_pictures,
  )
  files.update({name: text.encode() for name, text in texts.items()})
  return dict(sorted(files.items()))


def write(folder: pathlib.Path, files: Mapping[str, bytes]) -> None:
  """Writes the files of `build`."""
  folder.mkdir(parents=True, exist_ok=True)
  for name, content in files.items():
    if name.endswith('.png'):
      (folder / name).write_bytes(content)
    else:
      run_directory.write_atomically(folder / name, content.decode())


_MADE_BY = re.compile(rb'Matplotlib v[\w.+]+')


def _same(name: str, ours: bytes, theirs: bytes) -> bool:
  """Returns whether a file is as it should be.

  Pictures depend on the versions of libraries: the numbers behind each are
  compared instead, and the SVG too where the same Matplotlib made it.

  Args:
    name: Of the file.
    ours: As it is made now.
    theirs: As it is there.

  Returns:
    Whether they are the same.
  """
  if name.endswith('.png'):
    return True
  if name.endswith('.svg'):
    made_by = [_MADE_BY.findall(content)[:1] for content in (ours, theirs)]
    return made_by[0] != made_by[1] or ours == theirs
  if name.endswith('.html'):
    picture = re.compile(rb'src="data:image/[^"]*"')
    ours, theirs = picture.sub(b'', ours), picture.sub(b'', theirs)
  return ours == theirs


def differences(
  folder: pathlib.Path, files: Mapping[str, bytes]
) -> list[str]:
  """Returns a line for each file of a folder that is not as `build` says."""
  lines = []
  for name, content in files.items():
    path = folder / name
    if not path.exists():
      lines.append(f'{path} is missing')
    elif not _same(name, content, path.read_bytes()):
      lines.append(f'{path} is not what the results give')
  there = {path.name for path in folder.glob('*')} if folder.exists() else set()
  strangers = sorted(there - set(files))
  lines += [f'{folder / name} does not belong there' for name in strangers]
  return lines
