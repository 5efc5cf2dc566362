"""The state of a run as one file that is there whole or not at all.

A checkpoint is an .npz file of the leaves of a state, which for a run is
`files.Progress`: arrays, each with a checksum, and nothing that could be
executed. Their structure is given by a
state that was made anew. A file is written under another name and renamed, and
the one before it stays.

The rows that a run appends to its files belong to its state. A checkpoint knows
what these files held when it was saved, and of which run it is.
"""

from collections.abc import Mapping, Sequence
import io
import json
import pathlib
from typing import Any, NamedTuple, Optional
import zipfile

from absl import logging
import numpy as np
import tensorflow as tf

from f3ast_tff.runs import run_directory

_KEEP = 2
_PREFIX, _SUFFIX = 'round_', '.npz'
_ABOUT = 'about'  # JSON: `origin`, and the content of `files` by name.


def npz(*arrays: np.ndarray, **named: np.ndarray) -> memoryview:
  """Returns the content of an .npz file."""
  # In memory first: what NumPy leaves behind on a full disk is not silent.
  content = io.BytesIO()
  np.savez(content, *arrays, **named)
  return content.getbuffer()


def _path(folder: pathlib.Path, round_num: int) -> pathlib.Path:
  return folder / f'{_PREFIX}{round_num}{_SUFFIX}'


def rounds(folder: pathlib.Path) -> list[int]:
  """Returns the rounds after which there is a checkpoint, ascending."""
  names = [path.name for path in folder.glob(f'{_PREFIX}*{_SUFFIX}')]
  numbers = [name[len(_PREFIX) : -len(_SUFFIX)] for name in names]
  # Names that we would have given: no round_007.npz, for example.
  return sorted(int(n) for n in numbers if n.isdecimal() and n == str(int(n)))


def save(
  folder: pathlib.Path,
  round_num: int,
  state: Any,
  origin: Mapping[str, Any],
  files: Sequence[pathlib.Path] = (),
) -> None:
  """Saves the state after a round.

  Args:
    folder: Where checkpoints are.
    round_num: The round.
    state: Any structure of arrays.
    origin: Of which run it is: settings, data, versions, by name.
    files: The files to which the run appends rows.
  """
  folder.mkdir(exist_ok=True)
  contents = {
    path.name: run_directory.synced_content(path) for path in files
  }
  about = json.dumps({'origin': dict(origin), 'files': contents})
  leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(state)]
  run_directory.write_atomically(
    _path(folder, round_num),
    npz(*leaves, **{_ABOUT: np.frombuffer(about.encode(), np.uint8)}),
  )
  _prune(folder)


def _prune(folder: pathlib.Path) -> None:
  for old in rounds(folder)[:-_KEEP]:
    _path(folder, old).unlink()


class _Saved(NamedTuple):
  """What a file holds."""

  leaves: list[np.ndarray]
  origin: Mapping[str, Any]
  contents: Mapping[str, run_directory.Content]


def _read(path: pathlib.Path) -> _Saved:
  """Reads a file; raises an OSError if it is damaged."""
  try:
    with zipfile.ZipFile(path) as file:
      bad = file.testzip()  # NumPy looks at checksums of whole arrays only.
      if bad is not None:
        raise ValueError(f'the checksum of {bad} is wrong')
    with np.load(path, allow_pickle=False) as arrays:
      about = json.loads(arrays[_ABOUT].tobytes())
      return _Saved(
        [arrays[f'arr_{place}'] for place in range(len(arrays.files) - 1)],
        dict(about['origin']),
        {
          name: run_directory.Content(int(size), str(digest))
          for name, (size, digest) in about['files'].items()
        },
      )
  # Whatever zipfile, NumPy and json raise on a file that is none of ours.
  except Exception as error:
    reason = str(error).partition('\n')[0]
    raise OSError(f'{path} is damaged ({reason}).') from error


def load(
  folder: pathlib.Path,
  round_num: int,
  like: Any,
  origin: Mapping[str, Any],
  files: Sequence[pathlib.Path] = (),
) -> Any:
  """Returns a saved state, and cuts the files back to what they held then.

  Args:
    folder: Where checkpoints are.
    round_num: The round after which it was saved.
    like: A state of the same structure, shapes and types.
    origin: Of which run it must be.
    files: The files to which the run appends rows.

  Returns:
    The state.

  Raises:
    OSError: If the checkpoint or one of the files cannot be read, or is
      damaged.
    RunDirectoryError: If it is of another run.
  """
  path = _path(folder, round_num)
  saved = _read(path)
  different = run_directory.differences(saved.origin, origin)
  if different:
    raise run_directory.RunDirectoryError(
      f'{path} is of another run ({"; ".join(different[:3])}); name another '
      '--output_dir.'
    )
  expected = [np.asarray(leaf) for leaf in tf.nest.flatten(like)]
  found = [(leaf.shape, leaf.dtype) for leaf in saved.leaves]
  if found != [(leaf.shape, leaf.dtype) for leaf in expected]:
    raise run_directory.RunDirectoryError(
      f'{path} is of another model or number of clients; name another '
      '--output_dir.'
    )
  nothing = run_directory.Content(0, '')
  contents = {file: saved.contents.get(file.name, nothing) for file in files}
  for file, content in contents.items():
    if not run_directory.begins_with(file, content):
      raise OSError(
        f'{file} is not as it was when {path.name} was saved.'
      )
  for file, content in contents.items():
    run_directory.cut_back(file, content.size)
  return tf.nest.pack_sequence_as(like, saved.leaves)


def load_latest(
  folder: pathlib.Path,
  like: Any,
  origin: Mapping[str, Any],
  files: Sequence[pathlib.Path] = (),
) -> Optional[tuple[int, Any]]:
  """Returns the newest checkpoint that can be read.

  Args:
    folder: Where checkpoints are.
    like: A state of the same structure, shapes and types.
    origin: Of which run it must be.
    files: The files to which the run appends rows; cut back as in `load`, and
      removed if there is no checkpoint.

  Returns:
    The round and the state after it; None if there is no checkpoint.

  Raises:
    RunDirectoryError: If something is there and none of it can be used.
  """
  found = rounds(folder)
  for round_num in reversed(found):
    try:
      state = load(folder, round_num, like, origin, files)
      if round_num == found[-1]:  # A kill may have come before `save` did it.
        _prune(folder)
      return round_num, state
    except OSError as error:
      logging.warning('%s The checkpoint before it is taken.', error)
  if found or (folder.is_dir() and any(folder.iterdir())):
    raise run_directory.RunDirectoryError(
      f'No checkpoint in {folder} can be used; move its run away to begin '
      'again, or name another --output_dir.'
    )
  for file in files:
    run_directory.cut_back(file, 0)
  return None
