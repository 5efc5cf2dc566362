"""Says how to call the programs where one is called as a file.

`python experiments/synthetic.py` makes Python look for modules in the folder of
that file first, so that `experiments` is not the package but this file.
"""

import importlib
from importlib import machinery
import os
import shlex
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _say_how() -> None:
  program = os.path.splitext(os.path.basename(sys.argv[0]))[0]
  root, package = os.path.split(_FOLDER)
  command = shlex.join(['python', '-m', f'{package}.{program}', *sys.argv[1:]])
  print(
    f'error: programs are called as modules, from {root}: {command}',
    file=sys.stderr,
  )
  sys.exit(2)


def _use_the_package() -> None:
  # Bazel starts programs as files, and names the place of the package.
  sys.path[:] = [p for p in sys.path if os.path.abspath(p) != _FOLDER]
  if machinery.PathFinder.find_spec(__name__, sys.path) is None:
    _say_how()
  del sys.modules[__name__]
  importlib.import_module(__name__)


_use_the_package()
