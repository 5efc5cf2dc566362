"""The state of a run as one file that is there whole or not at all.

A checkpoint is an .npz file of the leaves of a state: arrays, each with a
checksum, and nothing that could be executed. Their structure is given by a
state that was made anew. A file is written under another name and renamed, and
the one before it stays.
"""

import os
import pathlib
from typing import Any, Optional
import zipfile

from absl import logging
import numpy as np
import tensorflow as tf

from f3ast_tff import run_directory

_KEEP = 2
_PREFIX, _SUFFIX = 'round_', '.npz'


def _path(folder: pathlib.Path, round_num: int) -> pathlib.Path:
  return folder / f'{_PREFIX}{round_num}{_SUFFIX}'


def rounds(folder: pathlib.Path) -> list[int]:
  """Returns the rounds after which there is a checkpoint, ascending."""
  names = [path.name for path in folder.glob(f'{_PREFIX}*{_SUFFIX}')]
  numbers = [name[len(_PREFIX) : -len(_SUFFIX)] for name in names]
  return sorted(int(number) for number in numbers if number.isdecimal())


def save(folder: pathlib.Path, round_num: int, state: Any) -> None:
  """Saves the state after a round.

  Args:
    folder: Where checkpoints are.
    round_num: The round.
    state: Any structure of arrays.
  """
  folder.mkdir(exist_ok=True)
  leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(state)]
  temporary = folder / f'{_PREFIX}{round_num}.tmp'
  with open(temporary, 'wb') as file:
    np.savez(file, *leaves)
    file.flush()
    os.fsync(file.fileno())
  os.replace(temporary, _path(folder, round_num))
  run_directory.sync(folder)
  for old in rounds(folder)[:-_KEEP]:
    _path(folder, old).unlink()


def load(folder: pathlib.Path, round_num: int, like: Any) -> Any:
  """Returns a saved state.

  Args:
    folder: Where checkpoints are.
    round_num: The round after which it was saved.
    like: A state of the same structure, shapes and types.

  Returns:
    The state.

  Raises:
    OSError: If the file cannot be read, or is damaged.
    RunDirectoryError: If it is of another model.
  """
  path = _path(folder, round_num)
  try:
    with np.load(path, allow_pickle=False) as arrays:
      leaves = [arrays[f'arr_{place}'] for place in range(len(arrays.files))]
  # What NumPy and zipfile raise on damaged files, RuntimeError included.
  except (
    ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile
  ) as error:
    raise OSError(f'{path} is damaged ({error}).') from error
  expected = [np.asarray(leaf) for leaf in tf.nest.flatten(like)]
  if not leaves:
    raise OSError(f'{path} is damaged (it holds nothing).')
  found = [(leaf.shape, leaf.dtype) for leaf in leaves]
  if found != [(leaf.shape, leaf.dtype) for leaf in expected]:
    raise run_directory.RunDirectoryError(
      f'{path} is of another model or number of clients; name another '
      '--output_dir.'
    )
  return tf.nest.pack_sequence_as(like, leaves)


def load_latest(folder: pathlib.Path, like: Any) -> Optional[tuple[int, Any]]:
  """Returns the newest checkpoint that can be read.

  Args:
    folder: Where checkpoints are.
    like: A state of the same structure, shapes and types.

  Returns:
    The round and the state after it; None if there is no checkpoint.

  Raises:
    RunDirectoryError: If something is there and none of it can be read.
  """
  found = rounds(folder)
  for round_num in reversed(found):
    try:
      return round_num, load(folder, round_num, like)
    except OSError as error:
      logging.warning('%s The one before it is taken.', error)
  if found or (folder.is_dir() and any(folder.iterdir())):
    raise run_directory.RunDirectoryError(
      f'No checkpoint in {folder} can be read; delete that folder to begin '
      'again, or name another --output_dir.'
    )
  return None


def remove_unfinished(folder: pathlib.Path) -> None:
  """Removes what a kill in the middle of `save` left behind."""
  for path in folder.glob(f'{_PREFIX}*.tmp'):
    path.unlink()
