"""The rounds of a run: TFF computations, and the state they are about.

  A_t, K_t, r(t-1) -> S_t and weights -> packed clients -> process.next

The state stays in TFF's worker. Each arrow is a pure function of the settings
and r(t-1), so a run that was interrupted goes on from its checkpoint to the
very same result.

Where a crew of workers on other machines trains the cohort, each of them gets
the model and some of the packed clients and returns a sum; the worker that
keeps the state applies the sum of these.
"""

from collections.abc import Callable
from concurrent import futures
import queue
import threading
from typing import Any, NamedTuple, Optional

import grpc
import numpy as np
import tensorflow_federated as tff

from f3ast_tff import client_losses
from f3ast_tff import client_optimizers
from f3ast_tff import config as config_lib
from f3ast_tff import crew as crew_lib
from f3ast_tff import environment as environment_lib
from f3ast_tff import packed_training
from f3ast_tff import participants
from f3ast_tff import process as process_lib
from f3ast_tff import rates as rates_lib
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
  """
  dataset = task.dataset
  environment = environment_lib.build(
    config, dataset.num_examples, dataset.num_predictions
  )
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
      task.model,
      len(dataset.train),
      packer.layout,
      participants.LOSS_BATCH_SIZE,
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


class RoundError(RuntimeError):
  """A round cannot be computed, and no client of its own is to blame."""


# How the worker here and those of a crew tell that something has failed.
_FAILURES = (grpc.RpcError, runtime.WorkerError)


def _is_of_the_computation(error: Exception) -> bool:
  """Returns whether the worker is well, and what it computes has failed."""
  cause = error.__cause__ if isinstance(error, runtime.WorkerError) else error
  code = cause.code() if isinstance(cause, grpc.Call) else None
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
  except _FAILURES as error:
    if not _is_of_the_computation(error):
      raise
    return None


def _details(error: Exception) -> str:
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


class _Prepared(NamedTuple):
  """A round that can be played.

  Attributes:
    round_num: The round t.
    rates: The r(t-1) by which its cohort was chosen.
    available: The mask A_t.
    cohort: S_t and the weights.
    arrays: The packed clients; in the worker already, unless a crew is to
      train them. None if that failed.
  """

  round_num: int
  rates: np.ndarray
  available: np.ndarray
  cohort: selection.Cohort
  arrays: Any

  def is_for(self, round_num: int, rates: np.ndarray) -> bool:
    """Whether it is the round t that follows r(t-1)."""
    return self.round_num == round_num and np.array_equal(self.rates, rates)


class _Assistant:
  """A thread that does what it is told, one thing after the other.

  Not a `ThreadPoolExecutor`, for which a program waits when it ends: after
  Ctrl-C in the middle of a call, gRPC may never answer again.
  """

  def __init__(self):
    self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    threading.Thread(target=self._work, args=[self._tasks], daemon=True).start()

  @staticmethod
  def _work(tasks: 'queue.SimpleQueue[Callable[[], None]]') -> None:
    while True:
      tasks.get()()

  def submit(
    self, function: Callable[..., Any], *arguments: Any, **named: Any
  ) -> 'futures.Future[Any]':
    """Has the thread call a function; returns its result to come."""
    future: futures.Future[Any] = futures.Future()

    def task():
      try:
        future.set_result(function(*arguments, **named))
      except BaseException as error:
        future.set_exception(error)

    self._tasks.put(task)
    return future


class _TooEarly(Exception):
  """A policy asks for losses of a model that is still being trained."""


class Server:
  """The state of a run, kept in the worker, and its rounds.

  Who takes part in round t + 1 depends on r(t), which depends on S_t but not on
  what comes of it. So the next round is prepared while the worker trains,
  unless the choice needs the new model, as that of Power-of-Choice does.
  """

  def __init__(
    self,
    engine: Engine,
    worker: runtime.Worker,
    crew: Optional[crew_lib.Crew] = None,
  ):
    self._engine = engine
    self._crew = crew
    self._preparing: Optional[futures.Future[_Prepared]] = None
    self._assistant = _Assistant()
    # Of policies that others add it is found out: see `_TooEarly`.
    self._needs_model = engine.config.selection == 'power_of_choice'
    self._remote = remote.Remote(worker, engine.config.parallel_clients)
    self._loaded: dict[str, remote.Value] = {}
    (self._state,) = self._call('initialize', engine.initialize)
    self._rates = engine.environment.initial_rates

  def _call(
    self,
    name: str,
    computation: tff.framework.ConcreteComputation,
    *arguments: remote.Value,
  ) -> tuple[remote.Value, ...]:
    """Calls a computation, which is sent the first time."""
    if name not in self._loaded:
      self._loaded[name] = self._remote.load(computation)
    return self._remote.call(self._loaded[name], *arguments)

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
    engine, k = self._engine, clients.size

    def losses_of(some: np.ndarray) -> np.ndarray:
      arrays = engine.pack_asked(some, round_num)
      if self._crew is not None:
        return self._total(self._crew, 'losses', arrays)[some]
      (losses,) = self._call('ask', engine.ask, self._state, self._put(arrays))
      return self._remote.get(losses)[some]

    try:
      return losses_of(clients)
    except _FAILURES as error:
      if not _is_of_the_computation(error):
        raise
      # Who fails alone has no loss; the policy ranks it below all.
      alone = [_unless_it_fails(losses_of, clients[[i]]) for i in range(k)]
      return np.array([np.nan if a is None else a[0] for a in alone])

  def _put(self, arrays: list[np.ndarray]) -> remote.Value:
    arrays_type = self._engine.play.type_signature.parameter[1]
    return self._remote.put(arrays, arrays_type)

  def _total(
    self, crew: crew_lib.Crew, name: str, arrays: list[np.ndarray]
  ) -> Any:
    """Returns what the crew makes of some clients with the present model."""
    shared = self._engine.shared
    (weights,) = self._call('weights', shared.weights, self._state)
    return crew.total(
      name, getattr(shared, name), self._remote.get(weights), arrays
    )

  def _packed(
    self,
    cohort: selection.Cohort,
    round_num: int,
    failed: tuple[int, ...] = (),
  ) -> Any:
    """Returns the packed clients, where they are to be trained."""
    arrays = self._engine.packer(cohort, round_num, failed)
    return arrays if self._crew is not None else self._put(arrays)

  def _step(self, arrays: Any) -> tuple[remote.Value, Any]:
    """Returns the state after a round with the packed clients, and the news."""
    if self._crew is None:
      state, news = self._call(
        'play', self._engine.play, self._state, arrays
      )
    else:
      apply = self._engine.shared.apply
      total = self._remote.put(
        self._total(self._crew, 'contribute', arrays),
        apply.type_signature.parameter[1],
      )
      state, news = self._call('apply', apply, self._state, total)
    return state, self._remote.get(news)

  def _prepare(
    self, round_num: int, rates: np.ndarray, has_model: bool = True
  ) -> _Prepared:
    """Chooses a cohort and sends its data to the worker."""
    engine = self._engine

    def losses_of(clients: np.ndarray) -> np.ndarray:
      if not has_model:
        raise _TooEarly
      return self._losses_of(round_num, clients)

    available, cohort = environment_lib.select(
      engine.config,
      engine.environment,
      rates,
      round_num,
      losses_of,
    )
    # A failure is found again, and whose it is, when the round is played.
    arrays = _unless_it_fails(self._packed, cohort, round_num)
    return _Prepared(round_num, rates, available, cohort, arrays)

  def _prepared(self, round_num: int) -> _Prepared:
    """Returns the round t, which may have been prepared already."""
    preparing, self._preparing = self._preparing, None
    if preparing is not None:
      try:
        prepared = preparing.result()
        if prepared.is_for(round_num, self._rates):
          return prepared
      except _TooEarly:
        self._needs_model = True
    return self._prepare(round_num, self._rates)

  def play(self, round_num: int) -> Round:
    """Plays a round."""
    config = self._engine.config
    prepared = self._prepared(round_num)
    if not self._needs_model and round_num < config.rounds:
      is_member = np.zeros(len(self._rates), bool)
      is_member[prepared.cohort.clients] = True
      expected = rates_lib.update(self._rates, is_member, config.beta)
      self._preparing = self._assistant.submit(
        self._prepare, round_num + 1, expected, has_model=False
      )
    cohort, arrays = prepared.cohort, prepared.arrays
    failed: tuple[int, ...] = ()
    try:
      if arrays is None:
        arrays = self._packed(cohort, round_num)
      output = self._step(arrays)
    except _FAILURES as error:
      if not _is_of_the_computation(error):
        raise
      failed = self._failed(cohort, round_num)
      if not failed:
        raise RoundError(
          f'Round {round_num} cannot be computed ({_details(error)}).'
        ) from error
      output = self._step(self._packed(cohort, round_num, failed))
    self._state, (self._rates, metrics) = output
    return Round(prepared.available, cohort, metrics, failed)

  def _failed(
    self, cohort: selection.Cohort, round_num: int
  ) -> tuple[int, ...]:
    """Returns the clients of a cohort that fail alone, too."""

    def play_alone(place: int) -> Any:
      one = selection.Cohort(cohort.clients[[place]], cohort.weights[[place]])
      return self._step(self._packed(one, round_num))

    return tuple(
      int(client)
      for place, client in enumerate(cohort.clients)
      if _unless_it_fails(play_alone, place) is None
    )
