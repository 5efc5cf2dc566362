"""The rounds of a run: TFF computations, and the state they are about.

  A_t, K_t, r(t-1) -> S_t and weights -> packed clients -> process.next

The state stays in TFF's worker. Each arrow is a pure function of the settings
and r(t-1), so a run that was interrupted goes on from its checkpoint to the
very same result.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Optional

import grpc
import numpy as np
import tensorflow_federated as tff

from f3ast_tff import client_losses
from f3ast_tff import client_optimizers
from f3ast_tff import config as config_lib
from f3ast_tff import environment as environment_lib
from f3ast_tff import participants
from f3ast_tff import process as process_lib
from f3ast_tff import released
from f3ast_tff import remote
from f3ast_tff import runtime
from f3ast_tff import selection
from f3ast_tff.datasets import federated
from f3ast_tff.models import functional


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
  """

  config: config_lib.Config
  environment: environment_lib.Environment
  packer: participants.Packer
  initialize: tff.framework.ConcreteComputation
  play: tff.framework.ConcreteComputation
  ask: tff.framework.ConcreteComputation
  pack_asked: Callable[[np.ndarray, int], list[np.ndarray]]


def build(config: config_lib.Config, task: Task) -> Engine:
  """Builds the computations of a run.

  Args:
    config: The settings, with nothing left open.
    task: What is trained.

  Returns:
    The engine.
  """
  dataset = task.dataset
  environment = environment_lib.build(
    config, dataset.num_examples, dataset.num_predictions
  )
  packer = participants.Packer(config, dataset, config.parallel_clients)
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
  )
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
      task.model,
      len(dataset.train),
      packer.layout,
      participants.LOSS_BATCH_SIZE,
    )
    pack_asked = packer.as_tested
  initialize, play, ask = _computations(process, losses)
  return Engine(
    config=config,
    environment=environment,
    packer=packer,
    initialize=initialize,
    play=play,
    ask=ask,
    pack_asked=pack_asked,
  )


def _computations(
  process: tff.learning.templates.LearningProcess,
  losses: tff.framework.ConcreteComputation,
) -> tuple[tff.framework.ConcreteComputation, ...]:
  """Returns `initialize`, `play` and `ask` of an engine."""
  state_type, arrays_type = process.next.type_signature.parameter

  @tff.federated_computation
  def initialize():
    return (process.initialize(),)

  @tff.tensorflow.computation(state_type.member)
  def rates_of(state):
    return state.rates

  @tff.federated_computation(state_type, arrays_type)
  def play(state, arrays):
    output = process.next(state, arrays)
    news = (tff.federated_map(rates_of, output.state), output.metrics)
    return output.state, tff.federated_zip(news)

  @tff.federated_computation(state_type, arrays_type)
  def ask(state, arrays):
    weights = tff.federated_map(process.get_model_weights, state)
    return (losses(weights, arrays),)

  return initialize, play, ask


class RoundError(RuntimeError):
  """A round cannot be computed, and no client of its own is to blame."""


def _is_of_the_computation(error: grpc.RpcError) -> bool:
  """Returns whether the worker is well, and what it computes has failed."""
  code = error.code() if isinstance(error, grpc.Call) else None
  return code in (
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.RESOURCE_EXHAUSTED,  # A message too long for gRPC, e.g.
    grpc.StatusCode.UNKNOWN,
  )


def _unless_it_fails(call: Callable[..., Any], *arguments: Any) -> Any:
  """Returns what a call returns; None if what it computes fails."""
  try:
    return call(*arguments)
  except grpc.RpcError as error:
    if not _is_of_the_computation(error):
      raise
    return None


def _details(error: grpc.RpcError) -> str:
  details = error.details() if isinstance(error, grpc.Call) else str(error)
  return (details or '').partition('\n')[0]


class Round(NamedTuple):
  """What happened in a round.

  Attributes:
    available: The mask A_t.
    cohort: S_t and the weights.
    metrics: What the process measured.
    failed: The clients of the cohort whose training failed; they took part
      without examples.
  """

  available: np.ndarray
  cohort: selection.Cohort
  metrics: Any
  failed: tuple[int, ...] = ()


class Server:
  """The state of a run, kept in the worker, and its rounds."""

  def __init__(self, engine: Engine, worker: runtime.Worker):
    self._engine = engine
    self._remote = remote.Remote(worker, engine.config.parallel_clients)
    self._play = self._remote.load(engine.play)
    self._ask: Optional[remote.Value] = None
    (self._state,) = self._remote.call(self._remote.load(engine.initialize))
    self._rates = engine.environment.initial_rates

  @property
  def state(self) -> process_lib.ServerState:
    """The state, brought here."""
    return self._remote.get(self._state)

  @state.setter
  def state(self, state: process_lib.ServerState) -> None:
    self._state = self._remote.put(state, self._state.type_signature)
    self._rates = np.asarray(state.rates)

  def _losses_of(self, round_num: int, clients: np.ndarray) -> np.ndarray:
    """Asks clients for the loss of the global model on their data."""
    if self._ask is None:  # Most policies never do.
      self._ask = self._remote.load(self._engine.ask)
    ask, k = self._ask, clients.size

    def losses_of(some: np.ndarray) -> np.ndarray:
      arrays = self._put(self._engine.pack_asked(some, round_num))
      (losses,) = self._remote.call(ask, self._state, arrays)
      return self._remote.get(losses)[some]

    try:
      return losses_of(clients)
    except grpc.RpcError as error:
      if not _is_of_the_computation(error):
        raise
      # Who fails alone has no loss; the policy ranks it below all.
      alone = [_unless_it_fails(losses_of, clients[[i]]) for i in range(k)]
      return np.array([np.nan if a is None else a[0] for a in alone])

  def _put(self, arrays: list[np.ndarray]) -> remote.Value:
    arrays_type = self._engine.play.type_signature.parameter[1]
    return self._remote.put(arrays, arrays_type)

  def play(self, round_num: int) -> Round:
    """Plays a round."""
    engine = self._engine
    available, cohort = environment_lib.select(
      engine.config,
      engine.environment,
      self._rates,
      round_num,
      lambda clients: self._losses_of(round_num, clients),
    )
    try:
      failed: tuple[int, ...] = ()
      output = self._next(cohort, round_num)
    except grpc.RpcError as error:
      if not _is_of_the_computation(error):
        raise
      failed = self._failed(cohort, round_num)
      if not failed:
        raise RoundError(
          f'Round {round_num} cannot be computed ({_details(error)}).'
        ) from error
      output = self._next(cohort, round_num, failed)
    self._state, (self._rates, metrics) = output
    return Round(available, cohort, metrics, failed)

  def _next(
    self,
    cohort: selection.Cohort,
    round_num: int,
    failed: tuple[int, ...] = (),
  ) -> tuple[remote.Value, Any]:
    """Returns the state after a round, and the news."""
    arrays = self._put(self._engine.packer(cohort, round_num, failed))
    state, news = self._remote.call(self._play, self._state, arrays)
    return state, self._remote.get(news)

  def _failed(
    self, cohort: selection.Cohort, round_num: int
  ) -> tuple[int, ...]:
    """Returns the clients of a cohort that fail alone, too."""

    def alone(place: int) -> selection.Cohort:
      return selection.Cohort(
        cohort.clients[[place]], cohort.weights[[place]]
      )

    return tuple(
      int(client)
      for place, client in enumerate(cohort.clients)
      if _unless_it_fails(self._next, alone(place), round_num) is None
    )
