"""Workers on other machines that share the work of a cohort.

The packed clients of a round are dealt into as many shares as the crew has
members at the start. A member gets the model and a share, and answers with the
sum over the share's clients; the sums are added up here. Members keep nothing
from round to round, and what a share gives does not depend on who computes it:
when a member is lost its shares go to the others, and the result is the same.

A member is lost when its connection breaks, or when it does not answer a short
question within the deadline. How long it computes does not matter.
"""

from collections.abc import Iterator, Sequence
import concurrent.futures
import contextlib
import functools
from typing import Any

from absl import logging
import grpc
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import addresses
from f3ast_tff import remote
from f3ast_tff import runtime

# An answer of any kind is a sign of life; this question has no side effects.
_QUESTION = '/tensorflow_federated.v0.ExecutorGroup/Dispose'
_SILENCE = (
  grpc.StatusCode.UNAVAILABLE,
  grpc.StatusCode.DEADLINE_EXCEEDED,
  grpc.StatusCode.CANCELLED,
)


class UnreachableError(runtime.WorkerStartError):
  """A worker of the crew cannot be reached."""


class CrewLostError(runtime.WorkerStartError):
  """Nobody of the crew is left; a new worker here would not help."""


class _LostError(Exception):
  """A member is lost."""


class _Member:
  """A worker on another machine."""

  def __init__(self, address: addresses.Address):
    self.address = address
    self._channel, self.stub = runtime.connect(str(address))
    self._ask = self._channel.unary_unary(_QUESTION)
    self._remote: Any = None
    self._loaded: dict[str, remote.Value] = {}
    self.why_lost = ''

  def check(self) -> None:
    """Does nothing: `total` tells from the error what has happened."""

  def ask(self, seconds: float) -> None:
    """Raises a `_LostError` unless it answers in time."""
    try:
      self._ask(b'', timeout=seconds)
    except grpc.RpcError as error:
      if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        raise _LostError(f'no answer in {seconds:g} s') from error
      if error.code() == grpc.StatusCode.UNIMPLEMENTED:
        raise _LostError('what listens there is no TFF worker') from error
      if error.code() in _SILENCE:
        raise _LostError(error.details()) from error

  def total(
    self, name: str, program: Any, type_: Any, weights: Any, shares: Sequence
  ) -> Iterator[Any]:
    """Yields what the computation makes of each share.

    Args:
      name: The computation's name.
      program: The computation in the form that workers take.
      type_: Its type.
      weights: The model weights.
      shares: Lists of packed arrays, all of the same length.

    Yields:
      The result of each share.
    """
    try:
      if self._remote is None:
        self._remote = remote.Remote(self, len(shares[0]))
      if name not in self._loaded:
        self._loaded[name] = self._remote.put(program, type_)
      model = self._remote.put(weights, type_.parameter[0])
      for share in shares:
        arrays = self._remote.put(share, type_.parameter[1])
        (result,) = self._remote.call(self._loaded[name], model, arrays)
        yield self._remote.get(result)
    except grpc.RpcError as error:
      # A precondition fails when it was started anew and knows us no more.
      gone = (*_SILENCE, grpc.StatusCode.FAILED_PRECONDITION)
      if error.code() in gone:
        raise _LostError(self.why_lost or error.details()) from error
      raise runtime.WorkerError(
        f'The worker {self.address} failed: {error.details()}'
      ) from error
    except ValueError as error:
      if self.why_lost:  # gRPC says so of a channel that is closed.
        raise _LostError(self.why_lost) from error
      raise

  def leave(self, seconds: float) -> None:
    """Has it drop what it keeps for us, if it answers in time."""
    if self._remote is not None:
      with contextlib.suppress(_LostError):
        self.ask(seconds)
        self._remote.close()

  def close(self) -> None:
    """Ends all that is under way."""
    self._channel.close()


def _add(one: Any, other: Any) -> Any:
  # A sum that overflows is for the server's step to judge.
  with np.errstate(over='ignore', invalid='ignore'):
    return tf.nest.map_structure(np.add, one, other)


class Crew:
  """Workers on other machines."""

  def __init__(self, members: Sequence[_Member], deadline: float):
    self._members = list(members)
    self._num_shares = len(members)
    self._deadline = deadline
    self._programs: dict[str, Any] = {}
    self._threads = concurrent.futures.ThreadPoolExecutor(len(members))

  @property
  def size(self) -> int:
    """How many workers there were at the start."""
    return self._num_shares

  def total(
    self,
    name: str,
    computation: tff.framework.ConcreteComputation,
    weights: Any,
    arrays: Sequence[np.ndarray],
  ) -> Any:
    """Returns what a computation makes of a cohort that the crew shares.

    Args:
      name: The computation's name; there is one computation of each name.
      computation: Maps (model weights at the server, packed arrays) to a tuple
        of one sum over the clients in the arrays.
      weights: The model weights.
      arrays: The packed arrays, as many for each worker.

    Returns:
      The sum over all arrays.

    Raises:
      CrewLostError: If nobody is left.
      runtime.WorkerError: If a worker fails otherwise.
    """
    if name not in self._programs:
      self._programs[name] = remote.compiled(computation)
    # Shares that fall to the same worker are still summed one by one, so that
    # the sum is the same whoever is left.
    shares = [arrays[i :: self._num_shares] for i in range(self._num_shares)]
    results: dict[int, Any] = {}
    while len(results) < len(shares):
      missing = [i for i in range(len(shares)) if i not in results]
      if not self._members:
        raise CrewLostError(
          'All workers are lost; start them again, and --resume goes on from '
          'the last checkpoint.'
        )
      hands = [missing[n :: len(self._members)] for n in range(len(missing))]
      self._play(
        name,
        computation.type_signature,
        weights,
        shares,
        [(m, hand) for m, hand in zip(self._members, hands) if hand],
        results,
      )
    return functools.reduce(_add, [results[i] for i in range(len(shares))])

  def _play(
    self,
    name: str,
    type_: tff.types.Type,
    weights: Any,
    shares: Sequence[Sequence[np.ndarray]],
    hands: Sequence[tuple[_Member, list[int]]],
    results: dict[int, Any],
  ) -> None:
    """Has each member compute its hand; fills in what comes back."""

    def compute(member: _Member, hand: list[int]) -> None:
      own = [shares[i] for i in hand]
      answers = member.total(name, self._programs[name], type_, weights, own)
      for i, answer in zip(hand, answers):
        results[i] = answer

    under_way = {
      self._threads.submit(compute, member, hand): member
      for member, hand in hands
    }
    pending = set(under_way)
    while pending:
      _, pending = concurrent.futures.wait(pending, self._deadline / 2)
      for future in pending:
        member = under_way[future]
        if member.why_lost:  # It is closed, and its thread about to end.
          continue
        try:
          member.ask(self._deadline / 2)
        except _LostError as error:
          member.why_lost = str(error)
          member.close()  # Which ends what the thread waits for.
    for future, member in under_way.items():
      try:
        future.result()
      except _LostError as error:
        self._lose(member, str(error))

  def _lose(self, member: _Member, reason: str) -> None:
    member.close()
    self._members.remove(member)
    logging.warning(
      'The worker %s is lost (%s); %d are left, which take over its clients.',
      member.address,
      reason,
      len(self._members),
    )

  def leave(self) -> None:
    """Has the workers drop what they keep for us; they may serve others."""
    for member in self._members:
      member.leave(self._deadline)

  def close(self) -> None:
    """Ends all that is under way."""
    for member in self._members:
      member.close()
    self._threads.shutdown()


@contextlib.contextmanager
def connect(
  where: Sequence[addresses.Address], deadline: float
) -> Iterator[Crew]:
  """Connects to workers for as long as the context lasts.

  Args:
    where: Their addresses; at least one.
    deadline: How many seconds a worker may keep silent before it is lost.

  Yields:
    The crew.

  Raises:
    UnreachableError: If one does not answer; it is named.
  """
  with contextlib.ExitStack() as stack:
    members = []
    for address in where:
      member = _Member(address)
      stack.callback(member.close)
      try:
        member.ask(deadline)
      except _LostError as error:
        raise UnreachableError(
          addresses.unreachable(address, str(error))
        ) from error
      members.append(member)
    crew = Crew(members, deadline)
    stack.callback(crew.close)
    yield crew
    crew.leave()
