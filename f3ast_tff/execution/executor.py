"""Runs the rounds of a federated computation in this process.

TFF's compiler splits a round, which maps (state, clients) to (state, output),
into TensorFlow functions (`tff.backends.mapreduce.MapReduceForm`). Here they
make up two: `add`, called for each client, and `finish`, called once.

  add:     partial = accumulate(partial, work(client, broadcast))
  finish:  state, output = update(state, report(merge(partials)))
           broadcast = prepare(state), for the next round

Clients are dealt to a fixed number of threads, and partial sums are merged in
the order of the threads: the result depends on that number and on nothing else.
"""

from collections.abc import Callable, Sequence
from concurrent import futures
import threading
from typing import Any, NamedTuple

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


class _Add(NamedTuple):
  """What a thread calls for its first client, and for each later one."""

  first: _Function
  later: _Function
  has_variables: bool


class Executor:
  """A round, ready to run.

  Attributes:
    state_type: The type of the state.
    client_type: The type of what a client brings.
    output_type: The type of the output.
  """

  def __init__(
    self, computation: tff.framework.ConcreteComputation, num_threads: int
  ):
    """Compiles a round.

    Args:
      computation: Maps (state at the server, values at the clients) to (state
        at the server, output at the server).
      num_threads: How many clients are computed at a time.
    """
    form = _compiled(computation)
    type_ = computation.type_signature
    self.state_type = type_.parameter[0].member
    self.client_type = type_.parameter[1].member
    self.output_type = type_.result[1].member
    self._num_threads = num_threads
    self._threads = futures.ThreadPoolExecutor(num_threads)
    self._state_specs = values.specs(self.state_type)
    zero, prepare = functions.read(form.zero), functions.read(form.prepare)
    self._zero = functions.function(zero, [], [zero])()
    self._partial_specs = list(map(tf.TensorSpec.from_tensor, self._zero))
    self._prepare = functions.function(prepare, self._state_specs, [prepare])
    self._finish = self._build_finish(form, prepare)
    add = self._build_add(form)
    # Variables belong to one thread, all else may be shared.
    self._add = [add] + [
      self._build_add(form) if add.has_variables else add
      for _ in range(num_threads - 1)
    ]

  def _build_add(self, form: tff.backends.mapreduce.MapReduceForm) -> _Add:
    work, accumulate = map(functions.read, (form.work, form.accumulate))
    specs = values.specs(form.work.type_signature.parameter)

    def add(*arguments: tf.Tensor) -> functions.Leaves:
      for_work, partial = arguments[: len(specs)], arguments[len(specs) :]
      return accumulate(*(partial or self._zero), *work(*for_work))

    graphs = (work, accumulate)
    first = functions.function(add, specs, graphs)
    traced: list[_Function] = []

    def later(*arguments: tf.Tensor) -> functions.Leaves:
      if not traced:  # Only where there are more clients than threads.
        traced.append(
          functions.function(add, [*specs, *self._partial_specs], graphs)
        )
      return traced[0](*arguments)

    return _Add(first, later, any(graph.initialize for graph in graphs))

  def _build_finish(
    self,
    form: tff.backends.mapreduce.MapReduceForm,
    prepare: functions.Graph,
  ) -> _Function:
    merge, report, update = map(
      functions.read, (form.merge, form.report, form.update)
    )
    num_state, width = len(self._state_specs), len(self._partial_specs)

    def finish(*arguments: tf.Tensor) -> functions.Leaves:
      state, partials = arguments[:num_state], arguments[num_state:]
      total: functions.Leaves = partials[:width]
      for at in range(width, len(partials), width) if width else ():
        total = merge(*total, *partials[at : at + width])
      result = update(*state, *report(*total))
      return [*result, *prepare(*result[:num_state])]

    specs = [*self._state_specs, *(self._num_threads * self._partial_specs)]
    return functions.function(finish, specs, (merge, report, update, prepare))

  def state(self, leaves: functions.Leaves) -> State:
    """Returns the state that is made of some tensors, or arrays for them."""
    leaves = [tf.convert_to_tensor(leaf) for leaf in leaves]
    return State(leaves, self._prepare(*leaves))

  def load(self, clients: Sequence[Any]) -> list[functions.Leaves]:
    """Returns the tensors of what each client brings."""
    return [values.flatten(client, self.client_type) for client in clients]

  def _partial(
    self,
    thread: int,
    state: State,
    clients: Sequence[functions.Leaves],
    is_running: threading.Event,
  ) -> functions.Leaves:
    """Returns the sum over a thread's clients."""
    is_running.set()
    partial = self._zero
    for place, client in enumerate(clients):
      arguments = *client, *state.broadcast
      if place == 0:
        partial = self._add[thread].first(*arguments)
      else:
        partial = self._add[thread].later(*arguments, *partial)
    return partial

  def start(
    self, state: State, clients: Sequence[functions.Leaves]
  ) -> Callable[[], tuple[State, functions.Leaves]]:
    """Starts a round.

    Args:
      state: The state before it.
      clients: What each client brings, from `load`.

    Returns:
      A function that waits for the end of the round and returns the state after
      it and the tensors of its output.
    """
    events = [threading.Event() for _ in range(self._num_threads)]
    running = [
      self._threads.submit(
        self._partial,
        thread,
        state,
        clients[thread :: self._num_threads],
        is_running,
      )
      for thread, is_running in enumerate(events)
    ]
    # Else a caller with work of its own would keep Python's lock for itself
    # before the threads have got to TensorFlow, which does not need it.
    for is_running in events:
      is_running.wait()

    def result() -> tuple[State, functions.Leaves]:
      # All, even if one fails: the next round needs the variables of each.
      futures.wait(running)
      partials = [leaf for one in running for leaf in one.result()]
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
