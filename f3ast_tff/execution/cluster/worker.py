"""What trains clients on a node of a cluster, an actor of `cluster`.

Nothing here imports TensorFlow before the environment is that of the run.
"""

from collections.abc import Callable, Mapping, Sequence
import os
import pathlib
import queue
from typing import Any, NamedTuple, Optional, Union


class Failure(NamedTuple):
  """What a shard could not be computed for."""

  message: str


class Job(NamedTuple):
  """What a worker is for; the same for all.

  Attributes:
    works: What clients do, an `executor.Work` for each name.
    fill: Maps the data to a function for each name of `works`, which maps what
      `Worker.add` is given to the value of a client.
    load: Loads the data from what this machine has; an exception if it cannot.
    versions: Returns the versions of the packages that matter.
  """

  works: Mapping[str, Any]
  fill: Callable[[Any], Mapping[str, Callable[[Any], Any]]]
  load: Callable[[], Any]
  versions: Callable[[], Mapping[str, str]]


class Opened(NamedTuple):
  """What a worker says of itself.

  Attributes:
    versions: The versions of its packages.
    cpu: What kind of CPU it has.
    why_no_data: Why it has no data; None if it has.
    process: The number of its process.
  """

  versions: Mapping[str, str]
  cpu: str
  why_no_data: Optional[str]
  process: int


def cpu() -> str:
  """Returns the kind of this machine's CPU, as far as it decides last bits."""
  flags: set[str] = set()
  for line in pathlib.Path('/proc/cpuinfo').read_text().splitlines():
    if line.startswith('flags'):
      flags = set(line.split())
      break
  known = ('avx512_bf16', 'avx512f', 'fma', 'avx2', 'avx')
  return next((flag for flag in known if flag in flags), 'none of AVX')


class Worker:
  """Trains clients in a process of its own."""

  def __init__(self, environ: Mapping[str, str], num_threads: int):
    """Sets what TensorFlow reads when it is imported.

    Args:
      environ: Variables of the environment.
      num_threads: How many shards it trains at a time.
    """
    os.environ.update(environ)
    self._num_threads = num_threads
    self._job: Optional[Job] = None
    self._adders: dict[str, queue.SimpleQueue] = {}
    self._fill: Mapping[str, Callable[[Any], Any]] = {}

  def open(self, job: Job) -> Opened:
    """Prepares to train."""
    from f3ast_tff.execution import executor

    self._job = job
    for name, work in job.works.items():
      self._adders[name] = queue.SimpleQueue()
      for adder in executor.adders(work, self._num_threads):
        self._adders[name].put(adder)
    try:
      self.take(job.load())
      why = None
    except Exception as error:  # Whatever it is, the driver has the data.
      why = str(error) or type(error).__name__
    return Opened(job.versions(), cpu(), why, os.getpid())

  def take(self, data: Any) -> None:
    """Takes the data, which the driver sends if there are none here."""
    assert self._job is not None
    self._fill = self._job.fill(data)

  def ping(self) -> None:
    """Answers."""

  def add(
    self, name: str, parts: Sequence[Any], broadcast: list[Any]
  ) -> Union[list[Any], Failure]:
    """Returns the sum over the clients of some parts, as arrays."""
    import tensorflow as tf

    from f3ast_tff.execution import values

    assert self._job is not None
    client_type = self._job.works[name].client_type
    adder = self._adders[name].get()
    try:
      fill = self._fill[name]
      clients = [values.flatten(fill(part), client_type) for part in parts]
      model = [tf.convert_to_tensor(leaf) for leaf in broadcast]
      return [leaf.numpy() for leaf in adder(model, clients)]
    except tf.errors.OpError as error:
      return Failure(error.message)
    finally:
      self._adders[name].put(adder)
