"""The connection of this process to a Ray cluster."""

import atexit
from collections.abc import Iterator, Mapping
import contextlib
import importlib.util
import os
import queue
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from typing import Any, Optional

from f3ast_tff.execution.cluster import cleanup

_LOST_SECONDS = 5.0  # How long the head node may be away.
_QUIET = {
  'RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO': '0',
  'RAY_BACKEND_LOG_LEVEL': 'fatal',
  'RAY_enable_metrics_collection': '0',
  'RAY_USAGE_STATS_ENABLED': '0',
}


class UsageError(ValueError):
  """There is no such cluster."""


class ClusterError(RuntimeError):
  """The cluster is gone."""


def check(where: str) -> Optional[int]:
  """Returns how many workers a local cluster has, None for another one.

  Args:
    where: `auto` for the cluster of this environment, `local:N` for N workers
      on this machine.

  Raises:
    UsageError: If it is something else, or Ray is not installed.
  """
  kind, _, number = where.partition(':')
  is_local = kind == 'local' and number.isdecimal() and int(number) > 0
  if not is_local and where != 'auto':
    raise UsageError(
      'cluster must be auto (the Ray cluster of this environment) or local:N '
      f'(N workers on this machine), but it is {where!r}.'
    )
  if importlib.util.find_spec('ray') is None:
    raise UsageError(
      'A cluster needs Ray, which is not installed; run "make setup", or '
      '"pip install ray==2.52.1".'
    )
  return int(number) if is_local else None


def connect(where: str) -> Any:
  """Connects this process to a cluster.

  Args:
    where: As for `check`.

  Returns:
    The module `ray`.
  """
  num_local = check(where)
  # No messages about accelerators, metrics and the like: what matters to the
  # run, the run says.
  for name, value in _QUIET.items():
    os.environ.setdefault(name, value)
  arguments: dict[str, Any] = {}
  if num_local is not None:
    # Nobody else can talk to what is started here: it listens on this machine
    # only, and wants a token. Ray takes no second one in a process, so that one
    # which is there is kept.
    os.environ['RAY_AUTH_MODE'] = 'token'
    os.environ.setdefault('RAY_AUTH_TOKEN', secrets.token_hex(32))
    # Not where a run has its own, which may be too long a path for sockets.
    folder = tempfile.mkdtemp(
      prefix='f3ast-', dir=os.environ.get('TMPDIR', '/tmp')
    )
    # Before Ray is imported, so that Ray's own end comes first.
    atexit.register(cleanup.start(folder).communicate)
    arguments = {
      'address': 'local',
      'num_cpus': num_local,
      'include_dashboard': False,
      '_node_ip_address': '127.0.0.1',
      '_temp_dir': folder,
    }
  import ray

  on_sigterm = signal.getsignal(signal.SIGTERM)
  try:
    if num_local is None:
      from ray._private import services

      # Ray would take minutes to find that nobody is there, for example where
      # the last cluster was not stopped but killed.
      arguments['address'] = services.canonicalize_bootstrap_address_or_die(
        'auto'
      )
      _reach(arguments['address'])
    with _without_standard_error():
      ray.init(log_to_driver=False, logging_level='ERROR', **arguments)
  except (OSError, RuntimeError, ValueError) as error:
    why = ' '.join(str(error).split()) or 'does it want a token?'
    raise UsageError(
      f'There is no Ray cluster to connect to ({why}); start one with "ray '
      'start --head", set RAY_ADDRESS, or try --cluster=local:2.'
    ) from error
  if threading.current_thread() is threading.main_thread():
    # Ray's handler prints the stack and takes seconds to end.
    signal.signal(signal.SIGTERM, on_sigterm or signal.SIG_DFL)
  # Ray prints the log of every process that dies; we say it in one line.
  ray._private.worker.print_to_stdstream = lambda *_, **__: None
  return ray


@contextlib.contextmanager
def _without_standard_error() -> Iterator[None]:
  """Throws away what Ray's core prints of itself when it starts."""
  sys.stderr.flush()
  kept = os.dup(2)
  try:
    with open(os.devnull, 'wb') as nowhere:
      os.dup2(nowhere.fileno(), 2)
    yield
  finally:
    os.dup2(kept, 2)
    os.close(kept)


def _reach(address: str) -> None:
  """Returns if somebody listens at an address, else raises OSError."""
  host, _, port = address.rpartition(':')
  try:
    socket.create_connection((host.strip('[]'), int(port)), 2.0).close()
  except OSError as error:
    error.filename = address  # It becomes part of the error.
    raise


def own_node(ray: Any) -> socket.socket:
  """Returns a connection to this machine's node, which ends when that does."""
  node = socket.socket(socket.AF_UNIX)
  node.connect(ray._private.worker.global_worker.node.raylet_socket_name)
  node.setblocking(False)
  return node


def check_own_node(node: socket.socket) -> None:
  """Raises ClusterError if this machine's node is gone."""
  # Ray would end this process without a word as soon as it needs the node.
  try:
    node.recv(1)  # Nothing ever comes but the end.
  except BlockingIOError:
    return
  except OSError:
    pass
  raise ClusterError('The Ray node of this machine is gone.')


def nodes(ray: Any) -> list[Mapping[str, Any]]:
  """Returns the nodes that can compute.

  Raises:
    ClusterError: If the cluster does not answer.
  """
  # Ray itself would wait for a minute, and then end this process. So another
  # thread asks, and this one looks meanwhile whether somebody listens.
  address = ray.get_runtime_context().gcs_address
  answer: queue.SimpleQueue = queue.SimpleQueue()
  threading.Thread(target=lambda: answer.put(ray.nodes()), daemon=True).start()
  reached = time.monotonic()
  while True:
    try:
      found = answer.get(timeout=0.2)
      break
    except queue.Empty:
      pass
    try:
      _reach(address)
      reached = time.monotonic()
    except OSError as error:
      if time.monotonic() > reached + _LOST_SECONDS:
        raise ClusterError(
          f'The Ray cluster at {address} is gone ({error.strerror or error}).'
        ) from error
  return [
    node
    for node in found
    if node['Alive'] and node['Resources'].get('CPU', 0) >= 1
  ]
