"""The rounds of a run, and the state they are about.

  A_t, K_t, r(t-1) -> S_t and weights -> packed clients -> process.next

The state stays in TFF's worker. Each arrow is a pure function of the settings
and r(t-1), so a run that was interrupted goes on from its checkpoint to the
very same result.

Where a crew of workers on other machines trains the cohort, each of them gets
the model and some of the packed clients and returns a sum; the worker that
keeps the state applies the sum of these.
"""

from concurrent import futures
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow_federated as tff

from f3ast_tff import assistant
from f3ast_tff import crew as crew_lib
from f3ast_tff import engine as engine_lib
from f3ast_tff import environment as environment_lib
from f3ast_tff import failures
from f3ast_tff import process as process_lib
from f3ast_tff import rates as rates_lib
from f3ast_tff import remote
from f3ast_tff import runtime
from f3ast_tff import selection


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
    engine: engine_lib.Engine,
    worker: runtime.Worker,
    crew: Optional[crew_lib.Crew] = None,
  ):
    self._engine = engine
    self._crew = crew
    self._preparing: Optional[futures.Future[_Prepared]] = None
    self._assistant = assistant.Assistant()
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
    except failures.FAILURES as error:
      if not failures.is_of_the_computation(error):
        raise
      # Who fails alone has no loss; the policy ranks it below all.
      alone = [
        failures.unless_it_fails(losses_of, clients[[i]]) for i in range(k)
      ]
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
    arrays = failures.unless_it_fails(self._packed, cohort, round_num)
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
    except failures.FAILURES as error:
      if not failures.is_of_the_computation(error):
        raise
      failed = self._failed(cohort, round_num)
      repeated = None
      if failed:
        repeated = failures.unless_it_fails(
          lambda: self._step(self._packed(cohort, round_num, failed))
        )
      if repeated is None:
        why = failures.details_of(error)
        raise RoundError(
          f'Round {round_num} cannot be computed ({why}); if memory or a '
          'message is too small for it, let fewer clients take part '
          '(--clients_per_round).'
        ) from error
      output = repeated
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
      if failures.unless_it_fails(play_alone, place) is None
    )
