"""Tests of tools/build_files.py: on this checkout, and on broken small ones."""

import importlib.util
import pathlib
import sys

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[1]


def _load():
  path = _ROOT / 'tools' / 'build_files.py'
  spec = importlib.util.spec_from_file_location('build_files', path)
  module = importlib.util.module_from_spec(spec)
  sys.modules[spec.name] = module  # Where dataclasses look for it.
  spec.loader.exec_module(module)
  return module


build_files = _load()

_FILES = {
  '.bazelignore': '.venv\nthird_party\n',
  'BUILD': 'exports_files(["setup.py"])\n',
  'setup.py': (
    'setup(install_requires=["numpy>=1"], extras_require={"a": ["absl-py"]})\n'
  ),
  'third_party/x.py': '',
  '.venv/x.py': '',
  'f3ast_tff/__init__.py': '',
  'f3ast_tff/light.py': (
    'import os\nimport typing\nimport numpy as np\n'
    'if typing.TYPE_CHECKING:\n  from f3ast_tff import heavy\n'
  ),
  'f3ast_tff/heavy.py': 'from absl import app\nfrom f3ast_tff import light\n',
  'f3ast_tff/BUILD': (
    'load("@rules_python//python:defs.bzl", "py_library")\n'
    'py_library(name = "core", srcs = ["__init__.py", "light.py"])\n'
    'py_library(\n'
    '    name = "f3ast_tff", srcs = ["heavy.py"], deps = [":core"]\n'
    ')\n'
  ),
  'programs/__init__.py': '',
  'programs/go.py': 'def f():\n  import f3ast_tff.heavy\n',
  'programs/BUILD': (
    'py_library(\n'
    '    name = "programs",\n'
    '    srcs = glob(["*.py"]),\n'
    '    deps = ["//f3ast_tff"],\n'
    ')\n'
    '[\n'
    '    py_binary(name = n, srcs = [n + ".py"], deps = [":programs"])\n'
    '    for n in ["go"]\n'
    ']\n'
  ),
  'tests/__init__.py': '',
  'tests/conftest.py': '',
  'tests/go_test.py': "RUN = ['python', '-m', 'programs.go']\n",
  'tests/any_test.py': "NAMES = [f'programs.{n}' for n in ('go',)]\n",
  'tests/BUILD': (
    'py_library(name = "conftest", srcs = ["__init__.py", "conftest.py"])\n'
    'TESTS = {"go_test": ["//programs"], "any_test": ["//programs"]}\n'
    '[\n'
    '    py_test(\n'
    '        name = name,\n'
    '        srcs = [name + ".py"],\n'
    '        deps = [":conftest"] + deps,\n'
    '    )\n'
    '    for name, deps in TESTS.items()\n'
    ']\n'
  ),
}


def _write(root, changes=()):
  for name, text in {**_FILES, **dict(changes)}.items():
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
  return root


def _replaced(name, old, new):
  assert old in _FILES[name]
  return {name: _FILES[name].replace(old, new)}


def test_the_build_files_of_this_checkout_are_complete():
  assert build_files.problems() == []


def test_a_complete_small_checkout(tmp_path):
  root = _write(tmp_path)
  assert build_files.problems(root) == []
  targets, exported = build_files.read(root)
  assert exported == {'setup.py'}
  assert targets['//programs:go'].sources == {'programs/go.py'}
  assert targets['//tests:go_test'].deps == (
    '//tests:conftest', '//programs:programs'
  )


@pytest.mark.parametrize(
  'changes, problem',
  [
    (
      {'f3ast_tff/new.py': ''},
      'f3ast_tff/BUILD does not name f3ast_tff/new.py.',
    ),
    ({'new/new.py': ''}, 'new/BUILD does not name new/new.py.'),
    (
      _replaced('f3ast_tff/BUILD', '"heavy.py"', '"heavy.py", "gone.py"'),
      'f3ast_tff/BUILD names f3ast_tff/gone.py, which does not exist.',
    ),
    (
      _replaced('f3ast_tff/BUILD', ', deps = [":core"]', ''),
      '//f3ast_tff:f3ast_tff lacks //f3ast_tff:core in deps: '
      'f3ast_tff/heavy.py uses f3ast_tff.light.',
    ),
    (
      # In a function, and of a package's module by `import a.b`.
      _replaced('programs/BUILD', '"//f3ast_tff"', ''),
      '//programs:programs lacks //f3ast_tff:f3ast_tff in deps: '
      'programs/go.py uses f3ast_tff.heavy.',
    ),
    (
      # What stands behind a dependency is not declared by it.
      {'programs/go.py': _FILES['programs/go.py'] + 'import f3ast_tff.light\n'},
      '//programs:programs lacks //f3ast_tff:core in deps: '
      'programs/go.py uses f3ast_tff.light.',
    ),
    (
      _replaced('tests/BUILD', '"go_test": ["//programs"]', '"go_test": []'),
      '//tests:go_test lacks //programs:programs in deps: tests/go_test.py '
      'uses programs.go.',
    ),
    (
      _replaced('tests/BUILD', '"any_test": ["//programs"]', '"any_test": []'),
      '//tests:any_test lacks //programs:programs in deps: tests/any_test.py '
      'uses programs.',
    ),
    (
      {'programs/go.py': ''},
      '//programs:programs has //f3ast_tff:f3ast_tff in deps, but uses none of '
      'its modules.',
    ),
    (
      _replaced('f3ast_tff/BUILD', '":core"', '":core", "//nowhere"'),
      '//f3ast_tff:f3ast_tff has //nowhere:nowhere in deps, which does not '
      'exist.',
    ),
    (
      {'f3ast_tff/light.py': 'from absl import app\n'},
      'f3ast_tff/light.py imports absl, which install_requires in setup.py '
      'does not name; //f3ast_tff:core may use nothing else.',
    ),
    (
      {'f3ast_tff/heavy.py': 'import grpc\nfrom f3ast_tff import light\n'},
      'f3ast_tff/heavy.py imports grpc, which setup.py does not name.',
    ),
  ],
)
def test_each_fault_is_found_and_nothing_else(changes, problem, tmp_path):
  assert build_files.problems(_write(tmp_path, changes)) == [problem]


def test_the_fast_suite_names_tests_that_exist():
  targets, _ = build_files.read()
  suite = targets['//:fast'].tests
  assert len(suite) > 10
  assert all(targets[label].rule == 'py_test' for label in suite)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
