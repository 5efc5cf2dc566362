"""Runs the rounds of a federated computation.

TFF's compiler splits a round, which maps (state, clients) to (state, output),
into TensorFlow functions (`tff.backends.mapreduce.MapReduceForm`). Here they
make up two: `add`, called for each client, and `finish`, called once.

  add:     partial = accumulate(partial, work(client, broadcast))
  finish:  state, output = update(state, report(merge(partials)))
           broadcast = prepare(state), for the next round

What clients do runs in threads of this process, or elsewhere (`cluster`). The
number of partial sums is fixed, and they are merged in their order: the result
depends on that number and not on where clients train.
"""

from collections.abc import Callable, Sequence
from concurrent import futures
import functools
import threading
from typing import Any, NamedTuple, Optional, Protocol

import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff.execution import functions
from f3ast_tff.execution import values

_Function = Callable[..., functions.Leaves]


class State(NamedTuple):
  """The state of the server between rounds.

  Attributes:
    leaves: Its tensors.
    broadcast: What clients get of it.
  """

  leaves: functions.Leaves
  broadcast: functions.Leaves


def _compiled(
  computation: tff.framework.ConcreteComputation,
) -> tff.backends.mapreduce.MapReduceForm:
  """Returns what TFF's compiler makes of a round."""
  compile_ = tff.backends.mapreduce.get_map_reduce_form_for_computation
  form = compile_(computation, functions.AS_IT_IS)
  if form.securely_aggregates_tensors:
    # This is a simulation: secure sums are computed in the clear, as in TFF's
    # own test context.
    in_the_clear = tff.backends.test.replace_secure_intrinsics_with_bodies
    form = compile_(in_the_clear(computation), functions.AS_IT_IS)
  return form


class Work:
  """What clients do in a round; can be sent to another process.

  Attributes:
    client_type: The type of the value of a client.
    parts: TFF's computations of it: `work`, `accumulate` and `zero`.
  """

  def __init__(self, *parts: tff.framework.ConcreteComputation):
    self.parts = parts
    self.client_type = parts[0].type_signature.parameter[0]

  def __reduce__(self) -> tuple[Any, ...]:
    serialize = tff.framework.serialize_computation
    return _read_work, tuple(map(serialize, self.parts))


def _read_work(*serialized: Any) -> Work:
  """Returns what clients do from its parts as they are sent."""
  return Work(*map(tff.framework.deserialize_computation, serialized))


class Adder:
  """What clients do, ready to run.

  Attributes:
    zero: The sum over no clients.
    has_variables: Whether it belongs to one thread at a time.
  """

  def __init__(self, work: Work):
    self._graphs = list(map(functions.read, work.parts[:2]))
    self._specs = values.specs(work.parts[0].type_signature.parameter)
    zero = functions.read(work.parts[2])
    self.zero = functions.function(zero, [], [zero])()
    self.has_variables = any(graph.initialize for graph in self._graphs)
    self._first = functions.function(self._add, self._specs, self._graphs)

  def _add(self, *arguments: tf.Tensor) -> functions.Leaves:
    work, accumulate = self._graphs
    end = len(self._specs)
    partial = arguments[end:] or self.zero
    return accumulate(*partial, *work(*arguments[:end]))

  @functools.cached_property
  def _later(self) -> _Function:  # Few have more than one client.
    specs = [*self._specs, *map(tf.TensorSpec.from_tensor, self.zero)]
    return functions.function(self._add, specs, self._graphs)

  def __call__(
    self, broadcast: functions.Leaves, clients: Sequence[functions.Leaves]
  ) -> functions.Leaves:
    """Returns the sum over some clients."""
    if not clients:
      return self.zero
    partial = self._first(*clients[0], *broadcast)
    for client in clients[1:]:
      partial = self._later(*client, *broadcast, *partial)
    return partial


def adders(work: Work, number: int) -> list[Adder]:
  """Returns what some threads of this process call, each its own."""
  first = Adder(work)
  # Variables belong to one thread, all else may be shared.
  return [first] + [
    Adder(work) if first.has_variables else first for _ in range(number - 1)
  ]


class Runner(Protocol):
  """Where clients train."""

  def load(self, clients: Sequence[Any]) -> Sequence[Any]:
    """Returns what `start` takes for the values of clients."""

  def start(
    self, broadcast: functions.Leaves, clients: Sequence[Any]
  ) -> Callable[[], list[functions.Leaves]]:
    """Starts clients' work; returns what waits for the partial sums."""


class Threads:
  """Trains clients in threads of this process."""

  def __init__(
    self,
    work: Work,
    number: int,
    fill: Callable[[Any], Any] = lambda client: client,
  ):
    """Compiles what clients do.

    Args:
      work: What they do.
      number: How many threads.
      fill: Maps what `load` is given for a client to its value.
    """
    self._client_type = work.client_type
    self._fill = fill
    self._adders = adders(work, number)
    self._pool = futures.ThreadPoolExecutor(number)

  def load(self, clients: Sequence[Any]) -> list[functions.Leaves]:
    """Returns the tensors of each client's value."""
    return [
      values.flatten(self._fill(client), self._client_type)
      for client in clients
    ]

  def start(
    self, broadcast: functions.Leaves, clients: Sequence[functions.Leaves]
  ) -> Callable[[], list[functions.Leaves]]:
    """Starts the work of clients; each thread has a fixed share of them."""
    number = len(self._adders)

    def add(
      thread: int, adder: Adder, is_running: threading.Event
    ) -> functions.Leaves:
      is_running.set()
      return adder(broadcast, clients[thread::number])

    events = [threading.Event() for _ in self._adders]
    running = [
      self._pool.submit(add, thread, adder, is_running)
      for thread, (adder, is_running) in enumerate(zip(self._adders, events))
    ]
    # Else a caller with work of its own would keep Python's lock for itself
    # before the threads have got to TensorFlow, which does not need it.
    for is_running in events:
      is_running.wait()

    def wait() -> list[functions.Leaves]:
      # All, even if one fails: the next round needs the variables of each.
      futures.wait(running)
      return [one.result() for one in running]

    return wait


class Executor:
  """A round, ready to run.

  Attributes:
    state_type: The type of the state.
    output_type: The type of the output.
  """

  def __init__(
    self,
    computation: tff.framework.ConcreteComputation,
    num_partials: int,
    runner: Optional[Callable[[Work], Runner]] = None,
  ):
    """Compiles a round.

    Args:
      computation: Maps (state at the server, values at the clients) to (state
        at the server, output at the server).
      num_partials: Of how many partial sums the sum over clients is made.
      runner: Maps what clients do to what runs it and returns so many partial
        sums; None for as many threads of this process.
    """
    form = _compiled(computation)
    type_ = computation.type_signature
    self.state_type = type_.parameter[0].member
    self.output_type = type_.result[1].member
    self._state_specs = values.specs(self.state_type)
    prepare = functions.read(form.prepare)
    self._prepare = functions.function(prepare, self._state_specs, [prepare])
    self._finish = self._build_finish(form, prepare, num_partials)
    work = Work(form.work, form.accumulate, form.zero)
    self._runner = runner(work) if runner else Threads(work, num_partials)

  def _build_finish(
    self,
    form: tff.backends.mapreduce.MapReduceForm,
    prepare: functions.Graph,
    num_partials: int,
  ) -> _Function:
    merge, report, update = map(
      functions.read, (form.merge, form.report, form.update)
    )
    partial_specs = values.specs(form.zero.type_signature.result)
    num_state, width = len(self._state_specs), len(partial_specs)

    def finish(*arguments: tf.Tensor) -> functions.Leaves:
      state, partials = arguments[:num_state], arguments[num_state:]
      total: functions.Leaves = partials[:width]
      for at in range(width, len(partials), width) if width else ():
        total = merge(*total, *partials[at : at + width])
      result = update(*state, *report(*total))
      return [*result, *prepare(*result[:num_state])]

    specs = [*self._state_specs, *(num_partials * partial_specs)]
    return functions.function(finish, specs, (merge, report, update, prepare))

  def state(self, leaves: functions.Leaves) -> State:
    """Returns the state that is made of some tensors, or arrays for them."""
    leaves = [tf.convert_to_tensor(leaf) for leaf in leaves]
    return State(leaves, self._prepare(*leaves))

  def load(self, clients: Sequence[Any]) -> Sequence[Any]:
    """Returns what `start` takes for the values of clients."""
    return self._runner.load(clients)

  def start(
    self, state: State, clients: Sequence[Any]
  ) -> Callable[[], tuple[State, functions.Leaves]]:
    """Starts a round.

    Args:
      state: The state before it.
      clients: The value of each client, from `load`.

    Returns:
      A function that waits for the end of the round and returns the state after
      it and the tensors of its output.
    """
    wait = self._runner.start(state.broadcast, clients)

    def result() -> tuple[State, functions.Leaves]:
      partials = [leaf for partial in wait() for leaf in partial]
      after = self._finish(*state.leaves, *partials)
      first, end = (
        len(self._state_specs), len(after) - len(state.broadcast)
      )
      return State(after[:first], after[end:]), after[first:end]

    return result


def initializer(computation: tff.framework.ConcreteComputation) -> _Function:
  """Returns a function of what a process starts with."""
  graph = functions.read(
    tff.backends.mapreduce.get_state_initialization_computation(
      computation, functions.AS_IT_IS
    )
  )
  return functions.function(graph, [], [graph])
