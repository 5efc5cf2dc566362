"""A TFF context that computes in this process.

  with f3ast_tff.in_process():
    state = process.initialize()
    output = process.next(state, client_datasets)

TFF's own context sends each call to a worker process. This one runs what TFF's
compiler makes of the computation (see `executor`).
"""

from collections.abc import Callable, Iterator
import contextlib
import os
from typing import Any, Optional
import weakref

import tensorflow_federated as tff

from f3ast_tff import checks
from f3ast_tff.execution import executor as executor_lib
from f3ast_tff.execution import functions
from f3ast_tff.execution import values


class UnsupportedError(TypeError):
  """A computation that only TFF's own context can run."""


def _unsupported(why: str) -> UnsupportedError:
  return UnsupportedError(
    f'This computation cannot run in this process ({why}); call '
    "tff.backends.native.set_sync_local_cpp_execution_context() to run it in "
    "TFF's worker."
  )


def _is_at(type_: Any, placement: Any) -> bool:
  return (
    isinstance(type_, tff.types.FederatedType) and type_.placement is placement
  )


def _as_round(
  computation: tff.framework.ConcreteComputation,
) -> tff.framework.ConcreteComputation:
  """Returns a computation as a round, (state, clients) to (state, output)."""
  type_ = computation.type_signature
  parameter, result = type_.parameter, type_.result
  nothing = tff.types.FederatedType([], tff.SERVER)
  if _is_at(parameter, tff.CLIENTS) and _is_at(result, tff.SERVER):

    @tff.federated_computation(nothing, parameter)
    def of_clients(state, clients):
      return state, computation(clients)

    return of_clients
  is_pair = isinstance(parameter, tff.types.StructType) and len(parameter) == 2
  if not (
    is_pair
    and _is_at(parameter[0], tff.SERVER)
    and _is_at(parameter[1], tff.CLIENTS)
  ):
    raise _unsupported(
      'it does not map a value of the server and values of the clients to a '
      'value of the server'
    )
  if _is_at(result, tff.SERVER):

    @tff.federated_computation(parameter[0], parameter[1])
    def of_both(state, clients):
      return state, computation(state, clients)

    return of_both
  return computation


class _InProcess(tff.framework.SyncContext):
  """Computes in this process; what was compiled once is kept."""

  def __init__(self, num_threads: int):
    self._num_threads = num_threads
    self._compiled: dict[int, Callable[[Any], Any]] = {}

  def _compile(self, computation: tff.framework.ConcreteComputation) -> Any:
    """Returns a function of what `computation` takes."""
    type_ = computation.type_signature
    kind = tff.framework.serialize_computation(computation).WhichOneof(
      'computation'
    )
    if kind == 'tensorflow':
      return self._local(computation)
    try:
      if type_.parameter is None:
        initialize = executor_lib.initializer(computation)
        return lambda arg: values.pack(initialize(), type_.result)
      return self._round(computation)
    except UnsupportedError:
      raise
    except Exception as error:  # TFF's compiler raises of all kinds.
      why = str(error).strip().partition('\n')[0].rstrip('.')
      raise _unsupported(f"TFF's compiler says: {why}") from error

  def _local(self, computation: tff.framework.ConcreteComputation) -> Any:
    type_ = computation.type_signature
    parameter = type_.parameter
    graph = functions.read(computation)
    specs = [] if parameter is None else values.specs(parameter)
    function = functions.function(graph, specs, [graph])

    def call(arg: Any) -> Any:
      leaves = [] if parameter is None else values.flatten(arg, parameter)
      return values.pack(function(*leaves), type_.result)

    return call

  def _round(self, computation: tff.framework.ConcreteComputation) -> Any:
    type_ = computation.type_signature
    as_round = _as_round(computation)
    executor = executor_lib.Executor(as_round, self._num_threads)
    has_state = not _is_at(type_.parameter, tff.CLIENTS)
    is_round = as_round is computation

    def call(arg: Any) -> Any:
      state, clients = arg if has_state else ((), arg)
      if not isinstance(clients, (list, tuple)):
        raise TypeError(
          'The values of clients must be a list with one for each, but they '
          f'are {checks.describe(clients)}.'
        )
      leaves = values.flatten(state, executor.state_type)
      start = executor.start(executor.state(leaves), executor.load(clients))
      after, output = start()
      if is_round:
        return values.pack([*after.leaves, *output], type_.result)
      return values.pack(output, type_.result)

    return call

  def invoke(self, comp: Any, arg: Any) -> Any:
    """Calls a computation."""
    # By its place, because to hash a computation is to serialize it.
    place = id(comp)
    if place not in self._compiled:
      self._compiled[place] = self._compile(comp)
      weakref.finalize(comp, self._compiled.pop, place, None)
    return self._compiled[place](arg)


def _threads(number: Optional[int]) -> int:
  if number is None:
    return len(os.sched_getaffinity(0))
  if not checks.is_whole(number, 1):
    raise ValueError(
      'num_threads must be a whole number >= 1 or None, but it is '
      f'{checks.describe(number)}.'
    )
  return number


def set_in_process(num_threads: Optional[int] = None) -> None:
  """Makes TFF compute in this process from now on.

  Args:
    num_threads: How many clients are computed at a time; None for as many as
      there are cores. Sums are rounded differently with another number.
  """
  tff.framework.set_default_context(_InProcess(_threads(num_threads)))


@contextlib.contextmanager
def in_process(num_threads: Optional[int] = None) -> Iterator[None]:
  """Makes TFF compute in this process as long as the context lasts.

  Args:
    num_threads: As in `set_in_process`.

  Yields:
    Nothing.
  """
  context = _InProcess(_threads(num_threads))
  with tff.framework.get_context_stack().install(context):
    yield
