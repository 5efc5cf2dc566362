"""Tests of `report.paper_report`, with the figures and the page."""

import re
import sys
import xml.etree.ElementTree

import pandas as pd
import pytest

from experiments.paper import design
from experiments.paper import frames
from experiments.paper import paper_figures
from experiments.paper import paper_numbers
from experiments.paper import paper_report
from tests import fake_results


def _results():
  return [
    result
    for method, accuracies in (('fedavg', [0.5, 0.6]), ('f3ast', [0.6, 0.7]))
    for result in fake_results.seeds(
      'paper', 'synthetic', 'home_devices', method, accuracies
    )
  ]


def _build(all_results):
  paper = paper_report.Paper(paper_numbers.load(), paper_numbers.SECONDS)
  picture = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
  return paper_report.build(
    all_results, paper, {'The region': ('svg+xml', picture)}
  )


@pytest.fixture(name='files', scope='module')
def _files():
  return _build(_results())


def test_files(files):
  for table in ('accuracy-paper', 'heterogeneity', 'departures', 'controls'):
    for ending in ('md', 'tex', 'csv'):
      assert files[f'{table}.{ending}']
  for figure in ('curves-loss-paper', 'relative-gain-compact', 'k-sweep'):
    assert files[f'{figure}.png'].startswith(b'\x89PNG')
    xml.etree.ElementTree.fromstring(files[f'{figure}.svg'])
    assert files[f'figure-{figure}.csv'].count(b'\n') >= 1
  cells = files['cells.csv'].decode().splitlines()
  assert len(cells) == 1 + 4
  assert '.venv/bin/python -m experiments.synthetic' in cells[1]


def test_curves_by_hand(files):
  rows = files['figure-curves-accuracy-paper.csv'].decode().splitlines()
  assert rows[0] == 'dataset,method,round,mean,sd,seeds'
  # Round 150 is .01 below the mean of the last rounds; seeds .6 and .7.
  assert 'synthetic,f3ast,150,0.64,0.0707107,2' in rows


@pytest.mark.parametrize('is_whole', [False, True])
def test_curves_of_what_has_only_begun(is_whole):
  first = [
    *fake_results.seeds(
      'paper', 'cifar100', 'home_devices', 'f3ast', [0.2], design.FIRST
    ),
    *fake_results.seeds(
      'paper', 'cifar100', 'home_devices', 'fedavg', [0.1], design.FIRST
    ),
  ]
  whole = fake_results.seeds(
    'paper', 'cifar100', 'home_devices', 'fedavg', [0.5]
  )
  every = first + (whole if is_whole else [])
  figures = paper_figures.figures(
    frames.values(every), frames.curves(every), paper_numbers.load()
  )
  (curves,) = [f for f in figures if f.name == 'curves-accuracy-paper']
  ends = curves.data[curves.data['round'] == 200].set_index('method')['mean']
  expected = {'fedavg': 0.51} if is_whole else {'fedavg': 0.11, 'f3ast': 0.21}
  assert ends.to_dict() == pytest.approx(expected)


def test_gains_by_hand(files):
  rows = files['figure-relative-gain-paper.csv'].decode().splitlines()
  # .65 / .55 - 1; by seed .2 and .16667.
  assert (
    'accuracy,synthetic,f3ast,fedavg,home_devices,0.181818,0.0235702,2,'
    in rows
  )
  assert sum(row.endswith(',0,0.873874') for row in rows) == 1  # .208 / .111.


def test_the_page_needs_nothing_else(files):
  page = files['report.html'].decode()
  assert 'width=device-width' in page
  assert '<script' not in page
  without_pictures = re.sub(r'src="data:image/[^"]*"', '', page)
  assert not re.search(r'(src|href)="(?!#)', without_pictures)
  assert 'http' not in without_pictures
  ids = re.findall(r' id="([^"]+)"', page)
  assert len(ids) == len(set(ids))
  for target in re.findall(r'href="#([^"]+)"', page):
    assert target in ids, target
  for text in (
    'The region',
    'Uneven on CIFAR-100',
    '--algorithm=f3ast --seed=1',
    'not run',
    fake_results.REVISION[:12],
  ):
    assert text in page


def test_the_page_is_well_formed(files):
  page = files['report.html'].decode()
  body = page[page.index('<body>') : page.index('</body>') + len('</body>')]
  body = re.sub(r'class=label', 'class="label"', body)
  body = re.sub(r'(<img[^>]*)>', r'\1/>', body)
  xml.etree.ElementTree.fromstring(body)


def test_check(files, tmp_path):
  paper_report.write(tmp_path, files)
  assert paper_report.differences(tmp_path, files) == []
  page = tmp_path / 'accuracy-paper.md'
  page.write_text(page.read_text().replace('0.650', '0.651'))
  (tmp_path / 'k-sweep.csv').unlink()
  (tmp_path / 'notes.txt').touch()
  assert paper_report.differences(tmp_path, files) == [
    f'{page} is not what the results give',
    f'{tmp_path / "k-sweep.csv"} is missing',
    f'{tmp_path / "notes.txt"} does not belong there',
  ]


def test_pictures_of_other_libraries_are_not_compared(files):
  svg = files['k-sweep.svg']
  other = re.sub(rb'Matplotlib v[\w.]+', b'Matplotlib v9.9.9', svg)
  assert b'v9.9.9' in other
  assert paper_report._same('k-sweep.svg', svg, other + b'<!-- -->')
  assert not paper_report._same('k-sweep.svg', svg, svg + b'<!-- -->')
  page = files['report.html']
  elsewhere = page.replace(b'base64,PD94', b'base64,XXXX')
  assert elsewhere != page and paper_report._same('a.html', page, elsewhere)
  assert not paper_report._same('a.html', page, page + b' ')


def test_pictures_repeat():
  all_results = _results()
  figures = paper_figures.figures(
    frames.values(all_results),
    frames.curves(all_results),
    paper_numbers.load(),
  )
  heterogeneity = figures[-1]
  assert paper_figures.images(heterogeneity) == paper_figures.images(
    heterogeneity
  )


def test_all_is_made_from_nothing():
  all_results = []
  paper = paper_numbers.load()
  values, curves = frames.values(all_results), frames.curves(all_results)
  figures = paper_figures.figures(values, curves, paper)
  for figure in figures:
    assert isinstance(figure.data, pd.DataFrame)
  # The others are drawn by the same functions.
  for figure in [f for f in figures if f.name.endswith('-compact')][1:]:
    assert b'<svg' in paper_figures.images(figure)['svg']


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
