"""Methods of the user's own: the file that --add names.

It is executed before flags are checked, and calls `methods.register`. What it
registers is then a value of --algorithm. A run records a digest of the file, so
that it is not continued with another method of the same name.
"""

from collections.abc import Sequence
import functools
import hashlib
import pathlib
import sys
import traceback
import types
from typing import NamedTuple

from absl import flags

from f3ast_tff import methods

FLAG = 'add'


class Added(NamedTuple):
  """What a file has added.

  Attributes:
    file: Its name, without folders.
    sha256: The digest of what is in it.
    names: The algorithms that it has registered.
  """

  file: str
  sha256: str
  names: tuple[str, ...]


def path_of(argv: Sequence[str]) -> str:
  """Returns the file that a command line names; empty if there is none."""
  known = flags.FlagValues()
  flags.DEFINE_string(FLAG, '', '', flag_values=known)
  known.set_gnu_getopt(True)
  known(list(argv), known_only=True)
  return known[FLAG].value


def load(path: pathlib.Path) -> Added:
  """Executes a file that registers methods; once, if it stays the same.

  Args:
    path: The file.

  Returns:
    What it has added.

  Raises:
    ValueError: If it cannot be executed, or registers nothing.
  """
  try:
    content = path.read_bytes()
  except OSError as error:
    raise ValueError(
      f'{FLAG} must name a Python file, but {path} cannot be read '
      f'({error.strerror}).'
    ) from error
  return _execute(path.resolve(), content)


def _line_of(error: BaseException, path: pathlib.Path) -> str:
  """Returns where in the file an error is, as far as that is known."""
  if isinstance(error, SyntaxError):
    return f' in line {error.lineno}' if error.lineno else ''
  lines = [
    line
    for frame, line in traceback.walk_tb(error.__traceback__)
    if frame.f_code.co_filename == str(path)
  ]
  return f' in line {lines[-1]}' if lines else ''


@functools.cache
def _execute(path: pathlib.Path, content: bytes) -> Added:
  before = set(methods.ALGORITHMS)
  name = f'f3ast_added_{path.stem}'
  module = types.ModuleType(name)
  module.__file__ = str(path)
  # Data classes and pickle look modules up by name.
  sys.modules[name] = module
  try:
    exec(compile(content, str(path), 'exec'), module.__dict__)
  except (Exception, SystemExit) as error:
    reason = ' '.join(str(getattr(error, 'msg', error)).split())
    raise ValueError(
      f'The file of {FLAG}, {path}, ends with an error{_line_of(error, path)} '
      f'({type(error).__name__}: {reason.rstrip(".")}).'
    ) from error
  names = tuple(each for each in methods.ALGORITHMS if each not in before)
  if not names:
    raise ValueError(
      f'The file of {FLAG}, {path}, registers no method; call '
      'methods.register(NAME, POLICY) in it.'
    )
  return Added(path.name, hashlib.sha256(content).hexdigest(), names)
