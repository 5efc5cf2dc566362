"""Checks what the pages point at: files, names, programs and their flags."""

import ast
import functools
import pathlib
import re
import subprocess
import sys

import pytest

_ROOT = pathlib.Path(__file__).parents[2]
_DOCS = _ROOT / 'docs'
_PAGES = sorted([_ROOT / 'README.md', *_DOCS.glob('*.md')])


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


@pytest.mark.parametrize('page', _PAGES, ids=lambda page: page.name)
def test_the_site_knows_the_languages_of_blocks(page):
  # Another one is a warning of Sphinx, with which `make docs` fails.
  found = re.findall(r'^```(\w+)$', page.read_text(), re.MULTILINE)
  assert {*found} <= {'json', 'python', 'text'}


def test_the_index_names_every_page():
  linked = {(_DOCS / link).resolve() for link in _links(_DOCS / 'README.md')}
  assert {*_DOCS.glob('*.md')} - {_DOCS / 'README.md'} <= linked


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
  assert _NAME.findall('`rates.gradient`, `x.y`, `f3ast_tff.rates`') == [
    'rates.gradient'
  ]
  assert _exists('rates.gradient')
  assert _exists('runs.config.Config.beta')
  assert _exists('experiments.region')
  assert _exists('execution.context.in_process')
  assert not _exists('rates.ascent')
  assert not _exists('runs.config.Config.gamma')
  assert not _exists('experiments.regions')
  assert not _exists('execution.context.out_of_process')


def test_the_paper_page_names_a_great_deal():
  text = (_DOCS / 'paper-to-code.md').read_text()
  assert len(set(_NAME.findall(text))) > 70


def _commands():
  """Yields the programs that pages name, and the flags after them."""
  for page in [*_PAGES, _ROOT / 'CONTRIBUTING.md']:
    text = page.read_text().replace('\\\n', ' ')
    for module, rest in re.findall(r'python -m ([\w.]+)([^`\n]*)', text):
      yield page.name, module, re.findall(r'--([a-z_]+)', rest)


def test_programs_in_the_pages_exist_and_have_the_flags():
  commands = list(_commands())
  assert len(commands) > 20
  for page, module, _ in commands:
    assert _exists(module), (page, module)
  wanted = {}
  for page, module, flags in commands:
    if module.startswith(('experiments.', 'benchmarks.')) and flags:
      wanted.setdefault(module, {}).update(dict.fromkeys(flags, page))
  for module, flags in wanted.items():
    # A benchmark has the flags of its task.
    task = ['--task=cifar100'] if module == 'experiments.benchmark' else []
    helped = subprocess.run(
      [sys.executable, '-m', module, *task, '--helpfull'],
      cwd=_ROOT,
      capture_output=True,
      text=True,
      timeout=120,
    )
    known = set(re.findall(r'--(?:\[no\])?([a-z_]+)', helped.stdout))
    for flag, page in flags.items():
      assert flag in known, (page, module, flag)


def test_targets_of_make_in_the_pages_exist():
  makefile = (_ROOT / 'Makefile').read_text()
  targets = set(re.findall(r'^([a-z-]+):', makefile, re.MULTILINE))
  for page in [*_PAGES, _ROOT / 'CONTRIBUTING.md']:
    for target in re.findall(r'`make ([a-z-]+)', page.read_text()):
      assert target in targets, (page.name, target)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
