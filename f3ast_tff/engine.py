"""What all rounds of a run have in common: computations, and clients' data."""

from collections.abc import Callable
from typing import NamedTuple, Optional

import numpy as np
import tensorflow_federated as tff

from f3ast_tff import client_losses
from f3ast_tff import client_optimizers
from f3ast_tff import config as config_lib
from f3ast_tff import environment as environment_lib
from f3ast_tff import process as process_lib
from f3ast_tff import released
from f3ast_tff import selection
from f3ast_tff import shard_training
from f3ast_tff import shards as shards_lib
from f3ast_tff.datasets import federated
from f3ast_tff.models import functional


class SettingsError(ValueError):
  """The settings do not fit the task."""


class Task(NamedTuple):
  """What is trained."""

  dataset: federated.FederatedDataset
  model: functional.Model


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


class Engine(NamedTuple):
  """What all rounds of a run have in common.

  Attributes:
    config: The settings.
    environment: What they mean.
    process: The learning process.
    shards: Makes the shards of a cohort.
    ask: The computation of losses, (state, shards) to (state, losses); None if
      the policy asks for none.
    shards_asked: Makes the shards of the clients that are asked in a round.
  """

  config: config_lib.Config
  environment: environment_lib.Environment
  process: tff.learning.templates.LearningProcess
  shards: shards_lib.ClientShards
  ask: Optional[tff.framework.ConcreteComputation] = None
  shards_asked: Optional[Callable[[np.ndarray, int], list]] = None


def build(config: config_lib.Config, task: Task) -> Engine:
  """Builds the computations of a run.

  Args:
    config: The settings, with nothing left open.
    task: What is trained.

  Returns:
    The engine.

  Raises:
    SettingsError: If the settings do not fit the task.
  """
  dataset, model = task
  try:
    environment = environment_lib.build(
      config, dataset.num_examples, dataset.num_predictions
    )
  except ValueError as error:
    raise SettingsError(str(error)) from error
  policy_waits = selection.is_waiting_for_model(environment.policy)
  most_clients = environment.constraint.maximum
  if policy_waits:
    most_clients = max(most_clients, config.num_candidates)
  examples = None
  if dataset.augment is None:
    examples = shard_training.resident(dataset.train)
  shards = shards_lib.ClientShards(
    dataset.train,
    examples,
    batch_size=config.batch_size,
    epochs=config.local_epochs,
    num_shards=config.parallel_clients,
    seed=config.seed,
    augment=dataset.augment,
    filled_up_to=shards_lib.capacity(
      dataset.num_examples, config.batch_size, config.local_epochs, most_clients
    )
    if model.xla
    else None,
  )
  layout = shard_training.layout_of(shards.some_examples)
  training = shard_training.build(
    model.functional,
    _client_optimizer(config),
    len(dataset.train),
    layout,
    config.batch_size,
    model.xla,
  )
  process = process_lib.compose(
    training,
    environment.p,
    environment.initial_rates,
    server_optimizer=_server_optimizer(config),
    beta=config.beta,
    correlation=environment.correlation,
  )
  engine = Engine(config, environment, process, shards)
  return _with_losses(engine, task, layout) if policy_waits else engine


def _with_losses(
  engine: Engine, task: Task, layout: shard_training.Layout
) -> Engine:
  """Returns an engine that can ask for losses."""
  config, (dataset, model) = engine.config, task
  num_clients, process = len(dataset.train), engine.process
  shards_asked: Callable[[np.ndarray, int], list]
  if released.parse(config.protocol).losses_of_training:
    losses = client_losses.during_training(
      model, _client_optimizer(config), num_clients, layout, config.batch_size
    )

    def shards_asked(clients, round_num):
      # What candidates would train on; the weights make no difference.
      cohort = selection.Cohort(clients, np.zeros(clients.size))
      return engine.shards(cohort, round_num)

  else:
    losses = client_losses.on_shards(model, num_clients, layout)
    asked = _shards_of_asked(engine, task)

    def shards_asked(clients, round_num):
      del round_num
      return asked(clients)

  @tff.federated_computation(
    process.next.type_signature.parameter[0],
    losses.type_signature.parameter[1],
  )
  def ask(state, clients):
    weights = tff.federated_map(process.get_model_weights, state)
    return state, losses(weights, clients)

  return engine._replace(ask=ask, shards_asked=shards_asked)


def _shards_of_asked(engine: Engine, task: Task) -> shards_lib.AskedShards:
  """Returns what makes the shards of clients' whole training sets."""
  config, (dataset, model) = engine.config, task
  as_tested, lengths, filled_up_to = dataset.as_tested, None, None
  if as_tested is None and dataset.augment is not None:
    as_tested = dict
  examples = engine.shards.examples
  if model.length is not None and examples and as_tested is None:
    lengths = model.length(examples['x']).numpy()
  if model.xla:
    size = shards_lib.capacity(
      dataset.num_examples, client_losses.BATCH_SIZE, 1, config.num_candidates
    )
    filled_up_to = -(-size.batches // config.parallel_clients)
  return shards_lib.AskedShards(
    dataset.train,
    examples,
    batch_size=client_losses.BATCH_SIZE,
    num_shards=config.parallel_clients,
    as_tested=as_tested,
    lengths=lengths,
    filled_up_to=filled_up_to,
  )
