"""A run from the first round to the last: the program around the process.

  A_t, K_t -> S_t and weights -> packed clients -> process.next -> metrics

Each arrow is a pure function of the settings and r(t-1), so a run that was
interrupted goes on from its checkpoint to the very same result.
"""

from collections.abc import Callable
import dataclasses
import os
import pathlib
import time
from typing import Any, NamedTuple, Optional

import numpy as np
import psutil
import tensorflow as tf
import tensorflow_federated as tff
import tqdm

from f3ast_tff import availability
from f3ast_tff import checkpoint
from f3ast_tff import communication
from f3ast_tff import config as config_lib
from f3ast_tff import evaluation
from f3ast_tff import participants
from f3ast_tff import process as process_lib
from f3ast_tff import randomness
from f3ast_tff import rates
from f3ast_tff import run_directory
from f3ast_tff import runtime
from f3ast_tff import selection
from f3ast_tff.datasets import federated
from f3ast_tff.models import functional

_ROW_FILES = ('metrics.csv', 'rounds.csv', 'timing.csv')


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
  """What is trained: data, model, and how the worker best computes it.

  Attributes:
    dataset: The data.
    model: The model.
    jit_compile: Whether XLA compiles local training.
    threads: Threads per TensorFlow operation in the worker; None for all cores.
    concurrent_clients: How many clients train at a time; -1 for all.
  """

  dataset: federated.FederatedDataset
  model: functional.Model
  jit_compile: bool = True
  threads: Optional[int] = None
  concurrent_clients: int = -1


def large_task(
  dataset: federated.FederatedDataset, model: functional.Model
) -> Task:
  """Returns a task whose model is large enough to keep a core busy.

  As many clients train at a time as there are cores, each on one thread. XLA
  does not pay: it takes long to compile convolutions and unrolled LSTMs.

  Args:
    dataset: The data.
    model: The model.

  Returns:
    The task.
  """
  cores = len(os.sched_getaffinity(0))
  return Task(dataset, model, False, threads=1, concurrent_clients=cores)


class Environment(NamedTuple):
  """What the server cannot choose, and the rules by which it chooses."""

  p: np.ndarray
  availability: availability.Availability
  constraint: communication.Constraint
  correlation: str
  policy: selection.Policy


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


def build_environment(
  config: config_lib.Config, p: np.ndarray
) -> Environment:
  """Returns the environment that the settings describe."""
  model = availability.MODELS[config.avail](p, config.seed)
  correlation = config.correlation
  if correlation == 'auto':
    correlation = (
      rates.POSITIVE if model.positively_correlated else rates.UNCORRELATED
    )
  return Environment(
    p=p,
    availability=model,
    constraint=communication.parse(config.clients_per_round, config.seed),
    correlation=correlation,
    policy=selection.POLICIES[config_lib.ALGORITHMS[config.algorithm].selection],
  )


def select(
  config: config_lib.Config,
  environment: Environment,
  r: np.ndarray,
  round_num: int,
) -> tuple[np.ndarray, selection.Cohort]:
  """Returns A_t and the cohort S_t, given r(t-1)."""
  available = environment.availability(round_num)
  situation = selection.Situation(
    r=r,
    p=environment.p,
    available=available,
    k=environment.constraint(round_num),
    beta=config.beta,
    correlation=environment.correlation,
  )
  rng = randomness.generator(config.seed, 'selection', round_num)
  return available, environment.policy(situation, rng)


def _server_optimizer(
  config: config_lib.Config,
) -> tff.learning.optimizers.Optimizer:
  if config_lib.ALGORITHMS[config.algorithm].server_optimizer == 'adam':
    return tff.learning.optimizers.build_adam(
      config.server_learning_rate, epsilon=config.server_epsilon
    )
  return tff.learning.optimizers.build_sgdm(config.server_learning_rate)


def _model_weights(state: process_lib.ServerState) -> tuple[Any, Any]:
  weights = state.global_model_weights
  return weights.trainable, weights.non_trainable


class _Program(NamedTuple):
  """What all rounds of a run have in common."""

  config: config_lib.Config
  environment: Environment
  packer: participants.Packer
  process: tff.learning.templates.LearningProcess
  evaluate: Callable[[Any, Optional[np.ndarray]], evaluation.Metrics]
  test_rows: Optional[np.ndarray]


def _build_program(config: config_lib.Config, task: Task) -> _Program:
  environment = build_environment(config, task.dataset.p)
  num_places = min(environment.constraint.maximum, environment.p.size)
  packer = participants.Packer(config, task.dataset, num_places)
  process = process_lib.build_packed_f3ast(
    task.model.functional,
    environment.p,
    rates.initial(environment.p, environment.constraint.mean, config.rate_init),
    packer.layout,
    config.batch_size,
    client_optimizer=tff.learning.optimizers.build_sgdm(
      config.client_learning_rate
    ),
    server_optimizer=_server_optimizer(config),
    beta=config.beta,
    correlation=environment.correlation,
    jit_compile=task.jit_compile,
  )
  return _Program(
    config,
    environment,
    packer,
    process,
    evaluation.build_evaluator(task.model, task.dataset),
    evaluation.subset(
      len(task.dataset.test_owner), config.eval_examples, config.seed
    ),
  )


def run(
  config: config_lib.Config,
  task: Task,
  folder: pathlib.Path,
  verbose: bool = False,
) -> float:
  """Trains from the newest checkpoint in the folder, or from the start.

  Args:
    config: The settings, learning rates included.
    task: What is trained.
    folder: The run's folder, claimed by the caller.
    verbose: Whether TensorFlow's log is shown.

  Returns:
    The seconds that training took, without set-up; the files are in the folder.
  """
  program = _build_program(config, task)
  with runtime.worker(
    verbose, task.threads, task.concurrent_clients
  ) as worker:
    start, progress = _restore(folder, program)
    started = time.perf_counter()
    progress = _train(program, folder, start, progress, worker.pid)
    seconds = time.perf_counter() - started
  _write_final_files(folder, task.dataset, progress)
  return seconds


def _restore(
  folder: pathlib.Path, program: _Program
) -> tuple[int, Progress]:
  """Returns the last saved round and state, and drops rows beyond it."""
  num_clients = program.environment.p.size
  progress = Progress(
    program.process.initialize(),
    np.zeros(num_clients, np.int64),
    np.zeros(num_clients, np.int64),
  )
  checkpoint.remove_unfinished(folder / 'checkpoints')
  start = checkpoint.latest(folder / 'checkpoints') or 0
  if start:
    progress = checkpoint.load(folder / 'checkpoints', start, progress)
  for name in _ROW_FILES:
    run_directory.keep_rounds(folder / name, start)
  return start, progress


def _play_round(
  program: _Program, progress: Progress, t: int
) -> tuple[Progress, dict[str, Any]]:
  """Plays round t; returns the state after it and its row."""
  config, environment = program.config, program.environment
  available, cohort = select(config, environment, progress.server.rates, t)
  output = program.process.next(progress.server, program.packer(cohort, t))
  selected = np.zeros(environment.p.size, np.int64)
  selected[cohort.clients] = 1
  progress = Progress(
    output.state,
    progress.times_available + available,
    progress.times_selected + selected,
  )
  measured = output.metrics['selection']
  row = {
    'round': t,
    'available': int(available.sum()),
    'k': environment.constraint(t),
    'selected': int(measured['participants']),
    'left_out': int(measured['left_out']),
    'empty': int(measured['participants'] == 0),
    'sum_of_weights': float(measured['sum_of_weights']),
    'variance_bound': float(measured['variance_bound']),
    'train_loss': float(output.metrics['client_work']['train']['loss']),
    'clients': ' '.join(map(str, cohort.clients)),
  }
  return progress, row


def _train(
  program: _Program,
  folder: pathlib.Path,
  start: int,
  progress: Progress,
  worker_pid: int,
) -> Progress:
  """Runs the rounds after `start` and writes their rows."""
  config = program.config
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
      progress, round_row = _play_round(program, progress, t)
      run_directory.append_row(folder / 'rounds.csv', round_row)
      trained = time.perf_counter()
      is_last = t == config.rounds
      if t % config.eval_every == 0 or is_last:
        test_rows = None if is_last else program.test_rows
        metrics = program.evaluate(_model_weights(progress.server), test_rows)
        del round_row['clients']
        row = {'round': t, **metrics._asdict(), **round_row}
        run_directory.append_row(folder / 'metrics.csv', row)
        for name, value in row.items():
          tf.summary.scalar(name, value, step=t)
        bar.set_postfix(accuracy=f'{metrics.accuracy:.3f}')
      evaluated = time.perf_counter()
      if t % config.checkpoint_every == 0 or is_last:
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
        dataset.p.tolist(),
        progress.times_available.tolist(),
        progress.times_selected.tolist(),
        server.rates.tolist(),
      )
    ),
  )
  trainable, non_trainable = _model_weights(server)
  arrays = {f'trainable_{i}': w for i, w in enumerate(trainable)}
  arrays |= {f'non_trainable_{i}': w for i, w in enumerate(non_trainable)}
  np.savez(folder / 'model.npz', rates=server.rates, **arrays)
