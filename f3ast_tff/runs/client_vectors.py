"""Where a run keeps vectors of clients, `--vectors_in`, and how large they are.

What `auto` means depends on the task only and not on the machine, so that a run
that is resumed finds its vectors where they were.
"""

import pathlib
import shutil
import textwrap
from typing import Optional

import numpy as np

from f3ast_tff import communication
from f3ast_tff import delivery
from f3ast_tff import methods
from f3ast_tff import vector_files
from f3ast_tff import vectors
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import task as task_lib

FOLDER = 'vectors'
_MOST_IN_MEMORY = 10**8  # Bytes.
_COLUMNS = 80  # Of what is printed.


def _in_words(num_bytes: int) -> str:
  for unit, name in ((10**9, 'GB'), (10**6, 'MB')):
    if num_bytes >= unit:
      return f'{num_bytes / unit:,.1f} {name}'
  return f'{num_bytes / 1000:,.1f} kB'


def begin(
  config: config_lib.Config, task: task_lib.Task, folder: pathlib.Path
) -> Optional[pathlib.Path]:
  """Prints how large vectors of clients are; nothing if there are none.

  Args:
    config: The settings, with nothing left open.
    task: What is trained.
    folder: The run's folder.

  Returns:
    The folder for their files; None if there are none.

  Raises:
    SettingsError: If the disk has no room for them.
  """
  name = config.method or 'none'
  if methods.parse_method(name).vectors is None:
    return None
  num_clients = len(task.dataset.train)
  trainable, _ = task.model.functional.initial_weights
  size = sum(int(np.size(w)) for w in trainable)
  num_bytes = 4 * num_clients * size
  in_files = config.vectors_in == 'files' or (
    config.vectors_in == 'auto' and num_bytes > _MOST_IN_MEMORY
  )
  said = (
    f'{name} keeps a vector per client: {num_clients:,} x {size:,} numbers, '
    f'{_in_words(num_bytes)} in {f"{FOLDER}/" if in_files else "memory"}'
  )
  if not in_files:
    with_copies = _in_words(vectors.TABLES_IN_MEMORY * num_bytes)
    said += f', up to {with_copies} with copies'
  said += '.'
  print(textwrap.fill(said, _COLUMNS), flush=True)
  if not in_files:
    return None
  _check_room(config, num_clients, size, folder)
  return folder / FOLDER


def _check_room(
  config: config_lib.Config, num_clients: int, size: int, folder: pathlib.Path
) -> None:
  """Raises a `SettingsError` if the disk has no room for files of vectors."""
  k = communication.parse(config.clients_per_round, config.seed).maximum
  per_round = min(
    num_clients, delivery.num_selected(config.over_selection, k)
  )
  # Two checkpoints stay, and what was written since the older one with them.
  most = min(
    per_round * config.rounds,
    num_clients + 2 * per_round * config.checkpoint_every,
  )
  files = vector_files.VectorFiles(folder / FOLDER, np.zeros(0, np.float32))
  needed = 4 * size * most - files.size()
  folder.mkdir(parents=True, exist_ok=True)
  free = shutil.disk_usage(folder).free
  if needed > free:
    raise task_lib.SettingsError(
      f'The vectors of clients need up to {_in_words(needed)} more in '
      f'{folder}, where {_in_words(free)} are free; make space, name another '
      '--output_dir, or lower --checkpoint_every.'
    )
