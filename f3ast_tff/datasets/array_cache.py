"""Decoded data on disk, so that a second start is quick."""

from collections.abc import Callable, Mapping, Sequence
import hashlib
import logging
import os
import pathlib
import tempfile
from typing import Optional, Union

import numpy as np

_FORMAT = 1

Arrays = Mapping[str, np.ndarray]


def _default_folder() -> pathlib.Path:
  base = os.environ.get('XDG_CACHE_HOME') or '~/.cache'
  return pathlib.Path(base).expanduser() / 'f3ast_tff'


def load(
  folder: Optional[Union[str, os.PathLike]],
  name: str,
  files: Sequence[pathlib.Path],
  read: Callable[[], Arrays],
) -> Arrays:
  """Returns what `read` returns, from disk if that was done before.

  There is one cache per place that the files are in. It is made anew if they
  change, or if it is damaged.

  Args:
    folder: The folder of the cache; None means f3ast_tff in the user's cache
      folder.
    name: The first part of the cache's name.
    files: What `read` reads.
    read: Decodes the data.

  Returns:
    The arrays by name.
  """
  if folder is None:
    directory = _default_folder()
  else:
    directory = pathlib.Path(folder).expanduser()
  where = '\n'.join(str(file.resolve()) for file in files)
  place = hashlib.sha256(where.encode()).hexdigest()[:12]
  path = directory / f'{name}-{place}.npz'
  stats = [file.stat() for file in files]
  stamp = np.array(
    [_FORMAT, *(n for s in stats for n in (s.st_size, s.st_mtime_ns))]
  )
  try:
    with np.load(path, allow_pickle=False) as cache:
      if np.array_equal(cache['stamp'], stamp):
        return {name: cache[name] for name in cache.files if name != 'stamp'}
  except Exception:  # Whatever is wrong with a cache, it is made anew.
    pass
  arrays = read()
  try:
    _save(path, {**arrays, 'stamp': stamp})
  except OSError as error:
    logging.getLogger(__name__).warning(
      'The decoded data cannot be kept in %s (%s), so that every start decodes '
      'them again; name another folder with the variable XDG_CACHE_HOME.',
      directory,
      error.strerror,
    )
  return arrays


def _save(path: pathlib.Path, arrays: Arrays) -> None:
  """Writes arrays to a file that appears only when it is complete."""
  path.parent.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
    incomplete = pathlib.Path(scratch) / path.name
    np.savez(incomplete, **arrays)
    os.replace(incomplete, path)
