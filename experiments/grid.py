"""Runs the cells of a grid: skips what is done, goes on with what was begun.

Each cell is a process of its own, `python -m experiments.TASK ...`, so that any
of them can be repeated alone. Its run is in a folder of its own below `runs/`;
when it has finished, one small file below `results/` remains of it. A cell that
fails does not stop the others.
"""

from collections.abc import Callable, Sequence
import contextlib
import os
import pathlib
import subprocess
import sys
import time
from typing import NamedTuple, Optional

import tqdm

from experiments import cells as cells_lib
from experiments import plan
from f3ast_tff import run_directory
from f3ast_tff.report import frames
from f3ast_tff.report import results

# What a cell's own files can raise; the others go on.
_OF_ONE_CELL = (ValueError, KeyError, OSError)


class Outcome(NamedTuple):
  """How a grid went: a line for each cell that failed or still waits."""

  failed: list[str]
  waiting: list[str]


Start = Callable[[cells_lib.Cell, cells_lib.Places], subprocess.Popen]


def start(cell: cells_lib.Cell, places: cells_lib.Places) -> subprocess.Popen:
  """Starts a run that ends with this program."""
  launcher = pathlib.Path(__file__).with_name('die_with_parent.py')
  command = [
    sys.executable,
    str(launcher),
    str(os.getpid()),
    sys.executable,
    *cell.arguments,
    f'--output_dir={places.folder(cell).absolute()}',
    '--resume',
  ]
  if places.data_dir is not None and cell.key.dataset != 'synthetic':
    command.append(f'--data_dir={places.data_dir.absolute()}')
  places.log(cell).parent.mkdir(parents=True, exist_ok=True)
  with open(places.log(cell), 'w') as file:
    return subprocess.Popen(
      command,
      stdin=subprocess.DEVNULL,
      stdout=file,
      stderr=subprocess.STDOUT,
    )


def shares_of_cores(jobs: int) -> list[set[int]]:
  """Returns the cores of each of the runs that go at a time.

  Runs that share their cores wait for each other in every operation. With cores
  of their own they are up to 1.4 times as fast and compute the same to the bit.

  Args:
    jobs: How many runs at a time.

  Returns:
    Sets that do not overlap; all cores for each if there are fewer than runs.
  """
  cores = sorted(os.sched_getaffinity(0))
  if jobs > len(cores):
    return [set(cores)] * jobs
  return [set(cores[i::jobs]) for i in range(jobs)]


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
  """Returns why a run that was begun cannot go on, None if it can."""
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

  def show(self, running: Sequence[cells_lib.Cell]) -> None:
    if self._bar.disable:
      return
    under_way = sum(
      self._work[cell.name]
      * min(1.0, cells_lib.rounds_done(self._places.folder(cell)) / cell.rounds)
      for cell in running
    )
    self._bar.n = min(self._bar.total, round(self._done_work + under_way))
    self._bar.set_description(f'{self._done} of {len(self._work)} cells', False)
    self._bar.refresh()


class _Process(NamedTuple):
  """A run, and the cores that are its own."""

  process: subprocess.Popen
  cores: set[int]


class _Runner:
  """The cells of a call of `run`: who waits, who runs, who failed."""

  def __init__(self, places: cells_lib.Places, jobs: int, start_: Start):
    self._places, self._start = places, start_
    self._free = shares_of_cores(jobs)
    self.running: dict[cells_lib.Cell, _Process] = {}
    self.failed: list[str] = []

  def fill(self, waiting: list[cells_lib.Cell], progress: _Progress) -> None:
    """Starts cells that need not wait, while there is room."""
    for cell in list(waiting):
      if not self._free:
        return
      try:
        ready = cells_lib.resolve(cell, self._places)
        if ready is None:
          continue
        waiting.remove(cell)
        self._begin(ready, progress)
      except _OF_ONE_CELL as error:
        if cell in waiting:
          waiting.remove(cell)
        self._fail(cell, str(error), progress)

  def _begin(self, cell: cells_lib.Cell, progress: _Progress) -> None:
    folder = self._places.folder(cell)
    if cells_lib.result_of(cell, self._places) is not None:
      progress.skip(cell)
    elif results.is_whole(folder, cell.rounds):
      self._end(cell, None, progress)
    else:
      reason = _begun_with_other_code(cell, self._places)
      if reason:
        self._fail(cell, reason, progress)
        return
      process = self._start(cell, self._places)
      cores = self._free.pop()
      with contextlib.suppress(ProcessLookupError):  # It may have ended.
        os.sched_setaffinity(process.pid, cores)
      self.running[cell] = _Process(process, cores)
      progress.say(f'started  {cell.name}')

  def reap(self, progress: _Progress) -> None:
    """Takes up the results of processes that have ended."""
    for cell, (process, cores) in list(self.running.items()):
      if process.poll() is None:
        continue
      del self.running[cell]
      self._free.append(cores)
      if process.returncode:
        log = self._places.log(cell)
        reason = f'exit code {process.returncode}: {_last_line(log)} See {log}'
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
  jobs: int,
  start_: Optional[Start] = None,
  poll_seconds: float = 0.2,
) -> Outcome:
  """Runs the cells that have no result yet.

  Args:
    cells: The cells.
    places: Where runs and results go.
    jobs: How many processes at a time; the cores are dealt out to them.
    start_: Starts the process of a cell; None for `start`.
    poll_seconds: How long to wait before looking again who has ended.

  Returns:
    Which cells failed, and which still wait for the result of another.
  """
  waiting = list(cells)
  # Fewer cells than jobs have more cores each.
  num_left = sum(
    not results.path_of(places.results, cell.key).exists() for cell in cells
  )
  runner = _Runner(places, max(1, min(jobs, num_left)), start_ or start)
  with _Progress(cells, places) as progress:
    while True:
      runner.fill(waiting, progress)
      progress.show(list(runner.running))
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
