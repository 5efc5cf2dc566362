"""Runs the cells of a grid: skips what is done, continues what was begun.

Each cell is a process of its own, `python -m experiments.TASK ...`, so that any
of them can be repeated alone. Its run is in a folder of its own below `runs/`;
when it has finished, one small file below `results/` remains of it. A cell that
fails does not stop the others.
"""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import os
import pathlib
import subprocess
import sys
import time
from typing import NamedTuple, Optional, Protocol, Union

import tqdm

from experiments.paper import cell as cells_lib
from experiments.paper import frames
from experiments.paper import plan
from experiments.paper import results
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
  if data_dir is not None and cell.key.dataset != 'synthetic':
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
    return cells_lib.rounds_done(self._folder)


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


def _collect(cell: cells_lib.Cell, places: cells_lib.Places) -> Optional[str]:
  """Turns a finished run into a result; returns why not if it is none."""
  folder = places.folder(cell)
  result = results.from_run(folder, cell.key, cell.command)
  reason = results.refusal(result, places.allow_changed_code)
  if reason:
    return f'{reason}; the run stays in {folder}'
  cells_lib.check_settings(cell, result)
  results.write(places.results, result)
  return None


def _begun_with_other_code(
  cell: cells_lib.Cell, places: cells_lib.Places
) -> Optional[str]:
  """Returns why a run that was begun cannot continue, None if it can."""
  folder = places.folder(cell)
  if places.allow_changed_code or not (folder / 'config.json').exists():
    return None
  theirs, ours = run_directory.read_config(folder)['revision'], revision()
  if theirs == ours:
    return None
  return (
    f'was begun at revision {theirs or "unknown"}, and the code is now at '
    f'{ours or "unknown"}; go back to that, or move {folder} away'
  )


def _last_line(log: pathlib.Path) -> str:
  try:
    text = log.read_text(errors='replace')
  except OSError as error:
    return f'its log cannot be read ({error}).'
  lines = [line for line in text.splitlines() if line.strip()]
  return lines[-1].strip() if lines else 'it printed nothing'


class _Progress:
  """One bar for the whole grid; a second of it is a second of one process."""

  def __init__(self, cells: Sequence[cells_lib.Cell], places: cells_lib.Places):
    self._places = places
    known = plan.seconds_known(frames.values(results.read_all(places.results)))
    self._work = {cell.name: plan.estimate(cell, known) for cell in cells}
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

  def finish(self, cell: cells_lib.Cell) -> None:
    self._done += 1
    self._done_work += self._work[cell.name]

  def skip(self, cell: cells_lib.Cell) -> None:
    self.finish(cell)
    if not self._bar.disable:
      # What took no time must not make the rest look quick.
      self._bar.initial += round(self._work[cell.name])

  def show(self, running: Mapping[cells_lib.Cell, Job]) -> None:
    if self._bar.disable:
      return
    under_way = sum(
      self._work[cell.name] * min(1.0, job.rounds_done() / cell.rounds)
      for cell, job in running.items()
    )
    self._bar.n = min(self._bar.total, round(self._done_work + under_way))
    self._bar.set_description(f'{self._done} of {len(self._work)} cells', False)
    self._bar.refresh()


class _Runner:
  """The cells of a call of `run`: who waits, who runs, who failed."""

  def __init__(self, places: cells_lib.Places, machines: Machines):
    self._places, self._machines = places, machines
    self.running: dict[cells_lib.Cell, Job] = {}
    self.failed: list[str] = []

  def fill(self, waiting: list[cells_lib.Cell], progress: _Progress) -> None:
    """Starts cells that need not wait, while there is room."""
    for cell in list(waiting):
      try:
        ready = cells_lib.resolve(cell, self._places)
        if ready is not None and not self._begin(ready, progress):
          return
        if ready is not None:
          waiting.remove(cell)
      except _OF_ONE_CELL as error:
        waiting.remove(cell)
        self._fail(cell, str(error), progress)

  def _begin(self, cell: cells_lib.Cell, progress: _Progress) -> bool:
    """Sees to a cell; returns whether there was room for it."""
    folder = self._places.folder(cell)
    if cells_lib.result_of(cell, self._places) is not None:
      progress.skip(cell)
    elif results.is_whole(folder, cell.rounds):
      self._end(cell, None, progress)
    else:
      reason = _begun_with_other_code(cell, self._places)
      if reason:
        self._fail(cell, reason, progress)
        return True
      job = self._machines.begin(cell, self._places)
      if job is None:
        return False
      self.running[cell] = job
      progress.say(f'started  {cell.name}')
    return True

  def reap(self, progress: _Progress) -> None:
    """Takes up the results of processes that have ended."""
    for cell, job in list(self.running.items()):
      code = job.poll()
      if code is None:
        continue
      del self.running[cell]
      if code:
        log = self._places.log(cell)
        reason = f'exit code {code}: {_last_line(log)} See {log}'
      elif not results.is_whole(self._places.folder(cell), cell.rounds):
        reason = f'ended without its files; see {self._places.log(cell)}'
      else:
        reason = None
      self._end(cell, reason, progress)

  def _end(
    self, cell: cells_lib.Cell, reason: Optional[str], progress: _Progress
  ) -> None:
    try:
      reason = reason or _collect(cell, self._places)
    except _OF_ONE_CELL as error:
      reason = str(error)
    if reason:
      self._fail(cell, reason, progress)
    else:
      progress.finish(cell)

  def _fail(
    self, cell: cells_lib.Cell, reason: str, progress: _Progress
  ) -> None:
    self.failed.append(f'{cell.name}: {reason}')
    progress.finish(cell)
    progress.say(f'failed   {cell.name}')


def run(
  cells: Sequence[cells_lib.Cell],
  places: cells_lib.Places,
  machines: Union[int, Machines],
  poll_seconds: float = 0.2,
) -> Outcome:
  """Runs the cells that have no result yet.

  Args:
    cells: The cells.
    places: Where runs and results go.
    machines: Where they run; a number for this machine, so many at a time.
    poll_seconds: How long to wait before looking again who has ended.

  Returns:
    Which cells failed, and which still wait for the result of another.
  """
  waiting = list(cells)
  if isinstance(machines, int):
    # Fewer cells than jobs have more cores each.
    num_left = sum(
      not results.path_of(places.results, cell.key).exists() for cell in cells
    )
    machines = ThisMachine(max(1, min(machines, num_left)))
  runner = _Runner(places, machines)
  with _Progress(cells, places) as progress:
    while True:
      runner.fill(waiting, progress)
      progress.show(runner.running)
      if not runner.running:
        break  # All done, or those left wait for results that nobody makes.
      time.sleep(poll_seconds)
      runner.reap(progress)
  tried = {cell.key for cell in cells}
  return Outcome(
    runner.failed,
    [
      f'{cell.name} waits for the result of {cell.match.name}, which '
      f'{"failed" if cell.match in tried else "is not among the cells"}'
      for cell in waiting
      if cell.match
    ],
  )
