"""A federated training: who takes part, on what, and the process that learns.

  clients = read_clients(client_data)
  selector = build_selector(clients.p, 'home_devices', clients_per_round=10)
  training = build_training(model, clients, selector, client_optimizer=...)
  state = training.initialize()
  state, metrics = training.next(state, round_num)

A round is `Selector.select`, then the shards or datasets of the cohort, then
`process.next`. Each is a pure function of the state and the round.
"""

from collections.abc import Callable, Collection, Mapping
import dataclasses
import numbers
from typing import Any, NamedTuple, Optional, Protocol

import numpy as np
import tensorflow_federated as tff

from f3ast_tff import checks
from f3ast_tff import selection
from f3ast_tff import selector as selector_lib
from f3ast_tff import vector_files
from f3ast_tff.learning import server as server_lib
from f3ast_tff.learning import shards

# Makes what fills shards, on any machine: maps the examples of each client, and
# what returns those of all clients behind each other.
MakeShards = Callable[[Any, Callable[[], Any]], Any]


class CohortData(Protocol):
  """What a cohort trains on."""

  @property
  def num_examples(self) -> np.ndarray:
    """The number of examples of each client."""

  def parts(
    self,
    cohort: selection.Cohort,
    round_num: int,
    failed: Collection[int] = (),
    vectors: Any = (),
  ) -> list[Any]:
    """Returns who trains on what in a round, without the examples."""

  def fill(self, part: Any) -> Any:
    """Returns one of the values that `process.next` takes."""


class Losses(NamedTuple):
  """How clients are queried for the loss of the global model.

  Attributes:
    computation: Maps (state, what clients are queried with) to (state, a vector
      with the loss of each of them at its index).
    parts: Maps clients and a round to the parts of what they are queried with.
    fill: Maps a part to a value that `computation` takes.
  """

  computation: tff.framework.ConcreteComputation
  parts: Callable[[np.ndarray, int], list[Any]]
  fill: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Training:
  """A federated training, ready to run.

  Attributes:
    selector: Who takes part in which round.
    process: The learning process; its state is a `server.ServerState`.
    cohort_data: What a cohort trains on.
    num_shards: How many values `process.next` is given at most, or are summed
      at a time.
    losses: How clients are queried for losses; None if the policy needs none.
    makers: What makes the shards (`train`), and those that losses are queried
      with (`losses`), on another machine; empty if clients train on datasets.
    files: Where clients' vectors are; None if in the state, or if there are
      none.
  """

  selector: selector_lib.Selector
  process: tff.learning.templates.LearningProcess
  cohort_data: CohortData
  num_shards: int
  losses: Optional[Losses] = None
  makers: Mapping[str, MakeShards] = dataclasses.field(default_factory=dict)
  files: Optional[vector_files.VectorFiles] = None

  def initialize(self) -> server_lib.ServerState:
    """Returns the state before the first round."""
    return self.process.initialize()

  def select(self, state: Any, round_num: int) -> selector_lib.Selection:
    """Returns who takes part in round t = 1, 2, ..., given the state."""
    self._check(state, round_num)

    def losses_of(clients: np.ndarray) -> np.ndarray:
      if self.losses is None:
        return selection.no_losses(clients)
      parts = self.losses.parts(clients, round_num)
      queried = [self.losses.fill(part) for part in parts]
      return np.asarray(self.losses.computation(state, queried)[1])[clients]

    return self.selector.select(
      round_num, np.asarray(state.rates), losses_of, kept_of(state.kept)
    )

  def _check(self, state: Any, round_num: Any) -> None:
    """Raises unless it is given a state of this training and a round."""
    num_clients = self.selector.p.size
    given = np.asarray(getattr(state, 'rates', None)).shape
    if given != (num_clients,):
      other = f' of {given[0]} clients' if given else ''
      raise ValueError(
        'The state must be one that training.initialize() returns, or the '
        f'first result of training.next, for {num_clients} clients, but it is '
        f'{checks.describe(state)}{other}.'
      )
    # A wrong number is for the selector to say.
    if not isinstance(round_num, (numbers.Number, np.generic, str)):
      raise ValueError(
        'The round must be its number t = 1, 2, ..., but it is '
        f'{checks.describe(round_num)}; training.next finds the data of the '
        'clients itself, and training.process.next(state, '
        'training.inputs(cohort, t)) trains a cohort of your own.'
      )

  def inputs(
    self,
    cohort: selection.Cohort,
    round_num: int,
    lost: Collection[int] = (),
    vectors: Any = (),
  ) -> list[Any]:
    """Returns what `process.next` takes for a cohort.

    Args:
      cohort: S_t and the weights.
      round_num: The round t.
      lost: Those of the cohort who deliver nothing.
      vectors: If the method keeps vectors, what `vectors_of` returns.

    Returns:
      A list with the value of each shard or client.
    """
    parts = self.cohort_data.parts(cohort, round_num, lost, vectors)
    return list(map(self.cohort_data.fill, parts))

  def next(
    self, state: Any, round_num: int
  ) -> tff.learning.templates.LearningProcessOutput:
    """Runs round t = 1, 2, ...; returns the new state and the metrics."""
    selected = self.select(state, round_num)
    vectors: Any = ()
    if self.selector.method.vectors:
      clients = selected.cohort.clients
      table = np.asarray(state.vectors.clients)
      own = self.files.read(clients, table) if self.files else table[clients]
      vectors = vectors_of(selected, own)
    state, metrics = self.process.next(
      state,
      self.inputs(selected.cohort, round_num, selected.lost, vectors),
    )
    if selected.kept:
      kept = kept_after(selected, metrics)
      state = state._replace(kept=type(state.kept)(kept))
    if self.files:
      references = written(self.files, metrics, round_num, table)
      state = state._replace(
        vectors=state.vectors._replace(clients=references)
      )
    return tff.learning.templates.LearningProcessOutput(state, metrics)


def kept_of(kept: Any) -> selection.Kept:
  """Returns what a state keeps, as the selection takes it."""
  return {name: np.asarray(value) for name, value in dict(kept).items()}


def kept_after(
  selected: selector_lib.Selection, metrics: Any
) -> selection.Kept:
  """Returns what the method keeps, given which updates did not count."""
  excluded = np.flatnonzero(metrics['selection']['excluded_clients'])
  return selected.kept_without(excluded) if excluded.size else selected.kept


def written(
  files: vector_files.VectorFiles,
  metrics: Any,
  round_num: int,
  references: np.ndarray,
) -> np.ndarray:
  """Writes the vectors that a round changed, which leave its metrics."""
  changed = metrics.pop(server_lib.CHANGED)
  clients, rows = (np.asarray(changed[name]) for name in ('clients', 'rows'))
  return files.write(clients, rows, round_num, references)


def vectors_of(
  selected: selector_lib.Selection, own: np.ndarray
) -> shards.ShardVectors:
  """Returns what a cohort has if the method keeps vectors.

  Args:
    selected: Who takes part.
    own: Their vectors, a row for each.

  Returns:
    The weights in the state sum, the places in the cohort, and the vectors.
  """
  return shards.ShardVectors(
    selected.state_weights.astype(np.float32),
    np.arange(len(own), dtype=np.int32),
    own,
  )
