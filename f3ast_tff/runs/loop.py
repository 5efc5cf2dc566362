"""A run from the first round to the last: the program around the rounds.

Runs rounds, tests the model, saves checkpoints, and writes the files of the
run's folder.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import gc
import pathlib
import time
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import availability
from f3ast_tff import traces
from f3ast_tff import vector_files
from f3ast_tff.datasets import federated
from f3ast_tff.execution import rounds as rounds_lib
from f3ast_tff.execution.cluster import cluster as cluster_lib
from f3ast_tff.learning import training as training_lib
from f3ast_tff.runs import checkpoint
from f3ast_tff.runs import client_files
from f3ast_tff.runs import client_vectors
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import divergence
from f3ast_tff.runs import evaluation
from f3ast_tff.runs import excluded as excluded_lib
from f3ast_tff.runs import files as files_lib
from f3ast_tff.runs import progress as progress_lib
from f3ast_tff.runs import releases as releases_lib
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import server_rate_file
from f3ast_tff.runs import task as task_lib
from f3ast_tff.runs import trace_file


def _origin(
  config: config_lib.Config,
  dataset: federated.FederatedDataset,
  model: availability.Availability,
) -> dict[str, Any]:
  """Returns what a checkpoint must be of to continue it."""
  origin = {
    **dataclasses.asdict(config),
    **client_files.digests(config),
    'the data set': federated.fingerprint(dataset),
    **run_directory.versions(),
  }
  del origin['rounds']  # `checkpoint` knows which states have another one.
  given = server_rate_file.of(config)
  if given is not None:
    origin['the server_rate_file'] = given.sha256
  if isinstance(model, traces.Clocked):
    origin['the trace'] = model.trace.sha256
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
    return [self.folder / name for name in files_lib.ROW_FILES]


class _Test(NamedTuple):
  """How to test, on which examples during training, and of which data."""

  evaluate: Callable[[Any, Optional[np.ndarray]], evaluation.Metrics]
  rows: Optional[np.ndarray]
  dataset: federated.FederatedDataset


def run(
  config: config_lib.Config,
  task: task_lib.Task,
  folder: pathlib.Path,
  stop_if_diverged: bool = True,
  cluster: Optional[cluster_lib.Cluster] = None,
  release_managers: Sequence[tff.program.ReleaseManager] = (),
) -> float:
  """Trains from the newest checkpoint in the folder, or from the start.

  Args:
    config: The settings, learning rates included.
    task: What is trained.
    folder: The run's folder, claimed by the caller.
    stop_if_diverged: Whether to end when numbers are not finite any more, or
      absurd; else all rounds are run whatever they give.
    cluster: Where clients train; None for this process. The files are the same.
    release_managers: What is given the metrics of each round next to the files,
      in the form that `releases` describes.

  Returns:
    The seconds that training took, without set-up; the files are in the folder.

  Raises:
    ClusterError: If the cluster is gone.
    DivergenceError: If the run has diverged and is to stop.
    RoundError: If a round cannot be computed.
    RunDirectoryError: If the folder's checkpoints are of another run.
    SettingsError: If the settings do not fit the task.
  """
  vectors_folder = client_vectors.begin(config, task, folder)
  training = task_lib.build(config, task, vectors_folder)
  test = _Test(
    evaluation.build_evaluator(
      task.model, task.dataset, num_threads=config.parallel_clients
    ),
    evaluation.subset(
      len(task.dataset.test_owner), config.eval_examples, config.seed
    ),
    task.dataset,
  )
  files = _Files(
    folder, _origin(config, task.dataset, training.selector.availability)
  )
  rounds = rounds_lib.Rounds(
    training, config.rounds, None if cluster is None else cluster.runner
  )
  if cluster is not None:
    _open(cluster, training, task, files.origin['the data set'])
  # What has been imported and traced stays. To look through it for garbage
  # takes a second each time, so that programs turn that off until here.
  gc.freeze()
  gc.enable()
  started = time.perf_counter()
  start, progress = _restore(config, files, rounds)
  data = files.origin['the data set']
  run_directory.record_data(folder, data, federated.origin(data))
  if training.files:
    training.files.cut_back(start)
    _forget(training.files, files)  # A kill may have come before that.
  trace_file.begin(folder, training.selector)
  progress = _train(
    config,
    training,
    rounds,
    test,
    files,
    start,
    progress,
    stop_if_diverged,
    release_managers,
  )
  files_lib.write_final_files(
    folder,
    task.dataset,
    training.selector,
    progress._replace(server=rounds.state),
  )
  return time.perf_counter() - started


def _open(
  cluster: cluster_lib.Cluster,
  training: training_lib.Training,
  task: task_lib.Task,
  fingerprint: str,
) -> None:
  """Starts the workers of a cluster."""
  dataset = task.dataset
  cluster.open(
    functools.partial(task_lib.fillers, training.makers),
    functools.partial(task_lib.load_again, task.load, fingerprint),
    functools.partial(task_lib.client_examples, dataset),
    run_directory.versions,
  )


def _restore(
  config: config_lib.Config, files: _Files, rounds: rounds_lib.Rounds
) -> tuple[int, files_lib.Progress]:
  """Sets the last saved state, drops rows beyond it; returns what it holds.

  The state of the server is in the rounds, and not in what is returned: states
  with vectors of clients are large, and an old one would stay in memory.

  Args:
    config: The settings.
    files: The files of the run.
    rounds: The rounds, before the first.

  Returns:
    The last saved round, and the progress without the server's state.
  """
  nobody = np.zeros(len(rounds.state.rates), np.int64)
  progress = files_lib.Progress(rounds.state, nobody, nobody, nobody)
  for folder in (files.folder, files.checkpoints):
    run_directory.remove_unfinished(folder)
  start = 0
  found = checkpoint.load_latest(
    files.checkpoints, config.rounds, progress, files.origin, files.rows
  )
  if found is not None:
    start, progress = found
    rounds.state = progress.server
  timing = files.folder / 'timing.csv'
  run_directory.keep_rounds(timing, files_lib.TIMING, start)
  if start < config.rounds:
    run_directory.remove_final_files(files.folder)
  return start, progress._replace(server=())


def _train(
  config: config_lib.Config,
  training: training_lib.Training,
  rounds: rounds_lib.Rounds,
  test: _Test,
  files: _Files,
  start: int,
  progress: files_lib.Progress,
  is_guarded: bool,
  managers: Sequence[tff.program.ReleaseManager],
) -> files_lib.Progress:
  """Runs the rounds after `start` and releases their metrics."""
  excluded = excluded_lib.ExcludedClients(test.dataset.train)
  without_update = 0
  releasing = releases_lib.to_files(files.folder, managers)
  showing = progress_lib.shown(start, config.rounds)
  with releasing as releases, showing as show:
    for t in range(start + 1, config.rounds + 1):
      began = time.perf_counter()
      round_ = rounds.run(t)
      value: dict[str, dict[str, Any]] = {
        'round': files_lib.columns(
          round_,
          training.selector.constraint(t),
          training.selector.delivery is None,
        )
      }
      progress = progress.counting(round_)
      excluded.log(round_, t)
      without_update = divergence.rounds_without_update(
        without_update, *excluded.expected_and_counted(round_)
      )
      trained = time.perf_counter()
      is_last = t == config.rounds
      is_tested = t % config.eval_every == 0 or is_last
      is_saved = t % config.checkpoint_every == 0 or is_last
      weights: list[np.ndarray] = []
      test_losses: list[float] = []
      accuracy = None
      if is_tested or is_saved:
        weights = tf.nest.flatten(files_lib.model_weights(rounds.state))
      if is_tested:
        metrics = test.evaluate(
          files_lib.model_weights(rounds.state),
          None if is_last else test.rows,
        )
        value['test'] = metrics._asdict()
        accuracy = metrics.accuracy
        test_losses = [metrics.loss, metrics.user_loss]
      evaluated = time.perf_counter()
      releases.release(value, t)
      show(t, accuracy)
      if is_guarded:
        problem = divergence.problem(without_update, weights, test_losses)
        if problem is not None:
          raise _diverged(
            problem, t, bool(round_.failed), config, files, test.dataset
          )
        # What may be the beginning of the end is not the last good state.
        is_saved = is_last or (is_saved and without_update == 0)
      if is_saved:
        releases.flush(t)
        checkpoint.save(
          files.checkpoints,
          t,
          config.rounds,
          progress._replace(server=rounds.state),
          files.origin,
          files.rows,
        )
        if training.files:
          _forget(training.files, files)
      moments = began, trained, evaluated, time.perf_counter()
      files_lib.write_timing(files.folder, t, moments)
  return progress


def _forget(vectors: vector_files.VectorFiles, files: _Files) -> None:
  """Removes the vectors that no checkpoint needs, also not the oldest one."""
  saved = checkpoint.rounds(files.checkpoints)
  if saved:
    vectors.forget(saved[0])


def _diverged(
  problem: divergence.Problem,
  round_num: int,
  is_failing: bool,
  config: config_lib.Config,
  files: _Files,
  dataset: federated.FederatedDataset,
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
  cause = divergence.cause_in_data(problem, dataset)
  return divergence.DivergenceError(
    f'The run {"stops" if cause else "has diverged"} in round {round_num} '
    f'({problem.what}); {cause or advice}. {kept}; '
    '--resume --on_divergence=continue trains on all the same.'
  )
