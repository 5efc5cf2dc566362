"""Stand-ins for machines: workers in network namespaces of this one.

A namespace has network interfaces, addresses and ports of its own, and a cable
(a veth pair) to this machine: what crosses it crosses a network as far as both
sides can tell. Making one takes root, and `ip`.
"""

from collections.abc import Iterator, Sequence
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from typing import NamedTuple, Optional

import psutil

from f3ast_tff import addresses

LOOPBACK = '127.0.0.1'


class Namespace(NamedTuple):
  """A network namespace.

  Attributes:
    name: Its name; '' for this machine itself.
    host: The address under which this machine reaches it.
    cable: The interface of this machine that leads there.
  """

  name: str
  host: str
  cable: str

  def bytes_through(self) -> tuple[int, int]:
    """Returns how many bytes went there and came back so far."""
    folder = pathlib.Path('/sys/class/net') / self.cable / 'statistics'
    sent, received = (
      int((folder / f'{way}_bytes').read_text()) for way in ('tx', 'rx')
    )
    return sent, received


HERE = Namespace('', LOOPBACK, 'lo')


def _ip(*arguments: str) -> None:
  subprocess.run(['ip', *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def namespaces(count: int) -> Iterator[list[Namespace]]:
  """Makes namespaces for as long as the context lasts.

  Args:
    count: How many.

  Yields:
    The namespaces.

  Raises:
    OSError: If this machine does not allow it.
  """
  with contextlib.ExitStack() as stack:
    made = []
    for i in range(count):
      name = f'f3ast{os.getpid() % 10**6}x{i}'
      # Addresses for private use that hardly anybody uses; a net of two each.
      net = f'10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}'
      here, there = f'{net}.{4 * i + 1}', f'{net}.{4 * i + 2}'
      inner = f'{name}i'
      try:
        _ip('netns', 'add', name)
        # The cable goes with the namespace.
        stack.callback(_ip, 'netns', 'del', name)
        _ip('link', 'add', name, 'type', 'veth', 'peer', 'name', inner)
        stack.callback(_ip, 'link', 'del', name)
        _ip('link', 'set', inner, 'netns', name)
        _ip('address', 'add', f'{here}/30', 'dev', name)
        _ip('link', 'set', name, 'up')
        for command in (
          ('address', 'add', f'{there}/30', 'dev', inner),
          ('link', 'set', inner, 'up'),
          ('link', 'set', 'lo', 'up'),
        ):
          _ip('-netns', name, *command)
      except (OSError, subprocess.CalledProcessError) as error:
        raise OSError(f'no network namespaces here: {error}') from error
      made.append(Namespace(name, there, name))
    yield made


class Machine(NamedTuple):
  """A worker that was started as on a machine of its own.

  Attributes:
    process: The process of `f3ast_tff.worker`.
    address: Where it is reached.
  """

  process: subprocess.Popen
  address: addresses.Address

  def family(self) -> list[psutil.Process]:
    """Returns its processes."""
    this = psutil.Process(self.process.pid)
    return [this, *this.children(recursive=True)]

  def freeze(self) -> None:
    """Makes it hang, as a machine does that swaps or is cut off."""
    for process in self.family():
      process.send_signal(signal.SIGSTOP)

  def kill(self) -> None:
    """Ends it without notice."""
    for process in reversed(self.family()):
      process.kill()
    self.process.wait()


def _begin(cores: Optional[Sequence[int]]) -> None:
  """Prepares the process that is to be a worker."""
  # A shell's background jobs ignore it, and so would their children.
  signal.signal(signal.SIGINT, signal.SIG_DFL)
  if cores is not None:
    os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def worker(
  where: Namespace = HERE,
  cores: Optional[Sequence[int]] = None,
  *arguments: str,
) -> Iterator[Machine]:
  """Runs a worker for as long as the context lasts.

  Args:
    where: Its network.
    cores: The cores that it may use; None for all.
    *arguments: More arguments of `f3ast_tff.worker`.

  Yields:
    The machine.
  """
  enter = ['ip', 'netns', 'exec', where.name] if where.name else []
  process = subprocess.Popen(
    [
      *enter,
      sys.executable,
      '-m',
      'f3ast_tff.worker',
      '--port=0',
      f'--host={where.host}',
      *arguments,
    ],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    preexec_fn=lambda: _begin(cores),
  )
  try:
    assert process.stdout is not None and process.stderr is not None
    line = process.stdout.readline()
    if not line:
      raise OSError(f'no worker: {process.stderr.read().strip()}')
    (address,) = addresses.parse(line.split()[-1].rstrip('.'))
    yield Machine(process, address)
  finally:
    process.kill()
    process.communicate()
