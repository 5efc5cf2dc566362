"""Builds the site of `make docs` and looks at what came out.

Skipped where its packages are not installed: `make docs` puts them into
.venv-docs.
"""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import f3ast_tff
from tests import browser

_ROOT = pathlib.Path(__file__).parents[2]
_PAGES = sorted((_ROOT / 'docs').glob('*.md'))

pytestmark = pytest.mark.slow


def _python():
  """Returns a Python that has the packages, or None."""
  packages = ('sphinx', 'myst_parser', 'furo', 'numpy')
  if all(map(importlib.util.find_spec, packages)):
    return sys.executable
  own = _ROOT / '.venv-docs' / 'bin' / 'python'
  return own if own.exists() else None


@pytest.fixture(name='site', scope='module')
def _site(tmp_path_factory):
  python = _python()
  if python is None:
    pytest.skip('The packages of docs/requirements.txt are not installed.')
  folder = tmp_path_factory.mktemp('site')
  command = [python, '-m', 'sphinx', '-q', '-W', '--keep-going']
  ended = subprocess.run(
    [*command, '-c', 'docs', '.', folder],
    cwd=_ROOT,
    capture_output=True,
    text=True,
    timeout=600,
  )
  assert ended.returncode == 0, ended.stderr
  return folder


def _loaded(page):
  """Returns what a page loads: scripts, styles, pictures."""
  tags = re.findall(r'<(?:script|img|link|iframe|source)\b[^>]*>', page)
  found = [re.search(r'(?:src|href)="([^"]*)"', tag) for tag in tags]
  return [match[1] for match in found if match]


def test_the_index_leads_to_the_first_page(site):
  target = re.search(r'url=([^"]*)"', (site / 'index.html').read_text())[1]
  assert '<h1>f3ast_tff' in (site / target).read_text()


def test_every_page_is_there(site):
  assert len(_PAGES) > 10
  for page in _PAGES:
    assert (site / 'docs' / f'{page.stem}.html').exists(), page.name
  paper = site / 'docs' / 'paper'
  assert '<table' in (paper / 'README.html').read_text()
  assert 'href="report.html"' in (paper / 'README.html').read_text()
  assert (paper / 'report.html').exists()


def test_the_api_has_the_public_names_and_every_module(site):
  folder = site / 'docs' / 'api'
  index = (folder / 'index.html').read_text()
  for name in f3ast_tff.__all__:
    assert re.search(rf'<a [^>]*href="[^"]*\.{name}"', index), name
  pages = ''.join(page.read_text() for page in folder.glob('*.html'))
  for path in (_ROOT / 'f3ast_tff').rglob('*.py'):
    module = '.'.join(path.relative_to(_ROOT).with_suffix('').parts)
    module = module.removesuffix('.__init__')
    assert f'id="module-{module}"' in pages, module
  # The names of packages that are not imported, and our own as links.
  assert 'tff.learning.optimizers.Optimizer' in pages
  assert 'href="f3ast_tff.html#f3ast_tff.selector.Selector"' in pages


def test_the_search_reads_its_index_as_a_script(site):
  assert 'searchindex.js' in _loaded((site / 'search.html').read_text())
  index = (site / 'searchindex.js').read_text()
  assert index.startswith('Search.setIndex(')
  assert 'f3ast' in index


def test_the_site_opens_offline(site):
  seen = set()
  for page in site.rglob('*.html'):
    for url in _loaded(page.read_text()):
      if url.startswith('data:'):
        continue
      assert not re.match(r'\w+:|//', url), (page.name, url)
      file = page.parent / re.split('[?#]', url)[0]
      assert file.exists(), (page.name, url)
      seen.add(file.suffix)
  assert {'.css', '.js', '.png'} <= seen
  for style in site.rglob('*.css'):
    outside = r'(url\(|@import)\s*["\']?(https?:)?//'
    assert not re.search(outside, style.read_text()), style.name


# Does the page scroll sideways, and where does the first thing end that it says
# below its title? Does the first column of each table that is too wide stay in
# sight when all the way to the right?
_INSPECT = """
function moved(box) {
  box.scrollLeft = box.scrollWidth;
  const left = box.getBoundingClientRect().left;
  return [...box.querySelectorAll('tr > :first-child')].filter(cell =>
    Math.abs(cell.getBoundingClientRect().left - left) > 5).length;
}
function inspect() {
  const said = document.querySelector('h1').parentElement.querySelector(
    'p, ul, ol, table, dl');
  return {
    overflow: document.documentElement.scrollWidth
      - document.documentElement.clientWidth,
    height: innerHeight,
    said: said.getBoundingClientRect().bottom,
    text: said.innerText,
    moved: [...document.querySelectorAll('.table-wrapper')]
      .filter(box => box.scrollWidth > box.clientWidth).map(moved),
  };
}
"""


@pytest.fixture(name='opened', scope='module')
def _opened(site, tmp_path_factory):
  folder = tmp_path_factory.mktemp('opened') / 'site'
  shutil.copytree(site, folder)
  names = [f'docs/{page.stem}.html' for page in _PAGES]
  names += ['README.html', 'docs/paper/README.html', 'docs/api/index.html']
  return browser.inspect(folder, names, _INSPECT)[0]


@pytest.mark.parametrize('width', browser.SIZES)
def test_pages_fit_a_phone_and_a_desk(opened, width):
  found = {page: got for (page, at), got in opened.items() if at == width}
  for page, got in found.items():
    assert got['overflow'] == 0, page
    assert 0 < got['said'] <= got['height'], page
    assert not any(got['moved']), page
  assert sum(len(got['moved']) for got in found.values()) > 10


@pytest.mark.parametrize('width', browser.SIZES)
@pytest.mark.parametrize('page', ['reproduction', 'paper/README'])
def test_the_first_screen_has_the_conclusion(opened, page, width):
  text = opened[f'docs/{page}.html', width]['text']
  said = list(filter(None, text.splitlines()))
  assert len(said) == 5
  assert said[0].startswith('In ') and ' claims ' in said[0]


def test_links_inside_the_site_lead_somewhere(site):
  ids = {}
  for page in site.rglob('*.html'):
    ids[page.resolve()] = set(re.findall(r'\bid="([^"]*)"', page.read_text()))
  for page in ids:
    if page.name == 'report.html':
      continue  # It has tests of its own.
    for url in re.findall(r'<a [^>]*href="([^"]*)"', page.read_text()):
      path, _, anchor = url.partition('#')
      if re.match(r'\w+:', url):
        continue
      target = (page.parent / path).resolve() if path else page
      assert target.exists(), (page.name, url)
      if anchor and target in ids:
        assert anchor in ids[target], (page.name, url)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
