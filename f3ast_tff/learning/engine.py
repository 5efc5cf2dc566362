"""What all rounds of a run have in common: computations, and clients' data."""

from collections.abc import Callable, Mapping
import functools
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import tensorflow_federated as tff

from f3ast_tff import selection
from f3ast_tff.datasets import federated
from f3ast_tff.learning import client_losses
from f3ast_tff.learning import client_optimizers
from f3ast_tff.learning import process as process_lib
from f3ast_tff.learning import shard_training
from f3ast_tff.learning import shards as shards_lib
from f3ast_tff.methods import released
from f3ast_tff.models import functional
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import environment as environment_lib


class SettingsError(ValueError):
  """The settings do not fit the task."""


class Task(NamedTuple):
  """What is trained.

  Attributes:
    dataset: The data set.
    model: The model.
    load: Loads the data set again, on another machine; None if only this one
      has it.
  """

  dataset: federated.FederatedDataset
  model: functional.Model
  load: Optional[Callable[[], federated.FederatedDataset]] = None


class ClientExamples(NamedTuple):
  """The training examples of all clients, in a form that is quick to send.

  Attributes:
    fields: Those of all clients behind each other.
    sizes: How many each one has.
  """

  fields: shards_lib.Examples
  sizes: np.ndarray


def client_examples(dataset: federated.FederatedDataset) -> ClientExamples:
  """Returns the training examples of all clients."""
  return ClientExamples(
    shards_lib.concatenated(dataset.train), dataset.num_examples
  )


def load_again(
  load: Optional[Callable[[], federated.FederatedDataset]], fingerprint: str
) -> ClientExamples:
  """Loads a data set on another machine than the one that runs the rounds.

  Args:
    load: Loads it; None if only the one that runs the rounds has it.
    fingerprint: What `federated.fingerprint` says of the one that is meant.

  Returns:
    The training examples.

  Raises:
    ValueError: If what this machine has is another one.
  """
  if load is None:
    raise ValueError('the task does not say how to load its data set again')
  dataset = load()
  found = federated.fingerprint(dataset)
  if found != fingerprint:
    raise ValueError(f'the data set there is another one ({found})')
  return client_examples(dataset)


# Maps the examples of each client, and those of all behind each other (None if
# they are not kept), to what fills shards.
_MakeShards = Callable[[Any, Any], Any]


def fillers(
  makers: Mapping[str, _MakeShards], is_kept: bool, data: ClientExamples
) -> dict[str, Callable[[Any], Any]]:
  """Returns what fills shards on a machine.

  Args:
    makers: As in `Engine`.
    is_kept: Whether TensorFlow keeps the examples.
    data: The examples.

  Returns:
    For each of `makers`, a function from a part to the shard.
  """
  train = shards_lib.split(data.fields, data.sizes)
  examples = shard_training.kept(data.fields) if is_kept else None
  return {name: make(train, examples).fill for name, make in makers.items()}


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
    asked: Makes the shards of the clients that are asked.
    parts_asked: Maps clients and a round to the parts that `asked` fills.
    makers: What makes `shards` (`train`) and `asked` (`ask`) on any machine.
  """

  config: config_lib.Config
  environment: environment_lib.Environment
  process: tff.learning.templates.LearningProcess
  shards: shards_lib.ClientShards
  makers: Mapping[str, _MakeShards]
  ask: Optional[tff.framework.ConcreteComputation] = None
  asked: Optional[Union[shards_lib.ClientShards, shards_lib.AskedShards]] = None
  parts_asked: Callable[[np.ndarray, int], list] = lambda clients, t: []


def build(
  config: config_lib.Config, task: Task, trains_here: bool = True
) -> Engine:
  """Builds the computations of a run.

  Args:
    config: The settings, with nothing left open.
    task: What is trained.
    trains_here: Whether clients train in this process.

  Returns:
    The engine.

  Raises:
    SettingsError: If the settings do not fit the task.
  """
  dataset, model, _ = task
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
  make_shards = functools.partial(
    shards_lib.ClientShards,
    batch_size=config.batch_size,
    epochs=config.local_epochs,
    steps=config.local_steps,
    num_shards=config.parallel_clients,
    seed=config.seed,
    augment=dataset.augment,
    filled_up_to=shards_lib.capacity(
      dataset.num_examples,
      config.batch_size,
      config.local_epochs,
      most_clients,
      config.local_steps,
    )
    if model.xla
    else None,
  )
  examples = None
  if dataset.augment is None and trains_here:
    examples = shard_training.resident(dataset.train)
  shards = make_shards(dataset.train, examples)
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
  engine = Engine(
    config, environment, process, shards, {'train': make_shards}
  )
  return _with_losses(engine, task, layout) if policy_waits else engine


def _with_losses(
  engine: Engine, task: Task, layout: shard_training.Layout
) -> Engine:
  """Returns an engine that can ask for losses."""
  config, (dataset, model, _) = engine.config, task
  num_clients, process = len(dataset.train), engine.process
  if released.parse(config.protocol).losses_of_training:
    losses = client_losses.during_training(
      model, _client_optimizer(config), num_clients, layout, config.batch_size
    )
    make = engine.makers['train']
    asked: Any = engine.shards

    def parts_asked(clients, round_num):
      # What candidates would train on; the weights make no difference.
      cohort = selection.Cohort(clients, np.zeros(clients.size))
      return engine.shards.parts(cohort, round_num)

  else:
    losses = client_losses.on_shards(model, num_clients, layout)
    make = _make_asked(engine, task)
    asked = make(dataset.train, engine.shards.examples)

    def parts_asked(clients, round_num):
      del round_num
      return asked.parts(clients)

  @tff.federated_computation(
    process.next.type_signature.parameter[0],
    losses.type_signature.parameter[1],
  )
  def ask(state, clients):
    weights = tff.federated_map(process.get_model_weights, state)
    return state, losses(weights, clients)

  return engine._replace(
    ask=ask,
    asked=asked,
    parts_asked=parts_asked,
    makers={**engine.makers, 'ask': make},
  )


def _make_asked(engine: Engine, task: Task) -> _MakeShards:
  """Returns what makes the shards of clients' whole training sets."""
  config, (dataset, model, _) = engine.config, task
  as_tested, lengths, filled_up_to = dataset.as_tested, None, None
  if as_tested is None and dataset.augment is not None:
    as_tested = dict
  if model.length is not None and as_tested is None:
    lengths = np.concatenate([
      model.length(examples['x']).numpy() for examples in dataset.train
    ])
  if model.xla:
    size = shards_lib.capacity(
      dataset.num_examples, client_losses.BATCH_SIZE, 1, config.num_candidates
    )
    filled_up_to = -(-size.batches // config.parallel_clients)
  return functools.partial(
    shards_lib.AskedShards,
    batch_size=client_losses.BATCH_SIZE,
    num_shards=config.parallel_clients,
    as_tested=as_tested,
    lengths=lengths,
    filled_up_to=filled_up_to,
  )
