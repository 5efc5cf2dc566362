"""The report as one HTML page that needs nothing else, not even a network."""

import base64
from collections.abc import Mapping, Sequence
import html
import itertools
import re
import string

import pandas as pd

from experiments.paper import names
from experiments.paper import open_points
from experiments.paper import paper_figures
from experiments.paper import tables

_PAGE = string.Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 80rem; color: #1a1a1a;
  background: #fff; font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; }
h2 { margin-top: 2.5rem; border-bottom: 2px solid #0072b2; }
a { color: #005a8e; }
nav a { display: inline-block; margin: 0 1rem .5rem 0; padding: .3rem 0; }
figure { margin: 1.5rem 0; }
figcaption { max-width: 48rem; margin-bottom: .5rem; }
img { display: block; max-width: 100%; height: auto; }
.wide { overflow-x: auto; }
.large img { min-width: 42rem; }
table { border-collapse: collapse; font-size: .85rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border: 1px solid #d5d5d5; text-align: left;
  white-space: nowrap; vertical-align: top; }
th { background: #f2f2f2; }
tbody tr:hover td { background: #f7fafc; }
td.ours a { color: inherit; text-decoration-color: #9bbdd3; }
td.paper { color: #555; font-style: italic; }
td.missing { color: #757575; }
td.holds { background: #d9efe6; font-weight: bold; }
td.fails { background: #fbe1d3; font-weight: bold; }
td.undecided { background: #f6f6f6; white-space: normal; min-width: 8rem; }
.label { position: sticky; left: 0; background: #fff; }
th.label { background: #f2f2f2; }
td.long { white-space: normal; min-width: 16rem; }
dl { max-width: 48rem; }
dt { font-weight: bold; margin-top: .3rem; }
dd { margin: 0; }
details { margin: .3rem 0; }
summary { cursor: pointer; padding: .2rem 0; overflow-wrap: anywhere; }
pre { overflow-x: auto; margin: .2rem 0 .6rem; padding: .6rem;
  background: #f2f2f2; font-size: .8rem; }
@media print { details > * { display: block; } body { max-width: none; } }
</style>
</head>
<body>
<h1>$title</h1>
<p>$lead</p>
<nav>$links</nav>
$body
</body>
</html>
""")


def _section(name: str, title: str, body: str) -> str:
  return f'<section id="{name}">\n<h2>{title}</h2>\n{body}</section>\n'


def _image(kind: str, content: bytes, text: str) -> str:
  data = base64.b64encode(content).decode()
  width = re.search(rb'<svg[^>]* width="([0-9.]+)pt"', content)
  # On a phone a large picture scrolls sideways: shrunk, nobody could read it.
  large = ' large' if width and float(width[1]) > 500 else ''
  return (
    f'<div class="wide{large}"><img alt="{html.escape(text)}" '
    f'src="data:image/{kind};base64,{data}"></div>'
  )


def _figure(name: str, title: str, note: str, image: str) -> str:
  return (
    f'<figure id="figure-{name}">\n<figcaption><b>{html.escape(title)}.</b> '
    f'{html.escape(note)}</figcaption>\n{image}\n</figure>\n'
  )


def _points(points: Sequence[open_points.Point]) -> str:
  parts = []
  for i, point in enumerate(points, 1):
    entries = ''.join(
      f'<dt>{name}</dt><dd>{html.escape(text)}</dd>\n'
      for name, text in (
        ('The paper', point.paper),
        ('Here', point.here),
        ('What we found', point.found),
      )
    )
    parts.append(
      f'<h3>{i}. {html.escape(point.title)}</h3>\n<dl>\n{entries}</dl>\n'
    )
  return ''.join(parts)


def _short(revision: str) -> str:
  changed = ' with changes' if revision.endswith('+') else ''
  return f'{revision[:12] or "unknown"}{changed}'


def _commands(values: pd.DataFrame) -> str:
  """Returns the commands, those of all seeds of a cell together."""
  if values.empty:
    return '<p>Nothing has been run yet.</p>\n'
  parts = []
  rows = sorted(values.itertuples(), key=lambda r: (r.group, r.seed))
  for group, runs in itertools.groupby(rows, lambda r: r.group):
    lines = []
    for run in runs:
      lines += [
        f'# accuracy {run.accuracy:.4f}, loss {run.loss:.4f}, '
        f'{run.seconds:.0f} s, revision {_short(run.revision)}',
        run.command,
      ]
    parts.append(
      # The link leads inside, because that makes a browser open it.
      f'<details><summary>{html.escape(group)}</summary>'
      f'<pre id="{tables.anchor(group)}">'
      f'{html.escape(chr(10).join(lines))}</pre></details>\n'
    )
  return (
    '<p>Each command is one run: one seed of a number above. It leaves its '
    'files below <code>runs/</code>. The line before it says what it gave '
    f'here.</p>\n{"".join(parts)}'
  )


def page(
  values: pd.DataFrame,
  number_tables: Sequence[tables.Table],
  verdict_tables: Sequence[tables.Table],
  figures: Sequence[paper_figures.Figure],
  svgs: Mapping[str, bytes],
  points: Sequence[open_points.Point],
  other_pictures: Mapping[str, tuple[str, bytes]],
) -> str:
  """Returns the page.

  Args:
    values: From `frames.values`.
    number_tables: From `paper_tables`.
    verdict_tables: From `verdict_tables`; the last one holds all claims.
    figures: From `paper_figures`.
    svgs: The picture of each figure, by name.
    points: From `open_points`.
    other_pictures: Kind and content of pictures made elsewhere, by caption.

  Returns:
    HTML.
  """
  all_claims = verdict_tables[-1]
  sections = {
    'verdicts': (
      'Verdicts',
      ''.join(map(tables.html_text, verdict_tables[:-1]))
      + '<details><summary>All comparisons with their statistics</summary>\n'
      + f'{tables.html_text(all_claims)}</details>\n',
    ),
    'tables': (
      'Tables',
      '<p>A number with a line under it leads to the commands behind it; '
      'differences and seconds are made from such numbers.</p>\n'
      + ''.join(map(tables.html_text, number_tables)),
    ),
    'figures': (
      'Figures',
      ''.join(
        _figure(
          f.name, f.title, f.note, _image('svg+xml', svgs[f.name], f.title)
        )
        for f in figures
      )
      + ''.join(
        _figure(f'other-{i}', title, '', _image(kind, content, title))
        for i, (title, (kind, content)) in enumerate(other_pictures.items())
      ),
    ),
    'open': (
      'Where the paper is silent or contradicts itself',
      _points(points),
    ),
    'commands': ('Commands', _commands(values)),
  }
  revisions = sorted({_short(revision) for revision in values['revision']})
  made = (
    f'{len(values)} runs at revision {", ".join(revisions)}.'
    if revisions
    else 'No runs yet.'
  )
  sizes = ' and '.join(f'"{preset}"' for preset in names.PRESETS)
  return _PAGE.substitute(
    title='F3AST: the paper beside our runs',
    lead=html.escape(
      'Tables and figures of "Federated Learning Under Intermittent Client '
      'Availability and Time-Varying Communication Constraints" (Ribero, '
      f'Vikalo, de Veciana), made again. {made} Models of two sizes, {sizes}, '
      'are never in one column.'
    ),
    links=' '.join(
      f'<a href="#{name}">{title}</a>' for name, (title, _) in sections.items()
    ),
    body=''.join(
      _section(name, title, body) for name, (title, body) in sections.items()
    ),
  )
