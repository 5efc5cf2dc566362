"""TFF's execution context, and the worker process behind it.

TFF computes in a worker process. The one that TFF starts by itself outlives the
program and holds on to its output, so that `program | tee log` never ends. The
worker started here ends with the program: after a normal exit, an exception,
Ctrl-C, SIGTERM and SIGKILL alike.

The worker of TFF 0.87 listens on all network interfaces and asks for no
password: run it on trusted networks only.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import subprocess
from typing import Any, Optional

import grpc
import portpicker
import tensorflow_federated as tff

from f3ast_tff import worker_binary

_GRACE_SECONDS = 0.5
_MAX_MESSAGE_BYTES = 2_000_000_000
_CHANNEL_OPTIONS = (
  ('grpc.max_receive_message_length', _MAX_MESSAGE_BYTES),
  ('grpc.max_send_message_length', _MAX_MESSAGE_BYTES),
  ('grpc.enable_http_proxy', 0),  # A worker is on this machine, or near.
)


WorkerError = worker_binary.WorkerError
WorkerStartError = worker_binary.WorkerStartError


@dataclasses.dataclass(frozen=True)
class Worker:
  """A worker that runs.

  Attributes:
    process: Its process.
    stub: How TFF's executors talk to it.
  """

  process: subprocess.Popen
  stub: Any

  @property
  def pid(self) -> int:
    """Its process id."""
    return self.process.pid

  def check(self) -> None:
    """Raises a `WorkerError` if it is gone."""
    try:
      # A call that failed may be ahead of the news that the process ended.
      code = self.process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
      return
    raise WorkerError(
      f'The TFF worker ended with exit code {code} (-9 often means that memory '
      'ran out).'
    )


class _NoWorker(tff.framework.SyncContext):
  """The context outside of `worker`: it computes nothing."""

  def invoke(self, comp, arg):
    raise WorkerError(
      'There is no TFF worker; call TFF computations inside of '
      '`with f3ast_tff.runtime.worker():`.'
    )


# TFF's own default context would start the kind of worker that stays behind.
tff.framework.set_default_context(_NoWorker())


class _UnwatchedChannel:
  """A channel to a worker that is there, for TFF's stub.

  The stub asks gRPC to watch the channel, which gRPC does in a thread of its
  own. At the end of the program that thread fails, or even crashes the program.
  """

  def __init__(self, channel: grpc.Channel):
    self._channel = channel

  def subscribe(self, callback, try_to_connect=False):
    del try_to_connect
    callback(grpc.ChannelConnectivity.READY)

  def __getattr__(self, name: str) -> Any:
    return getattr(self._channel, name)


class _Stub(tff.framework.RemoteExecutorGrpcStub):
  """TFF's stub, for values that outlive the worker that kept them."""

  def dispose(self, request):
    # Nothing is left to drop in a worker that is gone, or a channel closed.
    with contextlib.suppress(Exception):
      super().dispose(request)


def connect(address: str) -> tuple[grpc.Channel, Any]:
  """Returns a channel to a worker, and how TFF's executors talk through it.

  Args:
    address: The worker's host:port. Nothing is sent there yet.
  """
  channel = grpc.insecure_channel(address, _CHANNEL_OPTIONS)
  return channel, _Stub(_UnwatchedChannel(channel))


def _compile(comp):
  # This is a simulation: a secure sum is computed in the clear, as in TFF's own
  # test context. TFF's native compiler knows no secure sums at all.
  comp = tff.backends.test.replace_secure_intrinsics_with_bodies(comp)
  return tff.backends.native.desugar_and_transform_to_native(comp)


@contextlib.contextmanager
def worker(
  verbose: bool = False,
  threads: Optional[int] = None,
  parallel: Optional[int] = None,
) -> Iterator[Worker]:
  """Makes TFF compute in a worker of our own as long as the context lasts.

  Call it from the main thread: the worker ends with the thread that started it.

  Args:
    verbose: Whether the worker's log goes to standard error.
    threads: How many threads one TensorFlow operation may use; None for as many
      as there are cores. One is better when clients' models are large.
    parallel: How many participants are computed at a time; None leaves it to
      TensorFlow. Operations of one hop between threads if there are more.

  Yields:
    The worker.
  """
  port = portpicker.pick_unused_port()
  process = worker_binary.start(port, verbose, threads, parallel)
  channel, stub = connect(f'localhost:{port}')
  this = Worker(process, stub)

  def executor(cardinalities):
    # TFF repeats a failed call for ever; it asks for an executor each time.
    if process.poll() is not None:
      this.check()
    cardinalities.setdefault(tff.CLIENTS, 0)
    remote = tff.framework.RemoteExecutor(stub)
    remote.set_cardinalities(cardinalities)
    return remote

  context = tff.framework.SyncExecutionContext(
    executor_fn=tff.framework.ResourceManagingExecutorFactory(executor),
    compiler_fn=_compile,
    transform_args=tff.tensorflow.transform_args,
    transform_result=tff.tensorflow.transform_result,
  )
  try:
    with tff.framework.get_context_stack().install(context):
      yield this
  finally:
    process.kill()
    process.wait()
    channel.close()
