#!/usr/bin/env python3
"""Builds the wheel, installs it into an empty environment, tests it there.

`make wheel-test` calls this. The wheel is built from a copy of the sources, so
that nothing left over in the checkout gets into it. The environment is made
from requirements.txt, as `make setup` does (minutes, 2.5 GB, removed at the
end), and the tests of //:fast that need f3ast_tff only run from a folder that
holds nothing but tests: what they import is what was installed.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile

import build_files

ROOT = build_files.ROOT

# What `pip wheel` reads.
_SOURCES = ('LICENSE', 'README.md', 'f3ast_tff', 'pyproject.toml', 'setup.py')

# Run by the new environment's Python; prints where the package is.
_IMPORT = """
import sys, f3ast_tff
assert 'tensorflow' not in sys.modules and 'numpy' not in sys.modules
print(f3ast_tff.__version__, f3ast_tff.__file__)
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


def fast_tests() -> list[str]:
  """Returns the tests of //:fast that need nothing but the package."""
  targets, _ = build_files.read()
  return sorted(
    f'{label[2:].replace(":", "/")}.py'
    for label in targets['//:fast'].tests
    if all(
      dep.startswith(('//f3ast_tff', '//tests:')) for dep in targets[label].deps
    )
  )


def main() -> int:
  """Returns the exit code."""
  with tempfile.TemporaryDirectory(prefix='wheel_test_') as name:
    folder = pathlib.Path(name)
    wheel = build(folder)
    check_content(wheel)
    _run([sys.executable, '-m', 'venv', str(folder / 'env')], folder)
    python = str(folder / 'env' / 'bin' / 'python')
    install = [python, '-m', 'pip', '--disable-pip-version-check', 'install']
    install += ['-q', '--no-deps', '--no-input']
    _run([*install, '-r', str(ROOT / 'requirements.txt')], folder)
    _run([*install, str(wheel)], folder)
    place = folder / 'elsewhere'
    shutil.copytree(
      ROOT / 'tests',
      place / 'tests',
      ignore=shutil.ignore_patterns('__pycache__'),
    )
    where = _run([python, '-c', _IMPORT], place)
    print(where.strip())
    if str(folder / 'env' / 'lib') not in where:
      sys.exit('wheel-test: the package is not imported from the environment.')
    pytest = [python, '-m', 'pytest', '-q', '-p', 'no:cacheprovider']
    print(_run([*pytest, *fast_tests()], place).strip())
    print(f'{wheel.name} works.')
  return 0


if __name__ == '__main__':
  sys.exit(main())
