"""Runs the cells of a grid: skips what is done, continues what was begun.

Each cell is a process of its own, `python -m experiments.TASK ...`, so that any
of them can be repeated alone. Its run is in a folder of its own below
`places.runs`; `places` says what is kept of one that has finished. A cell that
fails does not stop the others.
"""

from collections.abc import Callable, Sequence
import contextlib
import os
import pathlib
import subprocess
import sys
import time
from typing import Any, NamedTuple, Optional, Protocol, Union

import tqdm

from experiments.grid import cell as cells_lib
from f3ast_tff.runs import run_directory

# What a cell's own files can raise; the others continue.
_OF_ONE_CELL = (ValueError, KeyError, OSError)


class Outcome(NamedTuple):
  """How a grid went: a line for each cell that failed or still waits."""

  failed: list[str]
  waiting: list[str]


class Job(Protocol):
  """The run of a cell, somewhere."""

  def poll(self) -> Optional[int]:
    """Returns its exit code, None while it runs."""

  def rounds_done(self) -> int:
    """Returns how many rounds it has recorded."""


class Machines(Protocol):
  """Where cells run."""

  def begin(
    self, cell: cells_lib.Cell, places: cells_lib.Places
  ) -> Optional[Job]:
    """Starts the run of a cell; None if there is no room for it now."""


def command(
  cell: cells_lib.Cell, folder: pathlib.Path, data_dir: Optional[pathlib.Path]
) -> list[str]:
  """Returns the command of a run that ends with this program."""
  launcher = pathlib.Path(__file__).with_name('die_with_parent.py')
  words = [
    sys.executable,
    str(launcher),
    str(os.getpid()),
    sys.executable,
    *cell.arguments,
    f'--output_dir={folder.absolute()}',
    '--resume',
  ]
  if data_dir is not None and cell.task != 'synthetic':
    words.append(f'--data_dir={data_dir.absolute()}')
  return words


def popen(
  words: Sequence[str], log: pathlib.Path, cwd: Optional[pathlib.Path] = None
) -> subprocess.Popen:
  """Starts a process that writes to a log."""
  log.parent.mkdir(parents=True, exist_ok=True)
  with open(log, 'w') as file:
    return subprocess.Popen(
      words,
      stdin=subprocess.DEVNULL,
      stdout=file,
      stderr=subprocess.STDOUT,
      cwd=cwd,
    )


def start(cell: cells_lib.Cell, places: cells_lib.Places) -> subprocess.Popen:
  """Starts the run of a cell on this machine."""
  words = command(cell, places.folder(cell), places.data_dir)
  return popen(words, places.log(cell))


def shares_of_cores(jobs: int) -> list[set[int]]:
  """Returns the cores of each of the runs that go at a time.

  Runs that share their cores wait for each other in every operation. With cores
  of their own they are up to 1.4 times as fast and compute the same to the bit.
  If there are fewer cores than runs, each has all of them.
  """
  cores = sorted(os.sched_getaffinity(0))
  if jobs > len(cores):
    return [set(cores)] * jobs
  return [set(cores[i::jobs]) for i in range(jobs)]


class _LocalJob:
  """A process of this machine."""

  def __init__(
    self,
    process: subprocess.Popen,
    folder: pathlib.Path,
    give_back: Callable[[], None],
  ):
    self._process, self._folder, self._give_back = process, folder, give_back

  def poll(self) -> Optional[int]:
    """Returns the exit code, None while it runs."""
    code = self._process.poll()
    if code is not None:
      self._give_back()
    return code

  def rounds_done(self) -> int:
    """Returns how many rounds it has recorded."""
    return run_directory.rounds_done(self._folder)


class ThisMachine:
  """Runs cells here, some at a time, each with cores of its own."""

  def __init__(self, jobs: int):
    self._free = shares_of_cores(jobs)

  def begin(
    self, cell: cells_lib.Cell, places: cells_lib.Places
  ) -> Optional[Job]:
    """Starts the run of a cell; None if there is no room for it now."""
    if not self._free:
      return None
    process = start(cell, places)
    cores = self._free.pop()
    with contextlib.suppress(ProcessLookupError):  # It may have ended.
      os.sched_setaffinity(process.pid, cores)
    return _LocalJob(
      process, places.folder(cell), lambda: self._free.append(cores)
    )


def revision() -> str:
  """Returns the git revision of the code; '+' at its end when changed."""
  return run_directory.revision()


def _last_line(log: pathlib.Path) -> str:
  """Returns what a run said of its end; lines of advice may follow that."""
  try:
    text = log.read_text(errors='replace')
  except OSError as error:
    return f'its log cannot be read ({error}).'
  lines = [line for line in text.splitlines() if line.strip()]
  errors = [line for line in lines if line.startswith('error: ')]
  return (errors or lines or ['it printed nothing'])[-1].strip()


class _Progress:
  """One bar for the whole grid; as long as the work of all its cells."""

  def __init__(
    self,
    cells: Sequence[cells_lib.Cell],
    work_of: Callable[[Any], float],
  ):
    self._work = {cell.name: work_of(cell) for cell in cells}
    self._done = 0
    self._done_work = 0.0
    self._bar = tqdm.tqdm(
      total=round(sum(self._work.values())),
      bar_format='{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}',
      disable=None,  # Quiet unless standard error is a terminal.
    )

  def __enter__(self) -> '_Progress':
    return self

  def __exit__(self, *exception: object) -> None:
    self._bar.close()

  def say(self, text: str) -> None:
    tqdm.tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()

  def end(self, cell: cells_lib.Cell, how: str) -> None:
    self._count(cell)
    self.say(f'{how:<8} {cell.name}, {len(self._work) - self._done} left')

  def _count(self, cell: cells_lib.Cell) -> None:
    self._done += 1
    self._done_work += self._work[cell.name]

  def skip(self, cell: cells_lib.Cell) -> None:
    self._count(cell)
    if not self._bar.disable:
      # What took no time must not make the rest look quick.
      self._bar.initial += round(self._work[cell.name])

  def show(self, running: Sequence[tuple[cells_lib.Cell, Job]]) -> None:
    if self._bar.disable:
      return
    under_way = sum(
      self._work[cell.name] * min(1.0, job.rounds_done() / cell.rounds)
      for cell, job in running
    )
    self._bar.n = min(self._bar.total, round(self._done_work + under_way))
    self._bar.set_description(f'{self._done} of {len(self._work)} runs', False)
    self._bar.refresh()


class _Runner:
  """The cells of a call of `run`: who waits, who runs, who failed."""

  def __init__(self, places: cells_lib.Places, machines: Machines):
    self._places, self._machines = places, machines
    self.running: list[tuple[cells_lib.Cell, Job]] = []
    self.failed: list[str] = []

  def fill(self, waiting: list[cells_lib.Cell], progress: _Progress) -> None:
    """Starts cells that need not wait, while there is room."""
    for cell in list(waiting):
      try:
        ready = self._places.resolve(cell)
        if ready is not None and not self._begin(ready, progress):
          return
        if ready is not None:
          waiting.remove(cell)
      except _OF_ONE_CELL as error:
        waiting.remove(cell)
        self._fail(cell, str(error), progress)

  def _begin(self, cell: cells_lib.Cell, progress: _Progress) -> bool:
    """Sees to a cell; returns whether there was room for it."""
    if self._places.is_finished(cell):
      progress.skip(cell)
    elif self._is_whole(cell):
      self._end(cell, None, progress)
    else:
      job = self._machines.begin(cell, self._places)
      if job is None:
        return False
      self.running.append((cell, job))
      progress.say(f'started  {cell.name}')
    return True

  def _is_whole(self, cell: cells_lib.Cell) -> bool:
    return cells_lib.is_whole(self._places.folder(cell), cell.rounds)

  def reap(self, progress: _Progress) -> None:
    """Takes up the results of processes that have ended."""
    still_running = []
    for cell, job in self.running:
      code = job.poll()
      if code is None:
        still_running.append((cell, job))
        continue
      log = self._places.log(cell)
      reason = None
      if code:
        reason = f'exit code {code}: {_last_line(log)} See {log}'
      elif not self._is_whole(cell):
        reason = f'ended without its files; see {log}'
      self._end(cell, reason, progress)
    self.running = still_running

  def _end(
    self, cell: cells_lib.Cell, reason: Optional[str], progress: _Progress
  ) -> None:
    try:
      if reason is None:
        self._places.keep(cell)
    except _OF_ONE_CELL as error:
      reason = str(error)
    if reason is None:
      progress.end(cell, 'finished')
    else:
      self._fail(cell, reason, progress)

  def _fail(
    self, cell: cells_lib.Cell, reason: str, progress: _Progress
  ) -> None:
    self.failed.append(f'{cell.name}: {reason}')
    progress.end(cell, 'failed')


def _num_left(
  cells: Sequence[cells_lib.Cell], places: cells_lib.Places
) -> int:
  """Returns how many cells may have to run."""
  left = 0
  for cell in cells:
    with contextlib.suppress(*_OF_ONE_CELL):  # It will not run.
      left += not places.is_finished(cell)
  return left


def run(
  cells: Sequence[cells_lib.Cell],
  places: cells_lib.Places,
  machines: Union[int, Machines],
  work_of: Callable[[Any], float] = lambda cell: cell.rounds,
  poll_seconds: float = 0.2,
) -> Outcome:
  """Runs the cells that have no result yet.

  Args:
    cells: The cells.
    places: Where runs go, and what is kept of them.
    machines: Where they run; a number for this machine, so many at a time.
    work_of: Returns how much work a cell is, for the progress bar.
    poll_seconds: How long to wait before looking again who has ended.

  Returns:
    Which cells failed, and which still wait for the result of another.
  """
  waiting = list(cells)
  if isinstance(machines, int):
    # Fewer cells than jobs have more cores each.
    num_left = _num_left(cells, places)
    machines = ThisMachine(max(1, min(machines, num_left)))
  runner = _Runner(places, machines)
  with _Progress(cells, work_of) as progress:
    while True:
      runner.fill(waiting, progress)
      progress.show(runner.running)
      if not runner.running:
        break  # All done, or those left wait for results that nobody makes.
      time.sleep(poll_seconds)
      runner.reap(progress)
  tried = {cell.name for cell in cells}
  return Outcome(
    runner.failed,
    [
      f'{cell.name} waits for the result of {cell.after}, which '
      f'{"failed" if cell.after in tried else "is not among the cells"}'
      for cell in waiting
      if cell.after
    ],
  )
