"""All files of the report on the paper, as a pure function of the results.

So that writing them and checking them are the same work.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
import itertools
import pathlib
import re
from typing import Any

import jinja2
import pandas as pd

from experiments.paper import claims as claims_lib
from experiments.paper import conclusion
from experiments.paper import control_tables
from experiments.paper import drawing
from experiments.paper import frames
from experiments.paper import open_points
from experiments.paper import option_tables
from experiments.paper import paper_figures
from experiments.paper import paper_numbers
from experiments.paper import paper_tables
from experiments.paper import tables
from experiments.paper import verdict_tables
from experiments.paper import verdicts
from f3ast_tff import wording
from f3ast_tff.runs import run_directory


def _anchor(group: str) -> str:
  """Returns the id of the place where a group's commands are."""
  return 'cmd-' + ''.join(c if c.isalnum() else '-' for c in group)


def _kind(entry: tables.Entry) -> str:
  """Returns the class that decides how an entry looks."""
  text = str(entry)
  if isinstance(entry, tables.Measured):
    return 'ours' if entry.seeds else 'missing'
  if isinstance(entry, tables.Printed):
    return 'paper'
  kinds = {
    verdicts.HOLDS: 'holds',
    verdicts.FAILS: 'fails',
    verdicts.NOT_RUN: 'missing',
  }
  if text.startswith(verdicts.UNDECIDED):
    return 'undecided'
  return kinds.get(text, '')


def _runs(header: Iterable[tuple[str, str]]) -> list[tuple[str, int]]:
  """Returns each title above columns with the number of these."""
  groups = itertools.groupby(header, lambda titles: titles[0])
  return [(over, len(list(group))) for over, group in groups]


def _is_large(svg: bytes) -> bool:
  """Whether a picture scrolls sideways on a phone, as it could not be read."""
  width = re.search(rb'<svg[^>]* width="([0-9.]+)pt"', svg)
  return width is not None and float(width[1]) > 500


def _short(revision: str) -> str:
  changed = ' with changes' if revision.endswith('+') else ''
  return f'{revision[:12] or "unknown"}{changed}'


_TEMPLATES = jinja2.Environment(
  loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent / 'templates'),
  autoescape=jinja2.select_autoescape(['html.j2']),
  undefined=jinja2.StrictUndefined,
  trim_blocks=True,
  lstrip_blocks=True,
  keep_trailing_newline=True,
)
_TEMPLATES.filters |= {
  'anchor': _anchor,
  'base64': lambda content: base64.b64encode(content).decode(),
  'is_large': _is_large,
  'kind': _kind,
  'markdown': tables.markdown,
  'runs': _runs,
  'short': _short,
}


def _made(values: pd.DataFrame) -> str:
  """Returns a sentence on the code that the runs are of."""
  if values.empty:
    return 'No runs yet.'
  revisions = sorted(set(map(_short, values['revision'])))
  runs = wording.count(len(values), 'run')
  return f'{runs} at revision {", ".join(revisions)}.'


def build(
  all_results: Sequence[Mapping[str, Any]],
  other_pictures: Mapping[str, bytes],
  other_pages: Mapping[str, tuple[str, str]],
) -> dict[str, bytes]:
  """Returns the content of every file of the report by its name.

  Args:
    all_results: From `results.read_all`.
    other_pictures: SVGs made elsewhere, by caption.
    other_pages: Title and content of pages made elsewhere, by file name.

  Returns:
    Tables as .md, .tex and .csv; figures as .png, .svg and their numbers as
    .csv; `cells.csv`, `README.md` and `report.html`; the other pages.
  """
  values, curves = frames.values(all_results), frames.curves(all_results)
  numbers = paper_numbers.load()
  claims = claims_lib.claims(values, curves, numbers)
  content: dict[str, Any] = {
    'conclusion': conclusion.sentences(values, claims),
    'tables': [
      *paper_tables.build(values, numbers),
      *option_tables.build(values, claims),
      *control_tables.build(values, curves),
    ],
    'verdicts': verdict_tables.build(claims),
    'figures': paper_figures.figures(values, curves, numbers),
    'points': open_points.points(values),
    'made': _made(values),
  }
  all_tables = [*content['verdicts'], *content['tables']]
  content['absent'] = [t.title for t in all_tables if not t.is_run]
  texts = {'cells.csv': tables.csv_of(values.sort_values('name'))}
  pictures = {}
  for table in all_tables:
    texts[f'{table.name}.md'] = tables.markdown(table)
    texts[f'{table.name}.csv'] = tables.csv(table)
    if table.name != 'claims':  # All claims would not fit on a page.
      texts[f'{table.name}.tex'] = tables.latex(table)
  for figure in content['figures']:
    texts[f'figure-{figure.name}.csv'] = tables.csv_of(figure.data)
    for ending, picture in drawing.images(figure).items():
      pictures[f'{figure.name}.{ending}'] = picture
  readme = _TEMPLATES.get_template('README.md.j2')
  texts['README.md'] = readme.render(content)
  page = _TEMPLATES.get_template('report.html.j2')
  texts['report.html'] = page.render(
    content,
    title='F3AST: the paper next to our runs',
    svgs={f.name: pictures[f'{f.name}.svg'] for f in content['figures']},
    other_pictures=other_pictures,
    other_pages={title: name for name, (title, _) in other_pages.items()},
    groups=list(values.sort_values('seed').groupby('group')),
  )
  texts |= {name: page for name, (_, page) in other_pages.items()}
  files = {name: text.encode() for name, text in texts.items()} | pictures
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
