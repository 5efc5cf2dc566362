"""A run from the first round to the last: the program around the rounds.

Plays rounds, tests the model, saves checkpoints, and writes the files of the
run's folder.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import functools
import gc
import pathlib
import time
from typing import Any, NamedTuple, Optional

import numpy as np
import psutil
import tensorflow as tf
import tqdm

from f3ast_tff.runs import checkpoint
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import divergence
from f3ast_tff.learning import engine as engine_lib
from f3ast_tff.runs import environment as environment_lib
from f3ast_tff.runs import evaluation
from f3ast_tff.runs import excluded as left_out_lib
from f3ast_tff.learning import process as process_lib
from f3ast_tff.runs import run_directory
from f3ast_tff.execution import server as server_lib
from f3ast_tff.execution.cluster import cluster as cluster_lib
from f3ast_tff.datasets import federated

# They belong to the state. The times that timing.csv holds do not.
_ROW_FILES = ('metrics.csv', 'rounds.csv')
_TIMING = (
  'round',
  'train_seconds',
  'eval_seconds',
  'checkpoint_seconds',
  'memory_mb',
)


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


def _origin(
  config: config_lib.Config,
  dataset: federated.FederatedDataset,
  environment: environment_lib.Environment,
) -> dict[str, Any]:
  """Returns what a checkpoint must be of to go on with it."""
  origin = {
    **dataclasses.asdict(config),
    'the data set': federated.fingerprint(dataset),
    **run_directory.versions(),
  }
  if environment.server_rates is not None:
    origin['the server_rate_file'] = environment.server_rates.sha256
  return origin


class _Files(NamedTuple):
  """The files of a run."""

  folder: pathlib.Path
  origin: Mapping[str, Any]

  @property
  def checkpoints(self) -> pathlib.Path:
    return self.folder / 'checkpoints'

  @property
  def rows(self) -> list[pathlib.Path]:
    return [self.folder / name for name in _ROW_FILES]


class _Test(NamedTuple):
  """How to test, and on which examples during training."""

  evaluate: Callable[[Any, Optional[np.ndarray]], evaluation.Metrics]
  rows: Optional[np.ndarray]


def run(
  config: config_lib.Config,
  task: engine_lib.Task,
  folder: pathlib.Path,
  stop_if_diverged: bool = True,
  cluster: Optional[cluster_lib.Cluster] = None,
) -> float:
  """Trains from the newest checkpoint in the folder, or from the start.

  Args:
    config: The settings, learning rates included.
    task: What is trained.
    folder: The run's folder, claimed by the caller.
    stop_if_diverged: Whether to end when numbers are not finite any more; else
      all rounds are played whatever they give.
    cluster: Where clients train; None for this process. The files are the same.

  Returns:
    The seconds that training took, without set-up; the files are in the folder.

  Raises:
    ClusterError: If the cluster is gone.
    DivergenceError: If the run has diverged and is to stop.
    RoundError: If a round cannot be computed.
    RunDirectoryError: If the folder's checkpoints are of another run.
    SettingsError: If the settings do not fit the task.
  """
  engine = engine_lib.build(config, task, trains_here=cluster is None)
  test = _Test(
    evaluation.build_evaluator(
      task.model, task.dataset, num_threads=config.parallel_clients
    ),
    evaluation.subset(
      len(task.dataset.test_owner), config.eval_examples, config.seed
    ),
  )
  files = _Files(folder, _origin(config, task.dataset, engine.environment))
  server = server_lib.Server(engine, cluster)
  if cluster is not None:
    _open(cluster, engine, task, files.origin['the data set'])
  # What has been imported and traced stays. To look through it for garbage
  # takes a second each time, so that programs turn that off until here.
  gc.freeze()
  gc.enable()
  started = time.perf_counter()
  start, progress = _restore(files, server)
  progress = _train(
    engine, server, test, files, start, progress, stop_if_diverged
  )
  _write_final_files(folder, task.dataset, engine.environment, progress)
  return time.perf_counter() - started


def _open(
  cluster: cluster_lib.Cluster,
  engine: engine_lib.Engine,
  task: engine_lib.Task,
  fingerprint: str,
) -> None:
  """Starts the workers of a cluster."""
  dataset = task.dataset
  cluster.open(
    functools.partial(
      engine_lib.fillers, engine.makers, dataset.augment is None
    ),
    functools.partial(engine_lib.load_again, task.load, fingerprint),
    functools.partial(engine_lib.client_examples, dataset),
    run_directory.versions,
  )


def _restore(
  files: _Files, server: server_lib.Server
) -> tuple[int, Progress]:
  """Returns the last saved round and state, and drops rows beyond it."""
  state = server.state
  nobody = np.zeros(len(state.rates), np.int64)
  progress = Progress(state, nobody, nobody)
  for folder in (files.folder, files.checkpoints):
    run_directory.remove_unfinished(folder)
  start = 0
  found = checkpoint.load_latest(
    files.checkpoints, progress, files.origin, files.rows
  )
  if found is not None:
    start, progress = found
    server.state = progress.server
  run_directory.keep_rounds(files.folder / 'timing.csv', _TIMING, start)
  return start, progress


def _row(played: server_lib.Round, t: int, k: int) -> dict[str, Any]:
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


@contextlib.contextmanager
def _writing_events() -> Iterator[None]:
  """Turns TensorFlow's errors of a full disk into those of Python."""
  try:
    yield
  except tf.errors.OpError as error:
    reason = error.message.partition('} ')[2] or error.message
    raise OSError(reason.partition('\n')[0]) from error


def _write_test(
  folder: pathlib.Path,
  t: int,
  metrics: evaluation.Metrics,
  round_row: Mapping[str, Any],
) -> None:
  """Writes what a test gave, beside what happened in its round."""
  row = {'round': t, **metrics._asdict(), **round_row}
  del row['clients']
  run_directory.append_row(folder / 'metrics.csv', row)
  with _writing_events():
    for name, value in row.items():
      tf.summary.scalar(name, value, step=t)


def _write_timing(
  folder: pathlib.Path, t: int, moments: Sequence[float]
) -> None:
  """Writes the seconds between the moments of a round, and the memory."""
  seconds = (f'{end - begin:.6f}' for begin, end in zip(moments, moments[1:]))
  memory = psutil.Process().memory_info().rss // 1_000_000
  row = dict(zip(_TIMING, (t, *seconds, memory)))
  run_directory.append_row(folder / 'timing.csv', row)


def _train(
  engine: engine_lib.Engine,
  server: server_lib.Server,
  test: _Test,
  files: _Files,
  start: int,
  progress: Progress,
  is_guarded: bool,
) -> Progress:
  """Runs the rounds after `start` and writes their rows."""
  config, folder = engine.config, files.folder
  left_out = left_out_lib.LeftOut(engine.shards.num_examples)
  without_update = 0
  available, selected = progress.times_available, progress.times_selected
  with _writing_events():
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
      left_out.tell(played, t)
      without_update = divergence.rounds_without_update(
        without_update, *left_out.expected_and_counted(played)
      )
      trained = time.perf_counter()
      is_last = t == config.rounds
      is_tested = t % config.eval_every == 0 or is_last
      is_saved = t % config.checkpoint_every == 0 or is_last
      weights: list[np.ndarray] = []
      test_losses: list[float] = []
      if is_tested or is_saved:
        progress = Progress(server.state, available, selected)
        weights = tf.nest.flatten(_model_weights(progress.server))
      if is_tested:
        metrics = test.evaluate(
          _model_weights(progress.server), None if is_last else test.rows
        )
        _write_test(folder, t, metrics, round_row)
        bar.set_postfix(accuracy=f'{metrics.accuracy:.3f}')
        test_losses = [metrics.loss, metrics.user_loss]
      evaluated = time.perf_counter()
      if is_guarded:
        problem = divergence.problem(without_update, weights, test_losses)
        if problem is not None:
          raise _diverged(problem, t, bool(played.failed), config, files)
        # What may be the beginning of the end is not the last good state.
        is_saved = is_last or (is_saved and without_update == 0)
      if is_saved:
        with _writing_events():
          events.flush()
        checkpoint.save(
          files.checkpoints, t, progress, files.origin, files.rows
        )
      moments = began, trained, evaluated, time.perf_counter()
      _write_timing(folder, t, moments)
  return progress


def _diverged(
  problem: str,
  round_num: int,
  is_failing: bool,
  config: config_lib.Config,
  files: _Files,
) -> divergence.DivergenceError:
  saved = checkpoint.rounds(files.checkpoints)
  kept = 'No state had been saved before'
  if saved:
    kept = f'The last good state, after round {saved[-1]}, is in {files.folder}'
  advice = (
    f'lower --client_learning_rate (it is {config.client_learning_rate:g}) or '
    f'--server_learning_rate ({config.server_learning_rate:g})'
  )
  if is_failing:
    advice = 'training fails at its clients: look at their data and the model'
  return divergence.DivergenceError(
    f'The run has diverged in round {round_num} ({problem}); {advice}. {kept}; '
    '--resume --on_divergence=continue goes on all the same.'
  )


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
  run_directory.write_atomically(
    folder / 'model.npz', checkpoint.npz(rates=server.rates, **arrays)
  )
