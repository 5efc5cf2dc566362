"""The state of a run as one atomic unit, kept by TFF's program state manager.

The manager writes a SavedModel into a temporary folder and renames it. It keeps
the leaves of a state and forgets their structure, so the structure to load into
is given by a state that was made anew.
"""

import asyncio
import pathlib
import shutil
from typing import Any, Optional

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import run_directory

_KEEP = 2


def _manager(folder: pathlib.Path) -> tff.program.FileProgramStateManager:
  return tff.program.FileProgramStateManager(
    folder, prefix='round_', keep_total=_KEEP, keep_first=False
  )


def save(folder: pathlib.Path, round_num: int, state: Any) -> None:
  """Saves the state after a round.

  Args:
    folder: Where checkpoints are.
    round_num: The round.
    state: Any structure of arrays.
  """
  leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(state)]
  asyncio.run(_manager(folder).save(leaves, round_num))


def latest(folder: pathlib.Path) -> Optional[int]:
  """Returns the round of the newest checkpoint, or None."""
  if not folder.is_dir():
    return None
  versions = asyncio.run(_manager(folder).get_versions())
  return max(versions) if versions else None


def load(folder: pathlib.Path, round_num: int, like: Any) -> Any:
  """Returns a saved state.

  Args:
    folder: Where checkpoints are.
    round_num: The round after which it was saved.
    like: A state of the same structure, shapes and types.

  Returns:
    The state.
  """
  expected = [np.asarray(leaf) for leaf in tf.nest.flatten(like)]
  try:
    leaves = asyncio.run(_manager(folder).load(round_num, expected))
  except Exception as error:  # A damaged SavedModel fails in many ways.
    raise run_directory.RunDirectoryError(
      f'The checkpoint of round {round_num} in {folder} is damaged or of '
      'another model; delete it to go on from the one before.'
    ) from error
  found = [(leaf.shape, leaf.dtype) for leaf in leaves]
  wanted = [(leaf.shape, leaf.dtype) for leaf in expected]
  if found != wanted:
    raise run_directory.RunDirectoryError(
      f'The checkpoint of round {round_num} in {folder} is of another model or '
      'number of clients; name another --output_dir.'
    )
  return tf.nest.pack_sequence_as(like, leaves)


def remove_unfinished(folder: pathlib.Path) -> None:
  """Removes what a kill in the middle of `save` left behind."""
  for path in folder.glob('round_*_temp*'):
    shutil.rmtree(path)
