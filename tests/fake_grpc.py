"""Errors as gRPC raises them, without a connection."""

import grpc


class Error(grpc.RpcError, grpc.Call):
  """A call that failed with a status code."""

  def __init__(self, code, details=''):
    super().__init__()
    self._code, self._details = code, details

  def code(self):
    return self._code

  def details(self):
    return self._details


# The rest of a call is never used.
for _name in Error.__abstractmethods__:
  setattr(Error, _name, None)
Error.__abstractmethods__ = frozenset()
