"""What can fail in a call of a worker: the worker, or what it computes.

A worker that is lost is replaced, and the round repeated. A computation that
fails would fail again: there the question is which client's data it is about.
"""

from collections.abc import Callable
from typing import Any

import grpc

from f3ast_tff import runtime

# How the worker here and those of a crew tell that something has failed.
FAILURES = (grpc.RpcError, runtime.WorkerError)


def is_of_the_computation(error: Exception) -> bool:
  """Returns whether the worker is well, and what it computes has failed."""
  cause = error.__cause__ if isinstance(error, runtime.WorkerError) else error
  code = cause.code() if isinstance(cause, grpc.Call) else None
  return code in (
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.RESOURCE_EXHAUSTED,  # A message too long for gRPC, e.g.
    grpc.StatusCode.UNKNOWN,
  )


def unless_it_fails(call: Callable[..., Any], *arguments: Any) -> Any:
  """Returns what a call returns; None if what it computes fails."""
  try:
    return call(*arguments)
  except FAILURES as error:
    if not is_of_the_computation(error):
      raise
    return None


def details_of(error: Exception) -> str:
  """Returns the first line of what is said about a failure."""
  details = error.details() if isinstance(error, grpc.Call) else str(error)
  return (details or '').partition('\n')[0]
