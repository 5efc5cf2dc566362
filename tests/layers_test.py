"""Tests that each layer imports from lower ones only, and what it may need.

All is found from the files: a new folder fails until it has its place here.
"""

import ast
import functools
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

import pytest

_ROOT = pathlib.Path(__file__).parents[1]

_OURS = ('f3ast_tff', 'experiments', 'benchmarks', 'examples')
_PUBLIC = 'the public names'
_PROGRAMS = 'the programs of experiments'

# From low to high, and the third-party packages that each may import.
_NUMPY = {'numpy'}
_TFF = _NUMPY | {'tensorflow', 'tensorflow_federated'}
_TRAINING = _TFF | {'absl', 'psutil'}
_TABLES = _TRAINING | {'matplotlib', 'pandas', 'tqdm'}
_LAYERS = {
  'f3ast_tff': _NUMPY,
  'f3ast_tff/traces': _NUMPY,
  'f3ast_tff/availability': _NUMPY,
  'f3ast_tff/theory': _NUMPY | {'scipy'},
  'f3ast_tff/methods': _NUMPY,
  'f3ast_tff/datasets': _TFF | {'tensorflow_datasets'},
  'f3ast_tff/models': _TFF,
  'f3ast_tff/learning': _TRAINING | {'tqdm'},
  'f3ast_tff/execution': _TFF,
  'f3ast_tff/execution/cluster': _TRAINING | {'ray'},
  'f3ast_tff/runs': _TABLES | {'mlflow', 'wandb'},
  _PUBLIC: set(),
  'experiments': _TABLES,
  'experiments/grid': _TABLES | {'ray', 'scipy'},
  'experiments/benchmark': _TABLES | {'jinja2'},
  'experiments/paper': _TABLES | {'jinja2', 'scipy'},
  _PROGRAMS: _TABLES,
  'benchmarks': _TABLES | {'fedjax', 'jax', 'ray'},
  'examples': _TABLES,
}
_ORDER = list(_LAYERS)

# They import the library's own modules and nothing else of ours.
_LEAVES = ('f3ast_tff/datasets', 'f3ast_tff/models')

# By layer, what may be imported inside of functions only: Ray and trackers are
# not in every environment, and data can be generated without TensorFlow.
_LATE = {
  'f3ast_tff/datasets': {
    'tensorflow', 'tensorflow_datasets', 'tensorflow_federated'
  },
  'f3ast_tff/execution/cluster': {'ray'},
  'f3ast_tff/runs': {'mlflow', 'wandb'},
  'experiments/grid': {'ray'},
}

# Above that, only tables and pictures need pandas and Matplotlib.
_DRAW = ('f3ast_tff/runs/run_tables.py', 'f3ast_tff/runs/summary.py')


_FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda


class _Import(NamedTuple):
  """An import of a module.

  Attributes:
    path: The file that has it, from the root.
    layer: The layer of that file.
    line: The line.
    module: What is imported.
    target: The layer that it is of; None if it is not ours.
    is_late: Whether it is inside of a function.
  """

  path: str
  layer: str
  line: int
  module: str
  target: str
  is_late: bool

  def __str__(self):
    return f'{self.path}:{self.line} imports {self.module}'


def _files(root):
  return sorted(path for top in _OURS for path in (root / top).rglob('*.py'))


@functools.cache
def _tree(path):
  return ast.parse(path.read_text())


@functools.cache
def _layer_of(root, path):
  """Returns the layer of a file."""
  folder = path.relative_to(root).parent.as_posix()
  if folder == 'f3ast_tff' and path.name == '__init__.py':
    return _PUBLIC
  if folder == 'experiments' and "__name__ == '__main__'" in path.read_text():
    return _PROGRAMS
  return folder


@functools.cache
def _resolve(root, module):
  """Returns the file of a module of ours; None if there is no such module."""
  place = root.joinpath(*module.split('.'))
  for path in (place.with_suffix('.py'), place / '__init__.py'):
    if path.exists():
      return path
  return None


def _modules(node, root):
  """Returns the modules that a statement imports."""
  if isinstance(node, ast.Import):
    return [name.name for name in node.names]
  assert not node.level, f'line {node.lineno} imports relatively'
  # `from a import b` is the module a.b, or a name of the module a.
  full = [f'{node.module}.{name.name}' for name in node.names]
  return [each if _resolve(root, each) else node.module for each in full]


def _imports(root):
  """Yields all imports of our files, but those of the public names."""
  for path in _files(root):
    layer = _layer_of(root, path)
    if layer == _PUBLIC:
      continue
    tree = _tree(path)
    late = {
      inner
      for outer in ast.walk(tree)
      if isinstance(outer, _FUNCTIONS)
      for inner in ast.walk(outer)
    }
    for node in ast.walk(tree):
      if not isinstance(node, (ast.Import, ast.ImportFrom)):
        continue
      for module in _modules(node, root):
        file = _resolve(root, module)
        yield _Import(
          path.relative_to(root).as_posix(),
          layer,
          node.lineno,
          module,
          _layer_of(root, file) if file else None,
          node in late,
        )


def upward(root):
  """Returns the imports from a higher layer, or from where it is not meant."""
  found = []
  for each in _imports(root):
    top = each.module.partition('.')[0]
    if top == 'tests' or (top in _OURS and each.target is None):
      found.append(str(each))
    elif each.target is not None and each.target != each.layer:
      is_lower = _ORDER.index(each.target) < _ORDER.index(each.layer)
      if each.layer in _LEAVES:
        is_lower = each.target == 'f3ast_tff'
      if not is_lower:
        found.append(str(each))
  return found


def foreign(root):
  """Returns the imports of third-party packages that a layer may not have."""
  found = []
  for each in _imports(root):
    package = each.module.partition('.')[0]
    if package in sys.stdlib_module_names or package in _OURS:
      continue
    is_early = not each.is_late and package in _LATE.get(each.layer, ())
    draws = package in ('pandas', 'matplotlib')
    is_misplaced = (
      draws and each.layer == 'f3ast_tff/runs' and each.path not in _DRAW
    )
    if package not in _LAYERS[each.layer] or is_early or is_misplaced:
      found.append(str(each))
  return found


def _calls(path, function):
  """Returns the keyword arguments of calls of a function in a BUILD file."""
  return [
    {keyword.arg: keyword.value for keyword in node.keywords}
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.Call)
    and isinstance(node.func, ast.Name)
    and node.func.id == function
  ]


def _label(layer):
  """Returns the Bazel label of a layer."""
  special = {'experiments': '//experiments:cli', _PROGRAMS: '//experiments'}
  return special.get(layer, f'//{layer}')


def deps(root, layer):
  """Returns the labels that a layer's py_library names, and should name."""
  package, _, name = _label(layer)[2:].partition(':')
  libraries = {
    ast.literal_eval(call['name']): ast.literal_eval(
      call.get('deps', ast.List([]))
    )
    for call in _calls(root / package / 'BUILD', 'py_library')
  }
  named = libraries[name or package.rpartition('/')[2]]
  full = {f'//{package}{d}' if d.startswith(':') else d for d in named}
  needed = {
    # The public names are of the library's own modules.
    _label(_ORDER[0] if each.target == _PUBLIC else each.target)
    for each in _imports(root)
    if each.layer == layer and each.target not in (None, layer)
  }
  return full, needed


def _folders(root):
  return {path.parent.relative_to(root).as_posix() for path in _files(root)}


def test_every_folder_has_its_place_and_its_build_file():
  assert _folders(_ROOT) <= set(_ORDER)
  for folder in _folders(_ROOT):
    assert (_ROOT / folder / 'BUILD').exists(), folder


def test_nothing_imports_from_a_higher_layer():
  assert upward(_ROOT) == []


def test_each_layer_has_its_third_party_packages_only():
  assert foreign(_ROOT) == []


@pytest.mark.parametrize(
  'layer', [name for name in _ORDER if name not in (_PUBLIC, 'examples')]
)
def test_build_files_name_what_is_imported(layer):
  named, needed = deps(_ROOT, layer)
  assert named == needed


@pytest.fixture
def tree(tmp_path):
  """A library of two layers in order, and a function that changes a file."""

  def write(path, text):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return tmp_path

  write('f3ast_tff/__init__.py', 'from f3ast_tff import methods\n')
  write('f3ast_tff/rates.py', 'import math\nimport numpy as np\n')
  write('f3ast_tff/methods/__init__.py', 'from f3ast_tff import rates\n')
  write('f3ast_tff/methods/BUILD', 'py_library(name="methods", deps=["//x"])')
  return write


_IN_FUNCTION = 'def f():\n  from f3ast_tff.methods import g\n'


@pytest.mark.parametrize(
  'path, text, check, message',
  [
    ('f3ast_tff/a.py', 'from f3ast_tff import methods', upward, 'methods'),
    ('f3ast_tff/a.py', _IN_FUNCTION, upward, 'a.py:2 imports'),
    ('f3ast_tff/a.py', 'import f3ast_tff.methods', upward, 'methods'),
    ('f3ast_tff/a.py', 'from f3ast_tff import Selector', upward, 'f3ast_tff'),
    ('f3ast_tff/a.py', 'import f3ast_tff.gone', upward, 'gone'),
    ('f3ast_tff/a.py', 'from tests import faults', upward, 'tests'),
    ('f3ast_tff/models/a.py', _IN_FUNCTION, upward, 'methods'),
    ('f3ast_tff/a.py', 'import scipy', foreign, 'scipy'),
    ('f3ast_tff/methods/a.py', 'import tensorflow as tf', foreign, 'tensorf'),
    ('f3ast_tff/execution/cluster/a.py', 'import ray', foreign, 'ray'),
    ('f3ast_tff/runs/loop.py', 'import pandas', foreign, 'pandas'),
  ],
)
def test_what_is_out_of_order_is_found(tree, path, text, check, message):
  root = tree('f3ast_tff/theory/b.py', 'from f3ast_tff import rates\n')
  assert upward(root) == foreign(root) == []
  (found,) = check(tree(path, text))
  assert found.startswith(path) and message in found


def test_a_new_folder_and_wrong_deps_are_found(tree):
  root = tree('f3ast_tff/new/a.py', '')
  assert _folders(root) - set(_ORDER) == {'f3ast_tff/new'}
  assert deps(root, 'f3ast_tff/methods') == ({'//x'}, {'//f3ast_tff'})


# The distributions of packages that are called otherwise.
_DISTRIBUTIONS = {
  'absl': 'absl-py',
  'tensorflow_datasets': 'tensorflow-datasets',
  'tensorflow_federated': 'tensorflow-federated',
}


def test_setup_names_every_package_that_the_library_imports():
  (call,) = (
    {keyword.arg: keyword.value for keyword in node.keywords}
    for node in ast.walk(ast.parse((_ROOT / 'setup.py').read_text()))
    if isinstance(node, ast.Call)
    and getattr(node.func, 'attr', '') == 'setup'
  )

  def names(lines):
    return {re.match(r'[\w-]+', line)[0] for line in lines}

  always = names(ast.literal_eval(call['install_requires']))
  extras = ast.literal_eval(call['extras_require'])
  optional = set().union(*map(names, extras.values()))
  assert always == {'numpy', 'scipy'}
  for each in _imports(_ROOT):
    package = each.module.partition('.')[0]
    is_ours = package in _OURS or package in sys.stdlib_module_names
    if is_ours or each.layer in ('benchmarks', 'examples'):
      continue
    distribution = _DISTRIBUTIONS.get(package, package)
    is_core = _ORDER.index(each.layer) <= _ORDER.index('f3ast_tff/methods')
    assert distribution in (always if is_core else always | optional), each


def test_the_numpy_names_load_nothing_else():
  program = """
import sys, f3ast_tff
assert 'numpy' not in sys.modules
names = 'availability traces communication rates selection methods Selector'
for name in [*names.split(), 'build_selector']:
  getattr(f3ast_tff, name)
selector = f3ast_tff.build_selector([0.5, 0.5], 'scarce', 1)
list(selector.simulate(3))
loaded = {'tensorflow', 'pandas', 'matplotlib'} & set(sys.modules)
assert not loaded, loaded
"""
  subprocess.run([sys.executable, '-c', program], check=True, timeout=60)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
