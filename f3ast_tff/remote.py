"""Computations and values that stay in TFF's worker from call to call.

A TFF computation that is called like a Python function is sent to the worker
with all of its arguments, and all of its result comes back, each time. For a
small model that is most of a round. Here the computation is sent once, the
server's state stays where it is, and only what is asked for comes back.
"""

import asyncio
from collections.abc import Coroutine
import threading
from typing import Any, NamedTuple, Protocol

import tensorflow_federated as tff

_DROPPED_AT_A_TIME = 4


class Worker(Protocol):
  """A worker, as in `runtime` or `crew`."""

  @property
  def stub(self) -> Any:
    """How TFF's executors talk to it."""

  def check(self) -> None:
    """Raises if it is gone."""


class Value(NamedTuple):
  """A value or a function in the worker.

  Attributes:
    reference: TFF's handle on it; it is dropped there when this is dropped.
    type_signature: Its `tff.Type`.
  """

  reference: Any
  type_signature: tff.types.Type


def compiled(computation: tff.framework.ConcreteComputation) -> Any:
  """Returns a computation in the form that workers take."""
  native = tff.backends.native.desugar_and_transform_to_native(computation)
  return tff.framework.serialize_computation(native)


class Remote:
  """What a worker keeps for us, for a fixed number of participants."""

  def __init__(self, worker: Worker, num_participants: int):
    self._worker = worker
    self._loops = threading.local()  # A loop serves one thread.
    # Few at a time are dropped, because a state can be large.
    self._executor = tff.framework.RemoteExecutor(
      worker.stub, dispose_batch_size=_DROPPED_AT_A_TIME
    )
    self._wait(self._set_participants(num_participants))

  async def _set_participants(self, count: int) -> None:
    self._executor.set_cardinalities({tff.CLIENTS: count})

  def _wait(self, coroutine: Coroutine) -> Any:
    loops = self._loops
    if not hasattr(loops, 'loop'):
      loops.loop = asyncio.new_event_loop()
    try:
      return loops.loop.run_until_complete(coroutine)
    except Exception:
      self._worker.check()  # If it is gone, that is what to tell.
      raise

  def close(self) -> None:
    """Has the worker drop all that it keeps for us."""
    self._executor.close()

  def load(self, computation: tff.framework.ConcreteComputation) -> Value:
    """Sends a computation."""
    return self.put(compiled(computation), computation.type_signature)

  def put(self, value: Any, type_signature: tff.types.Type) -> Value:
    """Sends a value."""
    reference = self._wait(self._executor.create_value(value, type_signature))
    return Value(reference, type_signature)

  def call(self, function: Value, *arguments: Value) -> tuple[Value, ...]:
    """Calls a function whose result is a tuple.

    Args:
      function: From `load`.
      *arguments: One value per parameter.

    Returns:
      The values of the result.
    """

    async def call():
      executor = self._executor
      references = [argument.reference for argument in arguments]
      argument = references[0] if references else None
      if len(references) > 1:  # TFF has no functions of several parameters.
        argument = await executor.create_struct(references)
      result = await executor.create_call(function.reference, argument)
      types = list(function.type_signature.result)
      return tuple([
        Value(await executor.create_selection(result, place), type_)
        for place, type_ in enumerate(types)
      ])

    return self._wait(call())

  def get(self, value: Value) -> Any:
    """Returns a value of the worker as Python sees it."""
    result = self._wait(value.reference.compute())
    type_signature = value.type_signature
    if isinstance(type_signature, tff.types.FederatedType):
      type_signature = type_signature.member
    return tff.types.type_to_py_container(result, type_signature)
