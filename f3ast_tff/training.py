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

from f3ast_tff import checkpoint
from f3ast_tff import client_losses
from f3ast_tff import client_optimizers
from f3ast_tff import config as config_lib
from f3ast_tff import environment as environment_lib
from f3ast_tff import evaluation
from f3ast_tff import participants
from f3ast_tff import process as process_lib
from f3ast_tff import released
from f3ast_tff import run_directory
from f3ast_tff import runtime
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


def _client_optimizer(
  config: config_lib.Config,
) -> tff.learning.optimizers.Optimizer:
  optimizer = client_optimizers.proximal(
    tff.learning.optimizers.build_sgdm(config.client_learning_rate),
    config.proximal,
  )
  protocol = released.parse(config.protocol)
  if config.selection == 'power_of_choice' and protocol.losses_of_training:
    optimizer = client_optimizers.clipped(optimizer, released.CLIP_NORM)
  return optimizer


def _server_optimizer(
  config: config_lib.Config,
) -> tff.learning.optimizers.Optimizer:
  optimizers = tff.learning.optimizers
  rate, epsilon = config.server_learning_rate, config.server_epsilon
  # The decay rates are those of Reddi et al. (2020): 0.9, and 0.999.
  build = {
    'sgd': lambda: optimizers.build_sgdm(rate),
    'momentum': lambda: optimizers.build_sgdm(rate, momentum=0.9),
    'adam': lambda: optimizers.build_adam(rate, epsilon=epsilon),
    'yogi': lambda: optimizers.build_yogi(
      rate, epsilon=epsilon, initial_preconditioner_value=0.0
    ),
    'adagrad': lambda: optimizers.build_adagrad(
      rate, epsilon=epsilon, initial_preconditioner_value=0.0
    ),
  }
  return build[config.server_optimizer or 'sgd']()


def _model_weights(state: process_lib.ServerState) -> tuple[Any, Any]:
  weights = state.global_model_weights
  return weights.trainable, weights.non_trainable


# Maps (state, round, clients) to the losses that Power-of-Choice asks for.
_Losses = Callable[[process_lib.ServerState, int, np.ndarray], np.ndarray]


class _Program(NamedTuple):
  """What all rounds of a run have in common."""

  config: config_lib.Config
  environment: environment_lib.Environment
  packer: participants.Packer
  process: tff.learning.templates.LearningProcess
  losses: _Losses
  evaluate: Callable[[Any, Optional[np.ndarray]], evaluation.Metrics]
  test_rows: Optional[np.ndarray]


def _build_losses(
  config: config_lib.Config,
  task: Task,
  packer: participants.Packer,
  client_optimizer: tff.learning.optimizers.Optimizer,
) -> _Losses:
  """Returns how candidates are asked for their losses."""
  num_clients = len(task.dataset.train)
  if released.parse(config.protocol).losses_of_training:
    computation = client_losses.during_training(
      task.model.functional,
      client_optimizer,
      num_clients,
      packer.layout,
      config.batch_size,
      task.jit_compile,
    )
    pack = packer.as_trained
  else:
    computation = client_losses.on_packed(
      task.model,
      num_clients,
      packer.layout,
      participants.LOSS_BATCH_SIZE,
      task.jit_compile,
    )
    pack = packer.as_tested

  def losses(state, round_num, clients):
    packed = pack(clients, round_num)
    return computation(state.global_model_weights, packed)[clients]

  return losses


def _build_program(config: config_lib.Config, task: Task) -> _Program:
  dataset = task.dataset
  environment = environment_lib.build(
    config, dataset.num_examples, dataset.num_predictions
  )
  num_places = min(environment.constraint.maximum, environment.p.size)
  packer = participants.Packer(config, dataset, num_places)
  client_optimizer = _client_optimizer(config)
  process = process_lib.build_packed_f3ast(
    task.model.functional,
    environment.p,
    environment.initial_rates,
    packer.layout,
    config.batch_size,
    client_optimizer=client_optimizer,
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
    _build_losses(config, task, packer, client_optimizer),
    evaluation.build_evaluator(task.model, dataset),
    evaluation.subset(
      len(dataset.test_owner), config.eval_examples, config.seed
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
  _write_final_files(folder, task.dataset, program.environment, progress)
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
  server = progress.server
  available, cohort = environment_lib.select(
    config,
    environment,
    server.rates,
    t,
    lambda clients: program.losses(server, t, clients),
  )
  output = program.process.next(server, program.packer(cohort, t))
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
