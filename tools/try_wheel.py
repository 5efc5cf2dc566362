#!/usr/bin/env python3
"""Builds the wheel, installs it into empty environments, tests it there.

`make wheel-test` calls this. The wheel is built from a copy of the sources, so
that nothing left over in the checkout gets into it. The first environment has
what the wheel asks for, NumPy and SciPy, and may be of any Python; there the
tests that need no more run. The second is made from requirements.txt, as `make
setup` does (minutes, 2.5 GB); there clients train. All is removed at the end.
Tests run from a folder that holds nothing else: what they import is what was
installed.
"""

import argparse
from collections.abc import Sequence
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]

# What `pip wheel` reads.
_SOURCES = ('LICENSE', 'README.md', 'f3ast_tff', 'pyproject.toml', 'setup.py')

NUMPY_TESTS = (
  *(
    f'tests/{name}_test.py'
    for name in (
      'communication',
      'delivery',
      'groups',
      'markov',
      # The other two of tests/methods train with TensorFlow.
      'methods/f3ast',
      'methods/fedavg',
      'methods/fixed_policy',
      'methods/methods',
      'methods/power_of_choice',
      'methods/released',
      'methods/uniform',
      'randomness',
      'rates',
      'selection',
      'selector',
      'targets',
    )
  ),
  'tests/availability',
  'tests/theory',
  'tests/traces',
)
TRAINING_TESTS = (
  'tests/datasets/synthetic_test.py',
  'tests/execution/executor_test.py',
  'tests/learning/process_test.py',
)

# Run by the new environment's Python; prints what it is and where.
_IMPORT = """
import sys, f3ast_tff
assert 'numpy' not in sys.modules
f3ast_tff.build_selector([0.5, 0.5], 'scarce', 1)
import numpy, scipy
print('Python', sys.version.split()[0], 'NumPy', numpy.__version__, 'SciPy',
      scipy.__version__, f3ast_tff.__version__, f3ast_tff.__file__)
"""


def _run(command: list[str], cwd: pathlib.Path) -> str:
  """Runs a command, shows what it printed if it fails, and returns that."""
  print('$', shlex.join(command), flush=True)
  done = subprocess.run(
    command,
    cwd=cwd,
    env={k: v for k, v in os.environ.items() if k != 'PYTHONPATH'},
    stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
  )
  if done.returncode != 0:
    sys.exit(f'{done.stdout}\nwheel-test: the last command failed.')
  return done.stdout


def build(folder: pathlib.Path) -> pathlib.Path:
  """Builds the wheel from a copy of the sources in a folder."""
  source = folder / 'source'
  source.mkdir()
  for name in _SOURCES:
    if (ROOT / name).is_dir():
      shutil.copytree(
        ROOT / name,
        source / name,
        ignore=shutil.ignore_patterns('__pycache__'),
      )
    else:
      shutil.copy(ROOT / name, source / name)
  pip = [sys.executable, '-m', 'pip', '--disable-pip-version-check']
  options = ['--no-deps', '--no-build-isolation', '-w', str(folder)]
  _run([*pip, 'wheel', *options, '.'], source)
  (wheel,) = folder.glob('*.whl')
  return wheel


def check_content(wheel: pathlib.Path) -> None:
  """Ends the program unless the wheel holds the package and nothing else."""
  wanted = {
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / 'f3ast_tff').rglob('*')
    if path.suffix == '.py' or path.name == 'py.typed'
  }
  found = {
    name
    for name in zipfile.ZipFile(wheel).namelist()
    if '.dist-info/' not in name
  }
  if wanted != found:
    sys.exit(
      f'wheel-test: {wheel.name} lacks {sorted(wanted - found)} and should not '
      f'have {sorted(found - wanted)}.'
    )


def try_installed(
  folder: pathlib.Path,
  python: str,
  installed: Sequence[Sequence[str]],
  tools: Sequence[str],
  tests: Sequence[str],
) -> None:
  """Makes an environment, imports the package there and runs tests.

  Args:
    folder: Where to make it.
    python: The Python that it is of.
    installed: The arguments of pip, for each time that it is called.
    tools: What the tests need besides.
    tests: The tests.
  """
  folder.mkdir()
  _run([python, '-m', 'venv', 'env'], folder)
  inside = str(folder / 'env' / 'bin' / 'python')
  install = [inside, '-m', 'pip', '--disable-pip-version-check', 'install']
  install += ['-q', '--no-input']
  for arguments in installed:
    _run([*install, *arguments], folder)
  where = _run([inside, '-c', _IMPORT], folder)
  print(where.strip())
  if str(folder / 'env' / 'lib') not in where:
    sys.exit('wheel-test: the package is not imported from the environment.')
  if tools:
    _run([*install, *tools], folder)
  ignored = shutil.ignore_patterns('__pycache__')
  shutil.copytree(ROOT / 'tests', folder / 'tests', ignore=ignored)
  pytest = [inside, '-m', 'pytest', '-q', '-p', 'no:cacheprovider']
  print(_run([*pytest, *tests], folder).strip())


def main() -> int:
  """Returns the exit code."""
  parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
  parser.add_argument(
    '--python', default=sys.executable, help='of the NumPy environment'
  )
  parser.add_argument(
    '--numpy_only', action='store_true', help='leave out the second one'
  )
  arguments = parser.parse_args()
  with tempfile.TemporaryDirectory(prefix='wheel_test_') as name:
    folder = pathlib.Path(name)
    wheel = build(folder)
    check_content(wheel)
    try_installed(
      folder / 'numpy',
      arguments.python,
      [[str(wheel)]],
      ['hypothesis', 'pytest'],
      NUMPY_TESTS,
    )
    if not arguments.numpy_only:
      no_deps = ['--no-deps']
      try_installed(
        folder / 'training',
        sys.executable,
        [
          [*no_deps, '-r', str(ROOT / 'requirements.txt')],
          [*no_deps, str(wheel)],
        ],
        [],
        TRAINING_TESTS,
      )
    print(f'{wheel.name} works.')
  return 0


if __name__ == '__main__':
  sys.exit(main())
