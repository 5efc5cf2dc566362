"""The rounds of a run, and the state they are about.

  A_t, K_t, r(t-1) -> S_t and weights -> shards -> process.next

Each arrow is a pure function of the settings and r(t-1), so a run that was
interrupted goes on from its checkpoint to the very same result.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from f3ast_tff import rates as rates_lib
from f3ast_tff import selection
from f3ast_tff.execution import executor as executor_lib
from f3ast_tff.execution import values
from f3ast_tff.execution.cluster import cluster as cluster_lib
from f3ast_tff.learning import engine as engine_lib
from f3ast_tff.learning import process as process_lib
from f3ast_tff.runs import environment as environment_lib

_Shards = Sequence[Any]


class RoundError(RuntimeError):
  """A round cannot be computed, and no client of its own is to blame."""


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
    shards: What they train on.
  """

  round_num: int
  rates: np.ndarray
  available: np.ndarray
  cohort: selection.Cohort
  shards: _Shards

  def is_for(self, round_num: int, rates: np.ndarray) -> bool:
    """Whether it is the round t that follows r(t-1)."""
    return self.round_num == round_num and np.array_equal(self.rates, rates)


class Server:
  """The state of a run, and its rounds.

  Who takes part in round t + 1 depends on r(t), which depends on S_t but not on
  what comes of it. So the next round is prepared while clients train, unless
  the policy needs the new model, as Power-of-Choice does.
  """

  def __init__(
    self,
    engine: engine_lib.Engine,
    cluster: Optional[cluster_lib.Cluster] = None,
  ):
    """Compiles the rounds.

    Args:
      engine: What all rounds have in common.
      cluster: Where clients train; None for this process.
    """
    self._engine = engine
    num_shards = engine.config.parallel_clients

    def executor(
      name: str, computation: Any, shards: Any
    ) -> executor_lib.Executor:
      def runner(work: executor_lib.Work) -> executor_lib.Runner:
        if cluster is not None:
          return cluster.runner(name, work)
        return executor_lib.Threads(work, num_shards, shards.fill)

      return executor_lib.Executor(computation, num_shards, runner)

    self._rounds = executor('train', engine.process.next, engine.shards)
    self._ask: Optional[executor_lib.Executor] = None
    if engine.ask is not None:
      self._ask = executor('ask', engine.ask, engine.asked)
    self._prepared: Optional[_Prepared] = None
    initialize = executor_lib.initializer(engine.process.initialize)
    self._state = self._rounds.state(initialize())
    self._metrics = values.template(self._rounds.output_type)
    # The model comes before r in the state.
    model_type = self._rounds.state_type.global_model_weights
    self._place_of_rates = len(values.specs(model_type))

  @property
  def state(self) -> process_lib.ServerState:
    """The state, as arrays."""
    return values.pack(self._state.leaves, self._rounds.state_type)

  @state.setter
  def state(self, state: process_lib.ServerState) -> None:
    leaves = values.flatten(state, self._rounds.state_type)
    self._state = self._rounds.state(leaves)

  @property
  def _rates(self) -> np.ndarray:
    return self._state.leaves[self._place_of_rates].numpy()

  def _losses_of(self, round_num: int, clients: np.ndarray) -> np.ndarray:
    """Asks clients for the loss of the global model on their data."""
    ask = self._ask
    if ask is None:
      return selection.nobody_to_ask(clients)

    def losses_of(some: np.ndarray) -> np.ndarray:
      asked = ask.load(self._engine.parts_asked(some, round_num))
      _, (losses,) = ask.start(self._state, asked)()
      return losses.numpy()[some]

    try:
      return losses_of(clients)
    except tf.errors.OpError:
      # Who fails alone has no loss; the policy ranks it below all.
      alone = [
        _unless_it_fails(losses_of, one)
        for one in np.split(clients, clients.size)
      ]
      return np.array([np.nan if a is None else a[0] for a in alone])

  def _prepare(self, round_num: int, rates: np.ndarray) -> _Prepared:
    """Chooses a cohort and gets its shards ready."""
    engine = self._engine
    available, cohort = environment_lib.select(
      engine.config,
      engine.environment,
      rates,
      round_num,
      lambda clients: self._losses_of(round_num, clients),
    )
    shards = self._load(cohort, round_num)
    return _Prepared(round_num, rates, available, cohort, shards)

  def _load(
    self, cohort: selection.Cohort, round_num: int, failed: Sequence[int] = ()
  ) -> _Shards:
    """Returns what a cohort trains on."""
    parts = self._engine.shards.parts(cohort, round_num, failed)
    return self._rounds.load(parts)

  def _train(
    self,
    shards: _Shards,
    meanwhile: Callable[[], None] = lambda: None,
  ) -> tuple[executor_lib.State, Any]:
    """Returns the state after a round, and its metrics."""
    result = self._rounds.start(self._state, shards)
    meanwhile()
    state, output = result()
    return state, values.fill(self._metrics, output)

  def play(self, round_num: int) -> Round:
    """Plays a round."""
    config, rates = self._engine.config, self._rates
    prepared, self._prepared = self._prepared, None
    if prepared is None or not prepared.is_for(round_num, rates):
      prepared = self._prepare(round_num, rates)
    cohort = prepared.cohort

    def prepare_next() -> None:
      if self._ask is None and round_num < config.rounds:
        is_member = np.zeros(len(rates), bool)
        is_member[cohort.clients] = True
        expected = rates_lib.update(rates, is_member, config.beta)
        self._prepared = self._prepare(round_num + 1, expected)

    failed: tuple[int, ...] = ()
    try:
      self._state, metrics = self._train(prepared.shards, prepare_next)
    except tf.errors.OpError as error:
      failed = self._failed(cohort, round_num)
      repeated = None
      if failed:
        shards = self._load(cohort, round_num, failed)
        repeated = _unless_it_fails(self._train, shards)
      if repeated is None:
        why = error.message.partition('\n')[0]
        raise RoundError(
          f'Round {round_num} cannot be computed ({why}); if memory is too '
          'small for it, let fewer clients take part (--clients_per_round).'
        ) from error
      self._state, metrics = repeated
    return Round(prepared.available, cohort, metrics, failed)

  def _failed(
    self, cohort: selection.Cohort, round_num: int
  ) -> tuple[int, ...]:
    """Returns the clients of a cohort that fail alone, too."""

    def train_alone(place: int) -> Any:
      one = selection.Cohort(cohort.clients[[place]], cohort.weights[[place]])
      return self._train(self._load(one, round_num))

    return tuple(
      int(client)
      for place, client in enumerate(cohort.clients)
      if _unless_it_fails(train_alone, place) is None
    )


def _unless_it_fails(call: Callable[..., Any], *arguments: Any) -> Any:
  """Returns what a call returns; None if what it computes fails."""
  try:
    return call(*arguments)
  except tf.errors.OpError:
    return None
