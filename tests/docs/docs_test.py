"""Checks what the pages in docs/ point at: files, names, layers."""

import ast
import functools
import pathlib
import re
import sys

import pytest

_ROOT = pathlib.Path(__file__).parents[2]
_DOCS = _ROOT / 'docs'
_PAGES = sorted([_ROOT / 'README.md', *_DOCS.glob('*.md')])
_MODULE_PAGES = sorted((_DOCS / 'modules').glob('*.md'))


def _links(page):
  """Returns where the relative links and pictures of a page go."""
  text = re.sub(r'```.*?```', '', page.read_text(), flags=re.DOTALL)
  found = re.findall(r'\]\(([^)\s]+)\)', re.sub(r'`[^`\n]*`', '', text))
  return [link for link in found if '://' not in link]


def _anchors(page):
  """Returns the anchors of a page's headings, as GitHub makes them."""
  headings = re.findall(r'^#+ (.*)$', page.read_text(), re.MULTILINE)
  return [
    re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')
    for heading in headings
  ]


@pytest.mark.parametrize('page', _PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
  for link in _links(page):
    path, _, anchor = link.partition('#')
    target = (page.parent / path).resolve() if path else page
    assert target.exists(), link
    assert not anchor or anchor in _anchors(target), link


def test_links_of_the_module_pages_lead_somewhere():
  for page in _MODULE_PAGES:
    for link in _links(page):
      assert (page.parent / link).exists(), (page.name, link)


def test_the_index_names_every_page():
  linked = {(_DOCS / link).resolve() for link in _links(_DOCS / 'README.md')}
  pages = {*_DOCS.glob('*.md'), _DOCS / 'modules' / 'README.md'}
  assert pages - {_DOCS / 'README.md'} <= linked


@functools.cache
def _names(path):
  """Returns what a module or class defines: a tree of dicts."""

  def names_of(body):
    found = {}
    for node in body:
      if isinstance(node, ast.ClassDef):
        found[node.name] = names_of(node.body)
      elif isinstance(node, ast.FunctionDef):
        found[node.name] = {}
      elif isinstance(node, ast.AnnAssign):
        found[ast.unparse(node.target)] = {}
      elif isinstance(node, ast.Assign):
        found.update(dict.fromkeys(map(ast.unparse, node.targets), {}))
      elif isinstance(node, ast.ImportFrom) and path.stem == '__init__':
        found.update(dict.fromkeys((alias.name for alias in node.names), {}))
    return found

  return names_of(ast.parse(path.read_text()).body)


def _exists(name):
  """Returns whether a dotted name is that of something in the project."""
  for folder in (_ROOT / 'f3ast_tff', _ROOT):
    parts = name.split('.')
    while parts and (folder / parts[0]).is_dir():
      folder /= parts.pop(0)
    module = folder / '__init__.py'
    if parts and (folder / f'{parts[0]}.py').exists():
      module = folder / f'{parts.pop(0)}.py'
    elif not parts:  # A package.
      return True
    if module.exists():
      names = _names(module)
      while parts and parts[0] in names:
        names = names[parts.pop(0)]
      if not parts:
        return True
  return False


# Names of the project in code: two parts or more, and a module in front.
_TOPS = [path.stem for path in (_ROOT / 'f3ast_tff').iterdir()]
_NAME = re.compile(
  rf'`(?:f3ast_tff\.)?((?:experiments|benchmarks|{"|".join(_TOPS)})'
  r'(?:\.[A-Za-z_]\w*)+)(?:\([^`]*\))?`'
)


@pytest.mark.parametrize('page', _PAGES, ids=lambda page: page.name)
def test_names_of_the_code_exist(page):
  files = {'csv', 'png', 'svg', 'py', 'md', 'json', 'npz'}
  for name in _NAME.findall(page.read_text()):
    if name.rpartition('.')[2] not in files:
      assert _exists(name), name


def test_a_name_that_does_not_exist_is_found():
  assert _NAME.findall('`rates.gradient`, `x.y`, `f3ast_tff.theory.region`') == [
    'rates.gradient'
  ]
  assert _exists('rates.gradient')
  assert _exists('config.Config.beta')
  assert _exists('experiments.region')
  assert _exists('execution.in_process')
  assert not _exists('rates.ascent')
  assert not _exists('config.Config.gamma')
  assert not _exists('experiments.regions')
  assert not _exists('execution.out_of_process')


def test_the_paper_page_names_a_great_deal():
  text = (_DOCS / 'paper-to-code.md').read_text()
  assert len(set(_NAME.findall(text))) > 70


def test_programs_in_the_pages_exist():
  for page in _PAGES:
    for module in re.findall(r'python -m ([\w.]+)', page.read_text()):
      assert _exists(module), (page.name, module)


def test_layers_know_nothing_below_them():
  text = (_DOCS / 'design.md').read_text().split('## Layers')[1]
  rows = re.findall(r'^\| [^|]+ \| (`.*?) \|', text, re.MULTILINE)
  layer = {
    name: place
    for place, row in enumerate(rows)
    for name in re.findall(r'`(\w+)`', row)
  }
  assert layer['rates'] < layer['process'] < layer['training']
  for path in (_ROOT / 'f3ast_tff').rglob('*.py'):
    own = path.relative_to(_ROOT / 'f3ast_tff').parts[0].removesuffix('.py')
    for node in ast.walk(ast.parse(path.read_text())):
      if not (isinstance(node, ast.ImportFrom) and node.module):
        continue
      package, *rest = [*node.module.split('.'), node.names[0].name]
      if package == 'f3ast_tff' and {own, rest[0]} <= layer.keys():
        assert layer[rest[0]] <= layer[own], f'{path.name} knows {rest[0]}'


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
