"""Runs the rounds of a training, in this process or on a cluster.

  A_t, K_t, r(t-1) -> S_t and weights -> shards -> process.next

Each arrow is a pure function of the training and its state, so a run that was
interrupted continues from its checkpoint to the very same result.
"""

from collections.abc import Callable, Collection, Sequence
import functools
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from f3ast_tff import checks
from f3ast_tff import selection
from f3ast_tff import selector as selector_lib
from f3ast_tff.execution import executor as executor_lib
from f3ast_tff.execution import values
from f3ast_tff.learning import server as server_lib
from f3ast_tff.learning import training as training_lib


class RoundError(RuntimeError):
  """A round cannot be computed, and no client of its own is to blame."""


class Round(NamedTuple):
  """What happened in a round.

  Attributes:
    available: The mask A_t.
    cohort: Whom r counts, and the weights; see `selector.Selection`.
    metrics: What the process measured.
    failed: The clients of the cohort whose training failed; they took part
      without examples.
    lost: Who was selected and delivers nothing; see `selector.Selection`.
  """

  available: np.ndarray
  cohort: selection.Cohort
  metrics: Any
  failed: tuple[int, ...] = ()
  lost: np.ndarray = np.zeros(0, np.intp)

  @property
  def selected(self) -> np.ndarray:
    """S_t, ascending."""
    return np.union1d(self.cohort.clients, self.lost)

  @property
  def delivered(self) -> np.ndarray:
    """The members of S_t whose updates are delivered, ascending."""
    return np.setdiff1d(self.cohort.clients, self.lost)


class _Prepared(NamedTuple):
  """A round that can be run.

  Attributes:
    round_num: The round t.
    rates: The r(t-1) by which its cohort was selected.
    kept: What the method kept then.
    selected: A_t and S_t.
    clients: What they train on.
  """

  round_num: int
  rates: np.ndarray
  kept: selection.Kept
  selected: selector_lib.Selection
  clients: Sequence[Any]

  def is_for(
    self, round_num: int, rates: np.ndarray, kept: selection.Kept
  ) -> bool:
    """Whether it is the round t that follows r(t-1)."""
    return (
      self.round_num == round_num
      and np.array_equal(self.rates, rates)
      and all(np.array_equal(self.kept[name], kept[name]) for name in kept)
    )


# Maps a name, what clients do, and the number of partial sums to what runs it;
# see `cluster.Cluster.runner`.
RunnerOf = Callable[[str, executor_lib.Work, int], executor_lib.Runner]


class Rounds:
  """The state of a training, and its rounds.

  Who takes part in round t + 1 depends on r(t), which depends on S_t but not on
  what comes of it. So the next round is prepared while clients train, unless
  the policy queries losses of the new model, as Power-of-Choice does, or
  clients have vectors, which change in the round.
  """

  def __init__(
    self,
    training: training_lib.Training,
    num_rounds: Optional[int] = None,
    runner_of: Optional[RunnerOf] = None,
  ):
    """Compiles the rounds.

    Args:
      training: What is trained.
      num_rounds: How many rounds there will be; none is prepared after the
        last. None if that is not known.
      runner_of: Where clients train; None for this process.
    """
    if not isinstance(training, training_lib.Training):
      raise ValueError(
        'Rounds takes what build_training returns, but it was given '
        f'{checks.describe(training)}.'
      )
    self._training = training
    self._num_rounds = num_rounds

    def executor(
      name: str, computation: Any, fill: Callable[[Any], Any]
    ) -> executor_lib.Executor:
      def runner(work: executor_lib.Work) -> executor_lib.Runner:
        if runner_of is not None:
          return runner_of(name, work, training.num_shards)
        return executor_lib.Threads(work, training.num_shards, fill)

      return executor_lib.Executor(computation, training.num_shards, runner)

    process, losses = training.process, training.losses
    self._rounds = executor('train', process.next, training.cohort_data.fill)
    self._losses: Optional[executor_lib.Executor] = None
    if losses is not None:
      self._losses = executor('losses', losses.computation, losses.fill)
    self._prepared: Optional[_Prepared] = None
    initialize = executor_lib.initializer(process.initialize)
    self._state = self._rounds.state(initialize())
    self._metrics = values.template(self._rounds.output_type)
    self._places = values.template(self._rounds.state_type)
    self._has_vectors = training.selector.method.vectors is not None

  @property
  def state(self) -> server_lib.ServerState:
    """The state, as arrays."""
    return values.pack(self._state.leaves, self._rounds.state_type)

  @state.setter
  def state(self, state: server_lib.ServerState) -> None:
    leaves = values.flatten(state, self._rounds.state_type)
    self._state = self._rounds.state(leaves)

  @property
  def _rates(self) -> np.ndarray:
    return self._state.leaves[self._places.rates].numpy()

  @property
  def _kept(self) -> selection.Kept:
    places = dict(self._places.kept)
    return {k: self._state.leaves[i].numpy() for k, i in places.items()}

  @property
  def _references(self) -> np.ndarray:
    """Where clients' vectors are, if in files."""
    return self._state.leaves[self._places.vectors.clients].numpy()

  def _keep(
    self, state: executor_lib.State, kept: selection.Kept
  ) -> executor_lib.State:
    """Returns a state with what the method keeps, which clients do not get."""
    leaves = list(state.leaves)
    for name, place in dict(self._places.kept).items():
      leaves[place] = tf.convert_to_tensor(kept[name], tf.float64)
    return state._replace(leaves=leaves)

  def _losses_of(self, round_num: int, clients: np.ndarray) -> np.ndarray:
    """Queries clients for the loss of the global model on their data."""
    executor, losses = self._losses, self._training.losses
    if executor is None or losses is None:
      return selection.no_losses(clients)

    def losses_of(some: np.ndarray) -> np.ndarray:
      queried = executor.load(losses.parts(some, round_num))
      # Its own: that of a round may hold more, such as an aggregator's norm.
      state = executor.state(self._state.leaves)
      _, (vector,) = executor.start(state, queried)()
      return vector.numpy()[some]

    try:
      return losses_of(clients)
    except tf.errors.OpError as error:
      # Who fails alone has no loss; the policy ranks it below all.
      alone = [
        _unless_it_fails(losses_of, one)
        for one in np.split(clients, clients.size)
      ]
      if all(a is None for a in alone):
        why = error.message.partition('\n')[0]
        raise RoundError(
          f'No client can compute its loss in round {round_num} ({why}); look '
          'at their data and the model.'
        ) from error
      return np.array([np.nan if a is None else a[0] for a in alone])

  def _prepare(
    self, round_num: int, rates: np.ndarray, kept: selection.Kept
  ) -> _Prepared:
    """Selects a cohort and loads what it trains on."""
    selected = self._training.selector.select(
      round_num, rates, functools.partial(self._losses_of, round_num), kept
    )
    clients = self._load(selected, round_num, selected.lost)
    return _Prepared(round_num, rates, kept, selected, clients)

  def _load(
    self,
    selected: selector_lib.Selection,
    round_num: int,
    failed: Collection[int] = (),
  ) -> Sequence[Any]:
    """Returns what a cohort trains on."""
    cohort = selected.cohort
    vectors: Any = ()
    if self._has_vectors:
      files = self._training.files
      if files:
        own = files.read(cohort.clients, self._references)
      else:
        table = self._state.leaves[self._places.vectors.clients]
        own = tf.gather(table, cohort.clients).numpy()
      vectors = training_lib.vectors_of(selected, own)
    return self._rounds.load(
      self._training.cohort_data.parts(cohort, round_num, failed, vectors)
    )

  def _train(
    self,
    clients: Sequence[Any],
    meanwhile: Callable[[], None] = lambda: None,
  ) -> tuple[executor_lib.State, Any]:
    """Returns the state after a round, and its metrics."""
    result = self._rounds.start(self._state, clients)
    meanwhile()
    state, output = result()
    return state, values.fill(self._metrics, output)

  def run(self, round_num: int) -> Round:
    """Runs round t = 1, 2, ..."""
    rates, kept = self._rates, self._kept
    prepared, self._prepared = self._prepared, None
    if prepared is None or not prepared.is_for(round_num, rates, kept):
      prepared = self._prepare(round_num, rates, kept)
    selected = prepared.selected
    cohort, lost = selected.cohort, selected.lost
    waits = self._losses is not None or self._has_vectors

    def prepare_next() -> None:
      if not waits and round_num != self._num_rounds:
        expected = self._training.selector.next_rates(rates, cohort, round_num)
        self._prepared = self._prepare(round_num + 1, expected, selected.kept)

    failed: tuple[int, ...] = ()
    try:
      state, metrics = self._train(prepared.clients, prepare_next)
    except tf.errors.OpError as error:
      failed = self._failed(selected, round_num)
      repeated = None
      if failed:
        clients = self._load(selected, round_num, (*failed, *lost))
        repeated = _unless_it_fails(self._train, clients)
      if repeated is None:
        why = error.message.partition('\n')[0]
        raise RoundError(
          f'Round {round_num} cannot be computed ({why}); if memory is too '
          'small for it, let fewer clients take part (--clients_per_round).'
        ) from error
      state, metrics = repeated
    if selected.kept:
      kept = training_lib.kept_after(selected, metrics)
      state = self._keep(state, kept)
    if self._training.files:
      leaves = list(state.leaves)
      leaves[self._places.vectors.clients] = tf.constant(
        training_lib.written(
          self._training.files, metrics, round_num, self._references
        )
      )
      state = state._replace(leaves=leaves)
    self._state = state
    return Round(selected.available, cohort, metrics, failed, lost)

  def _failed(
    self, selected: selector_lib.Selection, round_num: int
  ) -> tuple[int, ...]:
    """Returns the clients of a cohort that fail alone, too."""
    cohort = selected.cohort

    def train_alone(place: int) -> Any:
      one = selected._replace(
        cohort=selection.Cohort(*(each[[place]] for each in cohort)),
        state_weights=selected.state_weights[[place]],
      )
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
