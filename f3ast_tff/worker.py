"""Lends this machine to experiments that run elsewhere.

  python -m f3ast_tff.worker --port=7000
  python -m f3ast_tff.worker --port=7000 --host=10.0.0.2

starts a TFF worker for `--workers=10.0.0.2:7000` of an experiment. Whoever can
connect to it can make it run any TensorFlow program: it is for networks that
you trust. By default only this machine can connect, e.g. through ssh.

TFF's worker itself always listens on all interfaces. So it gets a network of
its own, with nothing in it but the worker, and this program passes bytes on
from the one address that was asked for. Linux has to allow that (root may do
it, and most systems let everybody); where it does not, `--host=0.0.0.0` starts
the worker without it. Standard library only.
"""

import argparse
from collections.abc import Sequence
import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from typing import NoReturn, Optional

from f3ast_tff import addresses
from f3ast_tff import worker_binary

_ALL_INTERFACES = ('0.0.0.0', '::')
_LOOPBACK = '127.0.0.1'
_INNER_PORT = 10000  # Nobody else is in the worker's network.
_CHUNK_BYTES = 1 << 20

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_INTERFACE = '16sH14x'


def isolate() -> None:
  """Gives this process a network of its own, in which only loopback is.

  Sockets that are open already stay where they are. Call it before there are
  threads.

  Raises:
    OSError: If Linux does not allow it.
  """
  libc = ctypes.CDLL(None, use_errno=True)
  for flags in (_CLONE_NEWNET, _CLONE_NEWUSER | _CLONE_NEWNET):
    if libc.unshare(flags) == 0:
      break
  else:
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code))
  with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    asked = struct.pack(_INTERFACE, b'lo', 0)
    answer = fcntl.ioctl(control, _SIOCGIFFLAGS, asked)
    name, flags = struct.unpack(_INTERFACE, answer)
    upped = struct.pack(_INTERFACE, name, flags | _IFF_UP)
    fcntl.ioctl(control, _SIOCSIFFLAGS, upped)


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
  """Passes bytes on until one side ends."""
  buffer = memoryview(bytearray(_CHUNK_BYTES))
  with contextlib.suppress(OSError):
    while count := source.recv_into(buffer):
      sink.sendall(buffer[:count])
  for end, how in ((sink, socket.SHUT_WR), (source, socket.SHUT_RD)):
    with contextlib.suppress(OSError):
      end.shutdown(how)


def _serve_connection(outer: socket.socket, port: int) -> None:
  """Passes bytes between a driver and the worker, both ways."""
  with outer, contextlib.suppress(OSError):
    with socket.create_connection((_LOOPBACK, port)) as inner:
      for end in (outer, inner):
        # gRPC knows when it has written enough; waiting for more is in vain.
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
      back = threading.Thread(target=_pass_on, args=(inner, outer), daemon=True)
      back.start()
      _pass_on(outer, inner)
      back.join()


def relay(listener: socket.socket, port: int) -> None:
  """Passes every connection on to a port of this network, for ever.

  Args:
    listener: Where connections arrive.
    port: The worker's.
  """
  while True:
    try:
      outer, _ = listener.accept()
    except OSError as error:
      if error.errno in (errno.EBADF, errno.EINVAL):  # It was closed.
        return
      continue
    threading.Thread(
      target=_serve_connection, args=(outer, port), daemon=True
    ).start()


def _listen(host: str, port: int) -> socket.socket:
  family, _, _, _, address = socket.getaddrinfo(
    host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
  )[0]
  listener = socket.socket(family, socket.SOCK_STREAM)
  listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
  listener.bind(address)
  listener.listen()
  return listener


def _fail(message: str) -> NoReturn:
  print(f'error: {message}', file=sys.stderr)
  sys.exit(2)


def _start(
  arguments: argparse.Namespace,
) -> tuple[subprocess.Popen, addresses.Address]:
  """Starts the worker and returns it, with the address where it is reached."""
  parallel = arguments.parallel_clients or len(os.sched_getaffinity(0))
  threads = max(1, len(os.sched_getaffinity(0)) // parallel)
  settings = arguments.verbosity > 0, threads, parallel
  try:
    listener = _listen(arguments.host, arguments.port)
  except (OSError, UnicodeError) as error:  # The latter of host names.
    asked = addresses.Address(arguments.host, arguments.port)
    reason = getattr(error, 'strerror', None) or error
    _fail(f'cannot listen at {asked} ({reason}).')
  host, port = listener.getsockname()[:2]
  if host in _ALL_INTERFACES:
    listener.close()  # The worker can do that itself.
    process = worker_binary.start(port, *settings)
    return process, addresses.Address(socket.gethostname(), port)
  try:
    isolate()
  except OSError as error:
    _fail(
      f'this machine does not allow a network namespace ({error.strerror}), '
      'without which the worker would listen on all interfaces; if the network '
      'is to be trusted, give --host=0.0.0.0.'
    )
  process = worker_binary.start(_INNER_PORT, *settings)
  threading.Thread(
    target=relay, args=(listener, _INNER_PORT), daemon=True
  ).start()
  return process, addresses.Address(host, port)


def _parse(argv: Optional[Sequence[str]]) -> argparse.Namespace:
  def at_least_0(text: str) -> int:
    if int(text) < 0:
      raise ValueError
    return int(text)

  def port(text: str) -> int:
    if int(text) not in range(2**16):
      raise ValueError
    return int(text)

  parser = argparse.ArgumentParser(
    prog='python -m f3ast_tff.worker',
    description='Lends this machine to experiments that run elsewhere.',
  )
  add = parser.add_argument
  add('--port', type=port, required=True, help='0 for any that is free.')
  add(
    '--host',
    default=_LOOPBACK,
    help='The address of this machine to listen at; 0.0.0.0 for all. By '
    'default %(default)s: only this machine can connect.',
  )
  add(
    '--parallel_clients',
    type=at_least_0,
    default=0,
    help='How many clients train at a time, as in the experiments; 0 for as '
    'many as there are cores.',
  )
  add('--verbosity', type=int, default=0, help="1 shows the worker's log.")
  return parser.parse_args(argv)


def main(argv: Optional[Sequence[str]] = None) -> None:
  """Runs until the worker ends, or until told to end."""
  # Python then leaves through `finally`, also when Slurm or systemd asks.
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
  try:
    process, address = _start(_parse(argv))
  except worker_binary.WorkerError as error:
    _fail(str(error))
  except KeyboardInterrupt:
    sys.exit(130)
  try:
    print(
      'WARNING: whoever can connect to it can run any TensorFlow program here, '
      'and read and write your files with it. There is no password, and '
      'nothing is encrypted. Use it on a network that you TRUST, or through '
      'ssh: see docs/distributed.md.',
      file=sys.stderr,
      flush=True,
    )
    print(f'The TFF worker listens at {address}.', flush=True)
    code = process.wait()
    print(
      f'error: The TFF worker ended with exit code {code} (-9 often means that '
      'memory ran out).',
      file=sys.stderr,
    )
    sys.exit(1)
  except KeyboardInterrupt:
    sys.exit(130)
  finally:
    process.kill()


if __name__ == '__main__':
  main()
