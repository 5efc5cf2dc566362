"""Where the metrics of a run go: each round's, and each test's.

A round is released once, under its number, to every release manager of the run
(`tff.program.ReleaseManager`): to those of its own files, which are here, and
to others. The value is a mapping of mappings,

  {'round': {'available': 37, 'selected': 10, 'train_loss': 1.9, ...},
   'test': {'accuracy': 0.61, 'loss': 1.4, ...}},

with the columns of rounds.csv and, if the round ended with a test, what that
gave. Managers that keep one value per key, as those of TFF do, keep all of it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent import futures
import contextlib
import os
import pathlib
import platform
import time
from typing import Any, Optional

from absl import logging
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import checks
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import trackers

Value = Mapping[str, Mapping[str, Any]]


def numbers(value: Mapping[str, Any]) -> dict[str, float]:
  """Returns what can be plotted, by name ('test/accuracy').

  Args:
    value: What a run releases, or metrics of `training.next`.
  """
  found: dict[str, float] = {}
  for name, part in value.items():
    if isinstance(part, Mapping):
      found |= {f'{name}/{of}': each for of, each in numbers(part).items()}
    elif isinstance(part, np.number):
      found[name] = part.item()
    elif isinstance(part, (int, float)):
      found[name] = part
  return found


def checked(
  managers: Any, function: Callable[..., Any]
) -> Sequence[tff.program.ReleaseManager]:
  """Returns what a function of the user's returned, if it is managers."""
  kind = tff.program.ReleaseManager
  is_list = isinstance(managers, (list, tuple))
  for each in managers if is_list else [None]:
    if not isinstance(each, kind):
      one = f'with {checks.describe(each)} in it' if is_list else ''
      raise checks.ResultError(
        f'The function {checks.name_of(function)} must return a list of '
        'tff.program.ReleaseManagers, but it is '
        f'{" ".join(filter(None, [checks.describe(managers), one]))}.'
      )
  return managers


class CsvFiles(tff.program.ReleaseManager[Value, int]):
  """Appends rows to rounds.csv and metrics.csv.

  They belong to the state of a run: a checkpoint knows what they hold, and they
  are cut back to that when the run is resumed.
  """

  def __init__(self, folder: pathlib.Path):
    self._folder = folder

  async def release(self, value: Value, key: int) -> None:
    """Appends a row for the round, and one for the test if there was one."""
    of_round = {'round': key, **value['round']}
    run_directory.append_row(self._folder / 'rounds.csv', of_round)
    if 'test' in value:
      of_test = {'round': key, **value['test'], **of_round}
      for names in ('clients', 'weights', 'lost'):
        of_test.pop(names, None)
      run_directory.append_row(self._folder / 'metrics.csv', of_test)


class TensorBoardEvents(tff.program.ReleaseManager[Value, int]):
  """Writes what can be plotted to a file of events for TensorBoard.

  `tff.program.TensorBoardReleaseManager` does the same with a TensorFlow
  operation for each number, which takes longer than a short round.
  """

  def __init__(self, folder: pathlib.Path):
    folder.mkdir(parents=True, exist_ok=True)
    self._folder = folder
    self._file: Optional[tf.io.TFRecordWriter] = None

  async def release(self, value: Value, key: int) -> None:
    """Writes the numbers of a round as one event."""
    with _as_os_error():
      if self._file is None:
        self._file = self._begin(key)
      scalars = [
        tf.compat.v1.Summary.Value(tag=name, simple_value=number)
        for name, number in numbers(value).items()
      ]
      self._write(
        self._file, step=key, summary=tf.compat.v1.Summary(value=scalars)
      )
      # No event is lost that belongs to a checkpoint.
      self._file.flush()

  def _begin(self, step: int) -> tf.io.TFRecordWriter:
    name = f'{time.time():.6f}.{platform.node()}.{os.getpid()}'
    file = tf.io.TFRecordWriter(
      str(self._folder / f'events.out.tfevents.{name}')
    )
    self._write(file, file_version='brain.Event:2')
    # TensorBoard drops the events of earlier files from this step on.
    started = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
    self._write(file, step=step, session_log=started)
    return file

  def _write(self, file: tf.io.TFRecordWriter, **fields: Any) -> None:
    event = tf.compat.v1.Event(wall_time=time.time(), **fields)
    file.write(event.SerializeToString())

  def close(self) -> None:
    """Closes the file."""
    if self._file is not None:
      with _as_os_error():
        self._file.close()


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
  """Turns TensorFlow's errors of a full disk into those of Python."""
  try:
    yield
  except tf.errors.OpError as error:
    reason = error.message.partition('} ')[2] or error.message
    raise OSError(reason.partition('\n')[0]) from error


@contextlib.contextmanager
def _event_loop() -> Iterator[Callable[[Coroutine[Any, Any, None]], None]]:
  """Yields a function that runs a coroutine to its end, on one event loop."""
  loop = asyncio.new_event_loop()
  with contextlib.ExitStack() as stack:
    stack.callback(loop.close)
    thread: Optional[futures.Executor] = None
    with contextlib.suppress(RuntimeError):
      asyncio.get_running_loop()
      # A notebook's loop has this thread, so that ours needs another one.
      thread = stack.enter_context(futures.ThreadPoolExecutor(1))

    def run(coroutine: Coroutine[Any, Any, None]) -> None:
      if thread is None:
        loop.run_until_complete(coroutine)
      else:
        thread.submit(loop.run_until_complete, coroutine).result()

    stack.callback(lambda: run(loop.shutdown_default_executor()))
    yield run


class Releases:
  """Releases values to the run's files and to other managers.

  One of the others that fails is named in a warning and given nothing more, for
  the run does not depend on it.
  """

  def __init__(
    self,
    own: Sequence[tff.program.ReleaseManager],
    others: Sequence[tff.program.ReleaseManager],
    run: Callable[[Coroutine[Any, Any, None]], None],
  ):
    self._own, self._others, self._run = own, list(others), run

  def release(self, value: Value, key: int) -> None:
    """Releases the value of a round under the round's number."""
    self._run(self._release(value, key))

  def flush(self, key: int) -> None:
    """Calls `flush` of the managers that have one, before a checkpoint.

    The rounds up to a checkpoint are not released again, so that a manager that
    collects values has to write them now.

    Args:
      key: The number of the round.
    """
    for manager in tuple(self._others):
      if hasattr(manager, 'flush'):
        with self._leaving_out(manager, key):
          manager.flush()

  async def _release(self, value: Value, key: int) -> None:
    for manager in self._own:
      await manager.release(value, key)
    for manager in tuple(self._others):
      with self._leaving_out(manager, key):
        await manager.release(value, key)

  @contextlib.contextmanager
  def _leaving_out(
    self, manager: tff.program.ReleaseManager, key: int
  ) -> Iterator[None]:
    try:
      yield
    except Exception as error:  # Of whatever a user or a server does.
      self._others.remove(manager)
      logging.warning(
        '%s failed in round %d (%s); the run continues without it.',
        type(manager).__name__,
        key,
        trackers.one_line(error),
      )


@contextlib.contextmanager
def to_files(
  folder: pathlib.Path,
  others: Sequence[tff.program.ReleaseManager[Value, int]] = (),
) -> Iterator[Releases]:
  """Yields releases to the files of a run's folder, and to other managers."""
  events = TensorBoardEvents(folder / 'tensorboard')
  with _event_loop() as run, contextlib.closing(events):
    yield Releases((CsvFiles(folder), events), others, run)
