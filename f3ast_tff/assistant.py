"""A thread for what can be done while the worker trains."""

from collections.abc import Callable
from concurrent import futures
import queue
import threading
from typing import Any


class Assistant:
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
