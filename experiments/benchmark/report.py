"""What a benchmark leaves: tables, tests, curves and one page."""

import base64
from collections.abc import Mapping
import pathlib
from typing import Any

import jinja2

from experiments.benchmark import conclusion
from experiments.benchmark import drawing
from experiments.benchmark import results
from experiments.benchmark import tables
from experiments.grid import plots
from f3ast_tff import wording
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import run_tables

_TEMPLATES = jinja2.Environment(
  loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent / 'templates'),
  autoescape=True,
  undefined=jinja2.StrictUndefined,
  trim_blocks=True,
  lstrip_blocks=True,
)
_TEMPLATES.filters['base64'] = lambda data: base64.b64encode(data).decode()


def _made(found: results.Results) -> str:
  """Returns what was run, in a sentence or two."""
  runs = found.runs
  rounds = sorted(set(runs['rounds']))
  last = ''
  if results.is_last_test(found.task):
    last = ' Accuracy is that of the last test, on all test examples.'
  elif len(rounds) == 1:
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


def _missing(found: results.Results) -> str:
  names = found.missing
  if not names:
    return ''
  return (
    f'{wording.count(len(names), "run")} did not finish and '
    f'{"is" if len(names) == 1 else "are"} left out: {", ".join(names[:5])}'
    f'{", ..." * (len(names) > 5)}.'
  )


def content(found: results.Results) -> dict[str, Any]:
  """Returns what the page and the text are made of."""
  has_pairs = not found.differences.empty
  shown = [tables.accuracy_table(found)]
  if has_pairs:
    shown.append(tables.differences_table(found))
  return {
    'made': _made(found),
    'missing': _missing(found),
    'conclusion': conclusion.sentences(
      found.table, found.differences, found.reference
    ),
    'tables': [
      *shown,
      tables.bias_table(found),
      tables.work_table(found),
      tables.cost_table(found),
    ],
    'pairs': tables.pairs_table(found) if has_pairs else None,
  }


def text(said: Mapping[str, Any]) -> str:
  """Returns the conclusion and the tables as Markdown."""
  lines = [said['made'], *filter(None, [said['missing']])]
  points = [f'- {sentence}' for sentence in said['conclusion']]
  return '\n\n'.join(
    [*lines, '\n'.join(points), *map(tables.markdown, said['tables'])]
  )


def pictures(found: results.Results) -> dict[str, bytes]:
  """Returns the pictures by the names of their files, PNG and SVG."""
  shown = {'accuracy': drawing.dots(found)}
  if not found.tests.empty:
    shown['curves'] = drawing.curves(found)
  return {
    f'{name}.{ending}': content
    for name, picture in shown.items()
    for ending, content in plots.images(picture).items()
  }


def page(
  found: results.Results,
  said: Mapping[str, Any],
  shown: Mapping[str, bytes],
  others: Mapping[str, str],
) -> str:
  """Returns the page, with its pictures inside.

  Args:
    found: The results.
    said: From `content`.
    shown: From `pictures`.
    others: The addresses of other pages, by title.
  """
  groups = found.runs.groupby(['method', 'avail'], sort=False)
  return _TEMPLATES.get_template('benchmark.html.j2').render(
    said,
    title=f'Benchmark: {found.title}',
    reference=found.reference,
    accuracy=shown['accuracy.svg'],
    curves=shown.get('curves.svg'),
    command=found.command,
    others=others,
    groups=[
      (f'{method}, {avail}', list(rows.itertuples()))
      for (method, avail), rows in groups
    ],
  )


def write(found: results.Results, output: pathlib.Path) -> str:
  """Writes all files; returns the text of `table.md`."""
  for name, frame in (
    ('runs', found.runs),
    ('table', found.table),
    ('differences', found.differences),
    ('pairs', found.pairs),
    ('curves', found.tests.drop(columns='label')),
  ):
    run_directory.write_atomically(
      output / f'{name}.csv',
      frame.to_csv(index=False, float_format='%.6g', lineterminator='\n'),
    )
  shown = pictures(found)
  for name, picture in shown.items():
    (output / name).write_bytes(picture)
  said = content(found)
  run_directory.write_atomically(
    output / 'benchmark.html', page(found, said, shown, {})
  )
  written = text(said)
  run_directory.write_atomically(output / 'table.md', written)
  return written
