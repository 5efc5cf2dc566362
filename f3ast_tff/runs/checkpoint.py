"""The state of a run as one file that is there whole or not at all.

A checkpoint is an .npz file of the leaves of a state, which for a run is
`files.Progress`: arrays, each with a checksum, and nothing that could be
executed. Their structure is given by a
state that was made anew. A file is written under another name and renamed, and
the one before it stays.

The rows that a run appends to its files belong to its state. A checkpoint knows
what these files held when it was saved, after which round, and of which run.

A run may be continued with another number of rounds. The checkpoint after its
last round is then of no use, because that round has a test of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
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
_ABOUT = 'about'  # JSON: the fields of `_Saved` but for the leaves.


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
  num_rounds: int,
  state: Any,
  origin: Mapping[str, Any],
  files: Sequence[pathlib.Path] = (),
) -> None:
  """Saves the state after a round.

  Args:
    folder: Where checkpoints are.
    round_num: The round.
    num_rounds: How many rounds the run has.
    state: Any structure of arrays.
    origin: Of which run it is: settings, data, versions, by name.
    files: The files to which the run appends rows.
  """
  folder.mkdir(exist_ok=True)
  contents = {
    path.name: run_directory.synced_content(path) for path in files
  }
  about = json.dumps({
    'round': round_num,
    'rounds': num_rounds,
    'origin': dict(origin),
    'files': contents,
  })
  leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(state)]
  run_directory.write_atomically(
    _path(folder, round_num),
    npz(*leaves, **{_ABOUT: np.frombuffer(about.encode(), np.uint8)}),
  )
  _prune(folder, round_num)


def _prune(folder: pathlib.Path, newest: int) -> None:
  """Removes old checkpoints, and those that the rows do not reach any more."""
  found = rounds(folder)
  kept = [round_num for round_num in found if round_num <= newest][-_KEEP:]
  _remove(folder, set(found) - set(kept))


def _remove(folder: pathlib.Path, some: Iterable[int]) -> None:
  for round_num in some:
    _path(folder, round_num).unlink()


class _Saved(NamedTuple):
  """What a file holds.

  Attributes:
    leaves: The state.
    round_num: The round after which it was saved; None in old files.
    num_rounds: How many rounds the run had that saved it.
    origin: Of which run it is.
    contents: What the files held to which the run appends rows, by name.
  """

  leaves: list[np.ndarray]
  round_num: Optional[int]
  num_rounds: int
  origin: Mapping[str, Any]
  contents: Mapping[str, run_directory.Content]

  def is_on_the_way(self, num_rounds: int) -> bool:
    """Whether a run of so many rounds passes through this state."""
    if self.num_rounds == num_rounds:
      return True
    # The rows of a last round are those of a run of that length only.
    return (self.round_num or 0) < min(self.num_rounds, num_rounds)


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
        about.get('round'),
        int(about.get('rounds', 0)),
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
  num_rounds: int,
  like: Any,
  origin: Mapping[str, Any],
  files: Sequence[pathlib.Path] = (),
) -> Any:
  """Returns a saved state, and cuts the files back to what they held then.

  Args:
    folder: Where checkpoints are.
    round_num: The round after which it was saved.
    num_rounds: How many rounds the run is to have.
    like: A state of the same structure, shapes and types.
    origin: Of which run it must be.
    files: The files to which the run appends rows.

  Returns:
    The state; None if a run of so many rounds does not pass through it.

  Raises:
    OSError: If the checkpoint or one of the files cannot be read, or is
      damaged.
    RunDirectoryError: If it is of another run.
  """
  path = _path(folder, round_num)
  saved = _read(path)
  if saved.round_num is None:
    raise run_directory.RunDirectoryError(
      f'{path} is of an earlier version of f3ast_tff, which did not record the '
      'round in it; finish the run with that version, or name another '
      '--output_dir.'
    )
  if saved.round_num != round_num:
    raise OSError(
      f'{path} is damaged (it is of round {saved.round_num}).'
    )
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
  if not saved.is_on_the_way(num_rounds):
    return None
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
  num_rounds: int,
  like: Any,
  origin: Mapping[str, Any],
  files: Sequence[pathlib.Path] = (),
) -> Optional[tuple[int, Any]]:
  """Returns the newest checkpoint that can be used.

  Args:
    folder: Where checkpoints are.
    num_rounds: How many rounds the run is to have.
    like: A state of the same structure, shapes and types.
    origin: Of which run it must be.
    files: The files to which the run appends rows; cut back as in `load`, and
      removed if the run has to begin again.

  Returns:
    The round and the state after it; None if the run begins with round 1.

  Raises:
    RunDirectoryError: If something is there and none of it can be used.
  """
  found = rounds(folder)
  ends = []  # Of runs of another length.
  for round_num in reversed(found):
    try:
      state = load(folder, round_num, num_rounds, like, origin, files)
    except OSError as error:
      logging.warning('%s The checkpoint before it is taken.', error)
      continue
    if state is None:
      ends.append(round_num)
      continue
    _remove(folder, ends)
    if round_num == found[-1]:  # A kill may have come before `save` did it.
      _prune(folder, round_num)
    return round_num, state
  there = list(folder.iterdir()) if folder.is_dir() else []
  if len(there) > len(ends):
    raise run_directory.RunDirectoryError(
      f'No checkpoint in {folder} can be used; move its run away to begin '
      'again, or name another --output_dir.'
    )
  for file in files:
    run_directory.cut_back(file, 0)
  _remove(folder, ends)
  return None
