"""The computations of a run's rounds, and how their data are packed.

All that a run needs before its first round and that does not change after it;
`server` plays the rounds.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow_federated as tff

from f3ast_tff import client_losses
from f3ast_tff import client_optimizers
from f3ast_tff import config as config_lib
from f3ast_tff import environment as environment_lib
from f3ast_tff import packed_training
from f3ast_tff import participants
from f3ast_tff import process as process_lib
from f3ast_tff import released
from f3ast_tff.datasets import federated
from f3ast_tff.models import functional


class SettingsError(ValueError):
  """The settings do not fit the task."""


class Task(NamedTuple):
  """What is trained."""

  dataset: federated.FederatedDataset
  model: functional.Model


def threads(config: config_lib.Config) -> int:
  """Returns how many threads an operation in the worker should have."""
  return max(1, config_lib.num_cores() // config.parallel_clients)


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


class Shared(NamedTuple):
  """A round in pieces, for a crew.

  Attributes:
    weights: The computation of the model weights: (state) to (weights,).
    contribute: The computation of some clients' part: (weights, arrays) to
      (sum,).
    apply: The computation of the server's step: (state, sum) to (state, news).
    losses: The computation of losses: (weights, arrays) to (losses,).
  """

  weights: tff.framework.ConcreteComputation
  contribute: tff.framework.ConcreteComputation
  apply: tff.framework.ConcreteComputation
  losses: tff.framework.ConcreteComputation


class Engine(NamedTuple):
  """What all rounds of a run have in common.

  Attributes:
    config: The settings.
    environment: What they mean.
    packer: Packs the cohort, in as many arrays as clients train at a time.
    initialize: The computation of the first state, in a tuple.
    play: The computation of a round: (state, arrays) to (state, news), where
      the news are r(t) and the metrics.
    ask: The computation of losses: (state, arrays) to (losses,).
    pack_asked: Packs the clients that are asked for their losses in a round.
    shared: The same round in pieces.
  """

  config: config_lib.Config
  environment: environment_lib.Environment
  packer: participants.Packer
  initialize: tff.framework.ConcreteComputation
  play: tff.framework.ConcreteComputation
  ask: tff.framework.ConcreteComputation
  pack_asked: Callable[[np.ndarray, int], list[np.ndarray]]
  shared: Shared


def build(
  config: config_lib.Config, task: Task, crew_size: int = 0
) -> Engine:
  """Builds the computations of a run.

  Args:
    config: The settings, with nothing left open.
    task: What is trained.
    crew_size: How many workers on other machines share a cohort; 0 if the
      worker that keeps the state trains it.

  Returns:
    The engine.

  Raises:
    SettingsError: If the settings do not fit the task.
  """
  dataset = task.dataset
  try:
    environment = environment_lib.build(
      config, dataset.num_examples, dataset.num_predictions
    )
  except ValueError as error:
    raise SettingsError(str(error)) from error
  packer = participants.Packer(
    config, dataset, config.parallel_clients * max(1, crew_size)
  )
  client_optimizer = _client_optimizer(config)
  training = packed_training.build(
    task.model.functional,
    client_optimizer,
    len(dataset.train),
    packer.layout,
    config.batch_size,
  )
  of_server = {
    'server_optimizer': _server_optimizer(config),
    'beta': config.beta,
    'correlation': environment.correlation,
  }
  rounds_of = (training, environment.p, environment.initial_rates)
  process = process_lib.compose(*rounds_of, **of_server)
  if released.parse(config.protocol).losses_of_training:
    losses = client_losses.during_training(
      task.model.functional,
      client_optimizer,
      len(dataset.train),
      packer.layout,
      config.batch_size,
    )
    pack_asked = packer.as_trained
  else:
    losses = client_losses.on_packed(
      task.model, len(dataset.train), packer.layout
    )
    pack_asked = packer.as_tested
  initialize, play, ask = _computations(process, losses)
  halves = process_lib.split(*rounds_of, **of_server)
  return Engine(
    config=config,
    environment=environment,
    packer=packer,
    initialize=initialize,
    play=play,
    ask=ask,
    pack_asked=pack_asked,
    shared=_shared(process, halves, losses),
  )


def _state_and_news(output: Any) -> tuple[Any, Any]:
  """Returns what a round gives, in a federated computation."""
  rates_of = tff.tensorflow.computation(
    lambda state: state.rates, output.state.type_signature.member
  )
  news = (tff.federated_map(rates_of, output.state), output.metrics)
  return output.state, tff.federated_zip(news)


def _computations(
  process: tff.learning.templates.LearningProcess,
  losses: tff.framework.ConcreteComputation,
) -> tuple[tff.framework.ConcreteComputation, ...]:
  """Returns `initialize`, `play` and `ask` of an engine."""
  state_type, arrays_type = process.next.type_signature.parameter

  @tff.federated_computation
  def initialize():
    return (process.initialize(),)

  @tff.federated_computation(state_type, arrays_type)
  def play(state, arrays):
    return _state_and_news(process.next(state, arrays))

  @tff.federated_computation(state_type, arrays_type)
  def ask(state, arrays):
    weights = tff.federated_map(process.get_model_weights, state)
    return (losses(weights, arrays),)

  return initialize, play, ask


def _shared(
  process: tff.learning.templates.LearningProcess,
  halves: process_lib.Halves,
  losses_of: tff.framework.ConcreteComputation,
) -> Shared:
  """Returns the pieces of a round that is shared."""
  state_type, arrays_type = process.next.type_signature.parameter
  weights_type = halves.contribute.type_signature.parameter[0]

  @tff.federated_computation(state_type)
  def weights(state):
    return (tff.federated_map(process.get_model_weights, state),)

  @tff.federated_computation(weights_type, arrays_type)
  def contribute(weights, arrays):
    return (halves.contribute(weights, arrays),)

  @tff.federated_computation(*halves.apply.type_signature.parameter)
  def apply(state, contribution):
    return _state_and_news(halves.apply(state, contribution))

  @tff.federated_computation(weights_type, arrays_type)
  def losses(weights, arrays):
    return (losses_of(weights, arrays),)

  return Shared(weights, contribute, apply, losses)
