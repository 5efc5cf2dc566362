"""Tests of `paper_report`: its files, the page, and what --check compares."""

import re
import sys
import xml.etree.ElementTree

import pytest

from experiments.paper import paper_report
from tests import fake_results


@pytest.fixture(name='files', scope='module')
def _files():
  found = [
    *fake_results.synthetic('fedavg', 'home_devices', [0.5, 0.6]),
    *fake_results.synthetic('f3ast', 'home_devices', [0.6, 0.7]),
  ]
  found[0]['command'] += ' <&>'
  picture = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
  return paper_report.build(found, {'The region': picture}, {})


@pytest.fixture(name='page', scope='module')
def _page(files):
  return files['report.html'].decode()


def test_files(files):
  for table in ('accuracy-paper', 'heterogeneity', 'k-sweep', 'claims'):
    for ending in ('md', 'csv'):
      assert files[f'{table}.{ending}']
    assert (f'{table}.tex' in files) == (table != 'claims')
    # A table of nothing is left out, and named at the end.
    is_shown = files[f'{table}.md'].rstrip() in files['README.md']
    assert is_shown == (table in ('accuracy-paper', 'k-sweep'))
  for figure in ('curves-loss-paper', 'relative-gain-compact', 'k-sweep'):
    assert files[f'{figure}.png'].startswith(b'\x89PNG')
    xml.etree.ElementTree.fromstring(files[f'{figure}.svg'])
    assert files[f'figure-{figure}.csv'].count(b'\n') >= 1
  cells = files['cells.csv'].decode().splitlines()
  assert len(cells) == 1 + 4
  assert '.venv/bin/python -m experiments.synthetic' in cells[1]


def test_the_page_needs_nothing_else(page):
  assert 'width=device-width' in page
  assert '<script' not in page
  without_pictures = re.sub(r'src="data:image/[^"]*"', '', page)
  assert not re.search(r'(src|href)="(?!#)', without_pictures)
  assert 'http' not in without_pictures
  ids = re.findall(r' id="([^"]+)"', page)
  assert len(ids) == len(set(ids))
  assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
  for text in (
    'The region',
    'Uneven on CIFAR-100',
    'Test accuracy on Synthetic(alpha, alpha) under Smartphones</li>',
    '--algorithm=f3ast --seed=1',
    fake_results.REVISION[:12],
  ):
    assert text in page


def test_the_page_is_well_formed_and_leads_to_commands(page):
  body = page[page.index('<body>') : page.index('</body>') + len('</body>')]
  body = re.sub(r'(<img[^>]*)>', r'\1/>', body)
  tree = xml.etree.ElementTree.fromstring(body)
  table = tree.find(".//figure[@id='accuracy-paper']//table")
  over, titles = table.findall('thead/tr')
  assert [cell.get('colspan') for cell in over] == [None] + ['2'] * 5
  assert [cell.text for cell in titles[:3]] == ['method', 'ours', 'paper']
  group, _, row = table.findall('tbody/tr')[:3]  # F3AST on Synthetic.
  assert group.find('th/span').text == 'Synthetic(1,1)'
  assert (row[0].get('class'), row[0].text) == ('label', 'F3AST')
  assert (row[1].get('class'), row[1].text) == ('missing', 'not run')
  link = row[5].find('a')
  assert link.text == '0.650 ± 0.071 [2] (+18 %)'
  commands = tree.find(f".//pre[@id='{link.get('href')[1:]}']")
  assert commands.text.count('--algorithm=f3ast') == 2
  assert any(' <&>\n' in pre.text for pre in tree.iterfind('.//pre'))


def test_the_conclusion_comes_first_and_hashes_last(files, page):
  readme = files['README.md'].decode()
  body = re.sub('<nav>.*</nav>', '', page[page.index('<body>') :], flags=re.S)
  for text in (readme, body):
    places = [
      text.index(part)
      for part in (
        'In 4 runs we tested',
        'is higher under Home-devices (+0.100',
        'Is F3AST above FedAvg?',
        'Relative gain by availability model',
        'How many claims hold',
        'Test accuracy, models of',
        'Where the paper is silent or contradicts itself',
        'revision 0123',
      )
    ]
    assert places == sorted(places) and places[0] < 150


def test_figures_are_next_to_their_tables(files, page):
  tables = set(re.findall(r'<figure class="table" id="([^"]+)"', page))
  order = re.findall(r'<figure [^>]*id="([^"]+)"', page)
  for figure, table in (
    ('relative-gain-paper', 'verdicts-synthetic'),
    ('curves-accuracy-paper', 'accuracy-paper'),
    ('curves-loss-paper', 'loss-paper'),
    ('k-sweep', 'k-sweep'),
  ):
    assert table in tables
    assert order.index(f'figure-{figure}') == order.index(table) + 1
  # Of what was not run there is no picture.
  assert 'figure-heterogeneity' not in order
  assert 'curves-loss-compact.png' not in files['README.md'].decode()


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


def test_a_report_of_nothing(monkeypatch):
  pictures = {'svg': b'<svg/>', 'png': b''}
  monkeypatch.setattr(paper_report.drawing, 'images', lambda _: pictures)
  files = paper_report.build([], {}, {})
  assert b'In 0 runs we tested 0 of' in files['report.html']
  assert b'No runs yet.' in files['report.html']
  assert files['cells.csv'].count(b'\n') == 1


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
