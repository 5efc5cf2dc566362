"""TFF's own runtime; it must give the numbers that ours gives."""

from collections.abc import Iterator
import contextlib

import psutil
import tensorflow_federated as tff


@contextlib.contextmanager
def worker() -> Iterator[None]:
  """Has TFF compute in its own worker as long as the context lasts.

  TFF lets its worker live on after the program; here it ends with the context.
  Secure sums are computed in the clear.
  """
  before = set(psutil.Process().children())
  context = tff.backends.test.create_sync_test_cpp_execution_context()
  try:
    with tff.framework.get_context_stack().install(context):
      yield
  finally:
    for process in set(psutil.Process().children()) - before:
      process.kill()  # TFF waits for it when its context is dropped.
