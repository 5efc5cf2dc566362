"""A run from the first round to the last: the program around the rounds.

Plays rounds, tests the model, saves checkpoints, and writes the files of the
run's folder.
"""

from collections.abc import Callable, Sequence
import os
import pathlib
import time
from typing import Any, NamedTuple, Optional

from absl import logging
import numpy as np
import psutil
import tensorflow as tf
import tqdm

from f3ast_tff import addresses
from f3ast_tff import checkpoint
from f3ast_tff import config as config_lib
from f3ast_tff import crew as crew_lib
from f3ast_tff import engine as engine_lib
from f3ast_tff import environment as environment_lib
from f3ast_tff import evaluation
from f3ast_tff import process as process_lib
from f3ast_tff import run_directory
from f3ast_tff import runtime
from f3ast_tff.datasets import federated

# How often a run may lose its worker before it gives up.
_WORKER_FAILURES = 5

_ROW_FILES = ('metrics.csv', 'rounds.csv', 'timing.csv')


class Progress(NamedTuple):
  """All that a run carries from round to round; what a checkpoint holds.

  Attributes:
    server: The state of the learning process, r included.
    times_available: Per client, in how many rounds it was available.
    times_selected: Per client, in how many rounds it took part.
  """

  server: Any
  times_available: np.ndarray
  times_selected: np.ndarray


def _model_weights(state: process_lib.ServerState) -> tuple[Any, Any]:
  weights = state.global_model_weights
  return weights.trainable, weights.non_trainable


class _Test(NamedTuple):
  """How to test, and on which examples during training."""

  evaluate: Callable[[Any, Optional[np.ndarray]], evaluation.Metrics]
  rows: Optional[np.ndarray]


def run(
  config: config_lib.Config,
  task: engine_lib.Task,
  folder: pathlib.Path,
  verbose: bool = False,
  workers: Sequence[addresses.Address] = (),
  worker_deadline: float = 30.0,
) -> float:
  """Trains from the newest checkpoint in the folder, or from the start.

  Args:
    config: The settings, learning rates included.
    task: What is trained.
    folder: The run's folder, claimed by the caller.
    verbose: Whether TensorFlow's log is shown.
    workers: Workers on other machines, which train the clients; if there are
      none, the worker here does.
    worker_deadline: How many seconds one of them may keep silent.

  Returns:
    The seconds that training took, without set-up; the files are in the folder.
  """
  if not workers:
    return _run(config, task, folder, verbose, None)
  with crew_lib.connect(workers, worker_deadline) as crew:
    return _run(config, task, folder, verbose, crew)


def _run(
  config: config_lib.Config,
  task: engine_lib.Task,
  folder: pathlib.Path,
  verbose: bool,
  crew: Optional[crew_lib.Crew],
) -> float:
  """Trains, with a crew or without; see `run`."""
  engine = engine_lib.build(config, task, crew.size if crew else 0)
  test = _Test(
    evaluation.build_evaluator(task.model, task.dataset),
    evaluation.subset(
      len(task.dataset.test_owner), config.eval_examples, config.seed
    ),
  )
  started = time.perf_counter()
  for failures_left in reversed(range(_WORKER_FAILURES)):
    try:
      with runtime.worker(
        verbose, engine_lib.threads(config), config.parallel_clients
      ) as worker:
        server = engine_lib.Server(engine, worker, crew)
        start, progress = _restore(folder, server)
        progress = _train(
          engine, server, test, folder, start, progress, worker.pid
        )
      break
    except runtime.WorkerStartError:
      raise
    except runtime.WorkerError as error:
      if failures_left == 0:
        raise
      # All is a pure function of the checkpoint, so that the rounds since then
      # are played again to the same result, and r is stepped once.
      logging.warning('%s It goes on with a new worker.', error)
  _write_final_files(folder, task.dataset, engine.environment, progress)
  return time.perf_counter() - started


def _restore(
  folder: pathlib.Path, server: engine_lib.Server
) -> tuple[int, Progress]:
  """Returns the last saved round and state, and drops rows beyond it."""
  state = server.state
  nobody = np.zeros(len(state.rates), np.int64)
  progress = Progress(state, nobody, nobody)
  checkpoint.remove_unfinished(folder / 'checkpoints')
  start = 0
  found = checkpoint.load_latest(folder / 'checkpoints', progress)
  if found is not None:
    start, progress = found
    server.state = progress.server
  for name in _ROW_FILES:
    run_directory.keep_rounds(folder / name, start)
  return start, progress


def _row(played: engine_lib.Round, t: int, k: int) -> dict[str, Any]:
  """Returns the row of a round in `rounds.csv`."""
  measured = played.metrics['selection']
  return {
    'round': t,
    'available': int(played.available.sum()),
    'k': k,
    'selected': int(measured['participants']),
    'left_out': int(measured['left_out']),
    'empty': int(measured['participants'] == 0),
    'sum_of_weights': float(measured['sum_of_weights']),
    'variance_bound': float(measured['variance_bound']),
    'train_loss': float(played.metrics['client_work']['train']['loss']),
    'clients': ' '.join(map(str, played.cohort.clients)),
  }


def _train(
  engine: engine_lib.Engine,
  server: engine_lib.Server,
  test: _Test,
  folder: pathlib.Path,
  start: int,
  progress: Progress,
  worker_pid: int,
) -> Progress:
  """Runs the rounds after `start` and writes their rows."""
  config = engine.config
  available, selected = progress.times_available, progress.times_selected
  events = tf.summary.create_file_writer(str(folder / 'tensorboard'))
  bar = tqdm.trange(
    start + 1,
    config.rounds + 1,
    initial=start,
    total=config.rounds,
    unit='round',
    disable=None,  # Quiet unless standard error is a terminal.
  )
  with events.as_default(), bar:
    for t in bar:
      began = time.perf_counter()
      played = server.play(t)
      round_row = _row(played, t, engine.environment.constraint(t))
      run_directory.append_row(folder / 'rounds.csv', round_row)
      available = available + played.available
      is_member = np.isin(np.arange(selected.size), played.cohort.clients)
      selected = selected + is_member
      trained = time.perf_counter()
      is_last = t == config.rounds
      is_tested = t % config.eval_every == 0 or is_last
      is_saved = t % config.checkpoint_every == 0 or is_last
      if is_tested or is_saved:
        progress = Progress(server.state, available, selected)
      if is_tested:
        metrics = test.evaluate(
          _model_weights(progress.server), None if is_last else test.rows
        )
        del round_row['clients']
        row = {'round': t, **metrics._asdict(), **round_row}
        run_directory.append_row(folder / 'metrics.csv', row)
        for name, value in row.items():
          tf.summary.scalar(name, value, step=t)
        bar.set_postfix(accuracy=f'{metrics.accuracy:.3f}')
      evaluated = time.perf_counter()
      if is_saved:
        events.flush()
        for name in _ROW_FILES:
          run_directory.sync_rows(folder / name)
        checkpoint.save(folder / 'checkpoints', t, progress)
      saved = time.perf_counter()
      run_directory.append_row(
        folder / 'timing.csv',
        {
          'round': t,
          'train_seconds': f'{trained - began:.6f}',
          'eval_seconds': f'{evaluated - trained:.6f}',
          'checkpoint_seconds': f'{saved - evaluated:.6f}',
          'driver_mb': _memory_mb(os.getpid()),
          'worker_mb': _memory_mb(worker_pid),
        },
      )
  return progress


def _memory_mb(pid: int) -> int:
  try:
    return psutil.Process(pid).memory_info().rss // 1_000_000
  except psutil.Error:  # The worker is gone, which the next round will tell.
    return 0


def _write_final_files(
  folder: pathlib.Path,
  dataset: federated.FederatedDataset,
  environment: environment_lib.Environment,
  progress: Progress,
) -> None:
  server = progress.server
  run_directory.write_table(
    folder / 'clients.csv',
    ['client', 'examples', 'p', 'times_available', 'times_selected', 'rate'],
    list(
      zip(
        range(len(dataset.train)),
        dataset.num_examples.tolist(),
        environment.p.tolist(),
        progress.times_available.tolist(),
        progress.times_selected.tolist(),
        server.rates.tolist(),
      )
    ),
  )
  fixed = environment.fixed
  if fixed is not None:
    columns = fixed.target, fixed.realised, fixed.errors
    run_directory.write_table(
      folder / 'fixed_policy.csv',
      ['client', 'target', 'realised', 'standard_error'],
      list(zip(range(fixed.target.size), *(c.tolist() for c in columns))),
    )
  trainable, non_trainable = _model_weights(server)
  arrays = {f'trainable_{i}': w for i, w in enumerate(trainable)}
  arrays |= {f'non_trainable_{i}': w for i, w in enumerate(non_trainable)}
  np.savez(folder / 'model.npz', rates=server.rates, **arrays)
