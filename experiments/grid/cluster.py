"""Runs the cells of a grid on a Ray cluster, each as a task.

A task is a process on some node, with the cores and the memory that its cell
needs. Where a node sees the folder of the runs (a shared file system, or the
same machine), the run is there, and continues from its checkpoint if the node
is lost; else it is in a temporary folder of the node, and its files are copied
here in the end.
"""

from collections.abc import Iterator, Sequence
import contextlib
import fcntl
import os
import pathlib
import secrets
import sys
import tempfile
import time
from typing import Any, NamedTuple, Optional, Union

from experiments.grid import cell as cells_lib
from experiments.grid import runner
from f3ast_tff.execution.cluster import connection
from f3ast_tff.runs import run_directory

_MOST_STARTS = 5  # How often a cell is started whose nodes are lost.
_LOOK_SECONDS = 0.5


class _Order(NamedTuple):
  """What a task is to do.

  Attributes:
    cell: The cell, with nothing left open.
    places: Where runs and results are at the one who gives the order.
    marker: A file next to the runs; who sees it sees them.
    revision: That of the code.
    num_cores: How many cores the run may use.
  """

  cell: cells_lib.Cell
  places: cells_lib.Places
  marker: pathlib.Path
  revision: str
  num_cores: int


class _Ended(NamedTuple):
  """How a run ended.

  Attributes:
    exit_code: Its exit code.
    files: Its files by name, and its log by the name of ''; empty if they are
      where they belong.
  """

  exit_code: int
  files: dict[str, bytes]


@contextlib.contextmanager
def _own_cores(number: int) -> Iterator[set[int]]:
  """Yields cores of this machine that no other task of a grid has."""
  folder = pathlib.Path(tempfile.gettempdir()) / f'f3ast-cores-{os.getuid()}'
  folder.mkdir(exist_ok=True)
  with contextlib.ExitStack() as locks:
    own: set[int] = set()
    for core in sorted(os.sched_getaffinity(0)):
      if len(own) == number:
        break
      file = locks.enter_context(open(folder / str(core), 'w'))
      with contextlib.suppress(BlockingIOError):  # Another task has it.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        own.add(core)
    # Nodes that share a machine may have more tasks than it has cores.
    yield own if len(own) == number else os.sched_getaffinity(0)


def _files_of(folder: pathlib.Path) -> dict[str, bytes]:
  """Returns the files of a finished run, but for its checkpoints."""
  return {
    str(path.relative_to(folder)): path.read_bytes()
    for path in sorted(folder.rglob('*'))
    if path.is_file() and path.parent.name != 'checkpoints'
  }


def run_cell(order: _Order) -> Iterator[Union[int, _Ended]]:
  """Runs a cell here; yields the rounds done, again and again, and the end."""
  cell, places = order.cell, order.places
  here = run_directory.revision()
  if here != order.revision:
    message = (
      f'{os.uname().nodename} has revision {here or "unknown"} of the code and '
      f'the grid {order.revision or "unknown"}; give all nodes the same.'
    )
    yield _Ended(2, {'': message.encode()})
    return
  with contextlib.ExitStack() as stack:
    is_seen = order.marker.exists()
    if not is_seen:
      own = stack.enter_context(tempfile.TemporaryDirectory(prefix='f3ast-'))
      places = places._replace(runs=pathlib.Path(own))
    folder, log = places.folder(cell), places.log(cell)
    cores = stack.enter_context(_own_cores(order.num_cores))
    process = runner.popen(
      runner.command(cell, folder, places.data_dir),
      log,
      pathlib.Path(__file__).parents[2],
    )
    with contextlib.suppress(ProcessLookupError):
      os.sched_setaffinity(process.pid, cores)
    try:
      while process.poll() is None:
        yield run_directory.rounds_done(folder)
        time.sleep(_LOOK_SECONDS)
    finally:
      process.kill()
    files = {}
    if not is_seen:
      files = {'': log.read_bytes(), **_files_of(folder)}
    yield _Ended(process.returncode, files)


class _RemoteJob:
  """A task of the cluster; see `runner.Job`."""

  def __init__(self, cluster: 'Cluster', order: _Order):
    self._cluster, self._order = cluster, order
    self._starts, self._rounds_done = 0, 0
    self._start()

  def _start(self) -> None:
    self._starts += 1
    self._answers = self._cluster.submit(self._order)

  def rounds_done(self) -> int:
    """Returns how many rounds the run has recorded."""
    return self._rounds_done

  def poll(self) -> Optional[int]:
    """Returns the exit code, None while it runs."""
    ray, name = self._cluster.ray, self._order.cell.name
    while ray.wait([self._answers], timeout=0)[0]:
      try:
        answer = ray.get(next(self._answers))
      except (ray.exceptions.RayError, StopIteration) as error:
        why = str(error).strip().partition('\n')[0].partition('. ')[0]
        if self._starts == _MOST_STARTS:
          return self._end(_Ended(1, {'': f'{name} was lost: {why}'.encode()}))
        print(f'lost     {name} ({why}); it continues', file=sys.stderr)
        self._start()
        return None
      if isinstance(answer, _Ended):
        return self._end(answer)
      self._rounds_done = answer
    self._cluster.check()
    return None

  def _end(self, ended: _Ended) -> int:
    """Puts the files of a run where they belong."""
    cell, places = self._order.cell, self._order.places
    for name, content in ended.files.items():
      path = places.folder(cell) / name if name else places.log(cell)
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_bytes(content)
    self._cluster.give_back(self._order)
    return ended.exit_code


class Cluster:
  """The nodes of a Ray cluster; see `runner.Machines`.

  Attributes:
    ray: The module `ray`.
  """

  def __init__(self, where: str):
    """Connects to a cluster.

    Args:
      where: As in `connection.check`.
    """
    self.ray = connection.connect(where)
    self._task = self.ray.remote(run_cell)
    self._in_use = 0
    self._marker: Optional[pathlib.Path] = None
    self._checked = 0.0
    self._nodes: Sequence[Any] = ()

  def check(self) -> None:
    """Looks which nodes there are; a `ClusterError` if the cluster is gone."""
    if time.monotonic() > self._checked + 1.0:
      self._nodes = connection.nodes(self.ray)
      self._checked = time.monotonic()

  def begin(
    self, cell: cells_lib.Cell, places: cells_lib.Places
  ) -> Optional[runner.Job]:
    """Starts the run of a cell; None if there is no room for it now."""
    self.check()
    resources = [node['Resources'] for node in self._nodes]
    most = int(max((each['CPU'] for each in resources), default=1))
    num_cores = min(cell.num_cores, most)
    if self._in_use + num_cores > sum(each['CPU'] for each in resources):
      return None
    if all(each['memory'] < cell.memory for each in resources):
      raise ValueError(
        f'needs {cell.memory / 1e9:.0f} GB of memory, and no node has that.'
      )
    if self._marker is None:
      places.runs.mkdir(parents=True, exist_ok=True)
      self._marker = places.runs.absolute() / f'.grid-{secrets.token_hex(8)}'
      self._marker.touch()
    self._in_use += num_cores
    places = places._replace(runs=places.runs.absolute())
    return _RemoteJob(
      self, _Order(cell, places, self._marker, runner.revision(), num_cores)
    )

  def submit(self, order: _Order) -> Any:
    """Submits a task; returns its answers."""
    task = self._task.options(
      num_cpus=order.num_cores,
      memory=order.cell.memory,
      num_returns='streaming',
      max_retries=0,
    )
    return task.remote(order)

  def give_back(self, order: _Order) -> None:
    """Takes note that a run has ended."""
    self._in_use -= order.num_cores

  def close(self) -> None:
    """Leaves the cluster."""
    if self._marker is not None:
      self._marker.unlink(missing_ok=True)
    self.ray.shutdown()
