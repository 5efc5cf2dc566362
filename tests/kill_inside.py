"""Kills this very process inside of one of its writes, for tests.

The calls with which the package writes files are replaced: `open(...).write`,
`os.fsync`, `os.replace`, `os.truncate` and `os.unlink`. Each call counts, and
the fatal one is done by half, or not at all, or wholly, and then the process
kills itself as a SIGKILL from outside would.
"""

import builtins
import os
import pathlib
import random
import signal
from typing import Optional


class Writes:
  """Counts writes below a folder, and dies in one of them.

  Attributes:
    count: How many there were.
  """

  def __init__(
    self,
    folder: pathlib.Path,
    fatal: Optional[int],
    chance: random.Random,
    epitaph: pathlib.Path,
  ):
    """Replaces the calls.

    Args:
      folder: The folder; writes elsewhere do not count.
      fatal: The number of the write to die in, from 1; None to live.
      chance: Decides how much of that write is done.
      epitaph: The file for a word about the place of death.
    """
    self.count = 0
    self._folder = str(folder.absolute())
    self._fatal, self._chance, self._epitaph = fatal, chance, epitaph
    self._open = builtins.open
    builtins.open = self._opened
    for name in ('replace', 'truncate', 'unlink', 'fsync'):
      setattr(os, name, self._counted(name, getattr(os, name)))

  def _is_fatal(self) -> bool:
    self.count += 1
    return self.count == self._fatal

  def _die(self, where: str) -> None:
    with self._open(self._epitaph, 'w') as file:
      file.write(where)
    os.kill(os.getpid(), signal.SIGKILL)

  def _counted(self, name, call):
    def counted(target, *arguments, **more):
      if isinstance(target, int):
        path = os.path.realpath(f'/proc/self/fd/{target}')
      else:
        path = os.path.abspath(target)
      if not path.startswith(self._folder) or not self._is_fatal():
        return call(target, *arguments, **more)
      if self._chance.random() < 0.5:
        call(target, *arguments, **more)
      return self._die(f'{name} {os.path.basename(path)}')

    return counted

  def _opened(self, path, mode='r', *arguments, **more):
    file = self._open(path, mode, *arguments, **more)
    is_ours = not isinstance(path, int) and os.path.abspath(path).startswith(
      self._folder
    )
    return _File(file, self) if is_ours and mode[0] in 'wa' else file

  def write(self, file, content):
    """Writes, or dies while writing."""
    if not self._is_fatal():
      return file.write(content)
    file.write(content[: self._chance.randint(0, len(content))])
    file.flush()
    return self._die(f'write {os.path.basename(file.name)}')


class _File:
  """A file whose writes count."""

  def __init__(self, file, writes: Writes):
    self._file, self._writes = file, writes

  def write(self, content):
    return self._writes.write(self._file, content)

  def __getattr__(self, name):
    return getattr(self._file, name)

  def __enter__(self):
    return self

  def __exit__(self, *error):
    self._file.close()
