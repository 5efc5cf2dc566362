"""Optional release managers for services that track runs: `--tracker`.

Each is in a module of its own, `NAME_tracker`, which is imported when it is
asked for, as is the package that it needs. NumPy level until then: nothing here
imports TensorFlow.
"""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import fcntl
import importlib
import importlib.util
import os
import pathlib
from typing import Any, Optional

from absl import logging

from f3ast_tff.runs import run_directory

# How to install each one's package without a change to those that TensorFlow
# needs. All of mlflow would bring another NumPy; this is its client.
_INSTALL = {
  'mlflow': 'pip install mlflow-skinny sqlalchemy alembic "protobuf<5"',
  'wandb': 'pip install wandb "protobuf<5"',
}


class TrackerError(ValueError):
  """A tracker cannot be used."""


def parse(text: str) -> list[str]:
  """Returns the names of the trackers in a text like 'mlflow,wandb'.

  Raises:
    TrackerError: If there is no such tracker, or its package is not installed.
  """
  names = text.split(',') if text else []
  for name in names:
    if name not in _INSTALL:
      raise TrackerError(
        f'tracker must be {" or ".join(_INSTALL)}, or several with commas, but '
        f'it is {text!r}.'
      )
    if importlib.util.find_spec(name) is None:
      raise TrackerError(
        f'--tracker={name} needs the package {name}; {_INSTALL[name]}'
      )
  return list(dict.fromkeys(names))


@contextlib.contextmanager
def started(
  names: Sequence[str], folder: pathlib.Path, settings: Mapping[str, Any]
) -> Iterator[list[Any]]:
  """Yields the release managers of trackers, and ends their runs.

  Args:
    names: As `parse` returns them.
    folder: The run's folder. Its name is that of the run; it keeps the run's id
      at each tracker, so that a resumed run is the same one there.
    settings: The settings of the run.

  Raises:
    TrackerError: If a tracker cannot be started.
  """
  managers: list[Any] = []
  succeeded = False
  try:
    for name in names:
      module = importlib.import_module(f'f3ast_tff.runs.{name}_tracker')
      try:
        with _one_at_a_time(folder.parent):
          managers.append(module.start(folder, settings))
      except Exception as error:  # Whatever a service or its package raises.
        raise TrackerError(
          f'--tracker={name} cannot be started ({one_line(error)}); mend that, '
          'or leave it out.'
        ) from error
    yield managers
    succeeded = True
  finally:
    for manager in managers:
      try:
        manager.finish(succeeded)
      except Exception as error:
        logging.warning(
          '%s failed at the end (%s); the files of the run are complete.',
          type(manager).__name__,
          one_line(error),
        )


@contextlib.contextmanager
def _one_at_a_time(folder: pathlib.Path) -> Iterator[None]:
  """Waits for other processes that are inside for the same folder.

  MLflow damages its database if runs of a sweep create it at the same time.
  """
  descriptor = os.open(folder, os.O_RDONLY)
  try:
    with contextlib.suppress(OSError):  # Some file systems have no locks.
      fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
  finally:
    os.close(descriptor)


def read_id(folder: pathlib.Path, name: str) -> Optional[str]:
  """Returns the id that the run in a folder has at a tracker, if it has one."""
  path = _id_file(folder, name)
  return path.read_text().strip() if path.exists() else None


def write_id(folder: pathlib.Path, name: str, run_id: str) -> None:
  """Keeps the id that the run in a folder has at a tracker."""
  run_directory.write_atomically(_id_file(folder, name), run_id + '\n')


def _id_file(folder: pathlib.Path, name: str) -> pathlib.Path:
  return folder / f'{name}_run_id'


def one_line(error: Exception) -> str:
  """Returns what an error says, or its kind if it says nothing."""
  text = ' '.join(str(error).split()).rstrip('.')
  return text or type(error).__name__
