"""Runs the cells of a grid: skips what is done, goes on with what was begun.

Each cell is a process of its own, `python -m experiments.TASK ...`, so that any
of them can be repeated alone. Its run is in a folder of its own below `runs/`;
when it has finished, one small file below `results/` remains of it. A cell that
fails does not stop the others.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import fnmatch
import os
import pathlib
import subprocess
import sys
import time
from typing import Any, NamedTuple, Optional

import pandas as pd
import tqdm

import f3ast_tff
from f3ast_tff import run_directory
from f3ast_tff.report import results

# Seconds a round, tests included, on 2 cores (AMD EPYC): Synthetic from `make
# reproduce`, paper-size models from results/first-rounds, compact models from
# five rounds on a busy machine. Only until a cell has been timed.
_SECONDS_PER_ROUND = {
  ('paper', 'synthetic'): 0.08,
  ('paper', 'cifar100'): 26.0,
  ('paper', 'shakespeare'): 7.0,
  ('compact', 'cifar100'): 8.0,
  ('compact', 'shakespeare'): 2.5,
}
# What a cell's own files can raise; the others go on.
_OF_ONE_CELL = (ValueError, KeyError, OSError)

_START_SECONDS = 15.0  # TensorFlow, the data, the worker, compilation.


@dataclasses.dataclass(frozen=True)
class Cell:
  """A run with a place in the grid.

  Attributes:
    key: Its place.
    rounds: The number of rounds.
    flags: Settings beyond method, availability, rounds and seed.
    match: Another cell, whose mean sum of weights is to be the server learning
      rate of this one; it can start when the other has finished.
  """

  key: results.Key
  rounds: int
  flags: tuple[tuple[str, Any], ...] = ()
  match: Optional[results.Key] = None

  @property
  def name(self) -> str:
    """The name, which --only looks at."""
    return self.key.name

  @property
  def _is_large(self) -> bool:
    return self.key.dataset != 'synthetic' and self.key.preset == 'paper'

  @property
  def settings(self) -> dict[str, Any]:
    """The settings that make this cell what it is."""
    return {
      'algorithm': self.key.method,
      'avail': self.key.avail,
      **dict(self.flags),
      'rounds': self.rounds,
      'seed': self.key.seed,
      # The same on every machine. Two runs fill two cores better than one
      # does, but two of the large models would take much memory.
      'parallel_clients': 2 if self._is_large else 1,
    }

  @property
  def arguments(self) -> list[str]:
    """What comes after `python`."""
    flags = [f'--{name}={value}' for name, value in self.settings.items()]
    return ['-m', f'experiments.{self.key.dataset}', *flags]

  @property
  def command(self) -> str:
    """The command to print."""
    return ' '.join(['.venv/bin/python', *self.arguments])


class Places(NamedTuple):
  """Where runs and results are.

  Attributes:
    runs: The folder of the runs.
    results: The folder of the results.
    allow_changed_code: Whether results may be of code that no revision names.
    data_dir: Where the real data are; None for the default.
  """

  runs: pathlib.Path
  results: pathlib.Path
  allow_changed_code: bool = False
  data_dir: Optional[pathlib.Path] = None

  def folder(self, cell: Cell) -> pathlib.Path:
    """Returns the folder of a cell's run."""
    return self.runs / cell.name

  def log(self, cell: Cell) -> pathlib.Path:
    """Returns the file for what the run prints."""
    # Not with_suffix: names hold dots.
    return self.runs / f'{cell.name}.log'


# Choosing cells.


def only(cells: Sequence[Cell], patterns: Sequence[str]) -> list[Cell]:
  """Returns the cells whose name holds or matches one of the patterns.

  Args:
    cells: The cells.
    patterns: Parts of names, or globs (with `*`, `?` or `[`) of whole names;
      none for all cells.

  Returns:
    The cells, in order.
  """

  def fits(name: str, pattern: str) -> bool:
    if any(c in pattern for c in '*?['):
      return fnmatch.fnmatchcase(name, pattern)
    return pattern in name

  return [
    cell
    for cell in cells
    if not patterns or any(fits(cell.name, p) for p in patterns)
  ]


def shard(cells: Sequence[Cell], text: str) -> list[Cell]:
  """Returns the i-th of n parts of the cells, for job arrays.

  Args:
    cells: The cells.
    text: `i/n`, with i from 1 to n.

  Returns:
    Every n-th cell, so that parts take about the same time.
  """
  parts = text.split('/')
  if len(parts) == 2 and all(part.isdecimal() for part in parts):
    i, n = map(int, parts)
    if 1 <= i <= n:
      return list(cells[i - 1 :: n])
  raise ValueError(f'shard must be i/n with i from 1 to n, but it is {text!r}.')


# What is done already.


def result_of(cell: Cell, places: Places) -> Optional[dict[str, Any]]:
  """Returns the result of a cell, None if there is none yet.

  Args:
    cell: The cell, with its server learning rate if it has one.
    places: Where to look.

  Returns:
    As from `results.read`.

  Raises:
    results.ResultError: If the file is of other settings.
  """
  path = results.path_of(places.results, cell.key)
  if not path.exists():
    return None
  result = results.read(path)
  check_settings(cell, result)
  return result


def check_settings(cell: Cell, result: Mapping[str, Any]) -> None:
  """Raises a `ResultError` unless a result has the settings of its cell."""
  for name, value in cell.settings.items():
    found = result['settings'].get(name)
    if found != value:
      raise results.ResultError(
        f'The result of {cell.name} was made with {name}={found}, and the grid '
        f'has {name}={value}; move it away to make it again.'
      )


def resolve(cell: Cell, places: Places) -> Optional[Cell]:
  """Returns the cell with nothing left open; None if it has to wait."""
  if cell.match is None:
    return cell
  path = results.path_of(places.results, cell.match)
  if not path.exists():
    return None
  # Four digits, so that the command can be read and typed.
  rate = round(results.read(path)['mean_sum_of_weights'], 4)
  flags = (*cell.flags, ('server_learning_rate', rate))
  return dataclasses.replace(cell, flags=flags, match=None)


def rounds_done(folder: pathlib.Path) -> int:
  """Returns how many rounds a run has recorded."""
  try:
    with open(folder / 'rounds.csv', 'rb') as file:
      return max(0, sum(1 for _ in file) - 1)
  except OSError:
    return 0


# How long it takes.


def seconds_known(known: pd.DataFrame) -> dict[tuple[str, ...], float]:
  """Returns the mean seconds a round of results, by dataset and by method.

  Args:
    known: From `results.values`.

  Returns:
    By (preset, dataset) and by (preset, dataset, method).
  """
  per_round = known['seconds'] / known['rounds']
  times: dict[tuple[str, ...], float] = {}
  for columns in (['preset', 'dataset'], ['preset', 'dataset', 'method']):
    by = per_round.groupby([known[column] for column in columns])
    times.update(by.mean().to_dict())
  return times


def estimate(cell: Cell, known: Mapping[tuple[str, ...], float]) -> float:
  """Returns about how many seconds a cell takes from its start.

  Args:
    cell: The cell.
    known: From `seconds_known`.

  Returns:
    Seconds.
  """
  place = cell.key.preset, cell.key.dataset
  per_round = known.get(
    (*place, cell.key.method), known.get(place, _SECONDS_PER_ROUND[place])
  )
  return _START_SECONDS + per_round * cell.rounds


# Running.


class Outcome(NamedTuple):
  """How a grid went: a line for each cell that failed or still waits."""

  failed: list[str]
  waiting: list[str]


Start = Callable[[Cell, Places], subprocess.Popen]


def start(cell: Cell, places: Places) -> subprocess.Popen:
  """Starts a run that ends with this program."""
  launcher = pathlib.Path(f3ast_tff.__file__).with_name('die_with_parent.py')
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


def revision() -> str:
  """Returns the git revision of the code; '+' at its end when changed."""
  return run_directory.revision()


def _collect(cell: Cell, places: Places) -> Optional[str]:
  """Turns a finished run into a result; returns why not if it is none."""
  folder = places.folder(cell)
  result = results.from_run(folder, cell.key, cell.command)
  reason = results.refusal(result, places.allow_changed_code)
  if reason:
    return f'{reason}; the run stays in {folder}'
  check_settings(cell, result)
  results.write(places.results, result)
  return None


def _begun_with_other_code(cell: Cell, places: Places) -> Optional[str]:
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
  lines = [line for line in log.read_text().splitlines() if line.strip()]
  return lines[-1].strip() if lines else 'it printed nothing'


class _Progress:
  """One bar for the whole grid; a second of it is a second of one process."""

  def __init__(self, cells: Sequence[Cell], places: Places):
    self._places = places
    known = seconds_known(results.values(results.read_all(places.results)))
    self._work = {cell.name: estimate(cell, known) for cell in cells}
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

  def finish(self, cell: Cell) -> None:
    self._done += 1
    self._done_work += self._work[cell.name]

  def skip(self, cell: Cell) -> None:
    self.finish(cell)
    if not self._bar.disable:
      # What took no time must not make the rest look quick.
      self._bar.initial += round(self._work[cell.name])

  def show(self, running: Sequence[Cell]) -> None:
    if self._bar.disable:
      return
    under_way = sum(
      self._work[cell.name]
      * min(1.0, rounds_done(self._places.folder(cell)) / cell.rounds)
      for cell in running
    )
    self._bar.n = min(self._bar.total, round(self._done_work + under_way))
    self._bar.set_description(f'{self._done} of {len(self._work)} cells', False)
    self._bar.refresh()


class _Runner:
  """The cells of a call of `run`: who waits, who runs, who failed."""

  def __init__(self, places: Places, jobs: int, start_: Start):
    self._places, self._jobs, self._start = places, jobs, start_
    self.running: dict[Cell, subprocess.Popen] = {}
    self.failed: list[str] = []

  def fill(self, waiting: list[Cell], progress: _Progress) -> None:
    """Starts cells that need not wait, while there is room."""
    for cell in list(waiting):
      if len(self.running) >= self._jobs:
        return
      try:
        ready = resolve(cell, self._places)
        if ready is None:
          continue
        waiting.remove(cell)
        self._begin(ready, progress)
      except _OF_ONE_CELL as error:
        if cell in waiting:
          waiting.remove(cell)
        self._fail(cell, str(error), progress)

  def _begin(self, cell: Cell, progress: _Progress) -> None:
    folder = self._places.folder(cell)
    if result_of(cell, self._places) is not None:
      progress.skip(cell)
    elif results.is_whole(folder, cell.rounds):
      self._end(cell, None, progress)
    else:
      reason = _begun_with_other_code(cell, self._places)
      if reason:
        self._fail(cell, reason, progress)
        return
      self.running[cell] = self._start(cell, self._places)
      progress.say(f'started  {cell.name}')

  def reap(self, progress: _Progress) -> None:
    """Takes up the results of processes that have ended."""
    for cell, process in list(self.running.items()):
      if process.poll() is None:
        continue
      del self.running[cell]
      if process.returncode:
        log = self._places.log(cell)
        reason = f'exit code {process.returncode}: {_last_line(log)} See {log}'
      elif not results.is_whole(self._places.folder(cell), cell.rounds):
        reason = f'ended without its files; see {self._places.log(cell)}'
      else:
        reason = None
      self._end(cell, reason, progress)

  def _end(
    self, cell: Cell, reason: Optional[str], progress: _Progress
  ) -> None:
    try:
      reason = reason or _collect(cell, self._places)
    except _OF_ONE_CELL as error:
      reason = str(error)
    if reason:
      self._fail(cell, reason, progress)
    else:
      progress.finish(cell)

  def _fail(self, cell: Cell, reason: str, progress: _Progress) -> None:
    self.failed.append(f'{cell.name}: {reason}')
    progress.finish(cell)
    progress.say(f'failed   {cell.name}')


def run(
  cells: Sequence[Cell],
  places: Places,
  jobs: int,
  start_: Optional[Start] = None,
  poll_seconds: float = 0.2,
) -> Outcome:
  """Runs the cells that have no result yet.

  Args:
    cells: The cells.
    places: Where runs and results go.
    jobs: How many processes at a time.
    start_: Starts the process of a cell; None for `start`.
    poll_seconds: How long to wait before looking again who has ended.

  Returns:
    Which cells failed, and which still wait for the result of another.
  """
  waiting = list(cells)
  runner = _Runner(places, jobs, start_ or start)
  with _Progress(cells, places) as progress:
    while True:
      runner.fill(waiting, progress)
      progress.show(list(runner.running))
      if not runner.running:
        break  # All done, or those left wait for results that nobody makes.
      time.sleep(poll_seconds)
      runner.reap(progress)
  return Outcome(
    runner.failed,
    [
      f'{cell.name} waits for the result of {cell.match.name}'
      for cell in waiting
      if cell.match
    ],
  )


def plan(cells: Sequence[Cell], places: Places, jobs: int) -> str:
  """Returns what `run` would do: a cell's state, time and command.

  Args:
    cells: The cells.
    places: Where runs and results are.
    jobs: How many processes at a time.

  Returns:
    Lines, the last one with the sum.
  """
  known = seconds_known(results.values(results.read_all(places.results)))
  lines, total, num_left = [], 0.0, 0
  for cell in cells:
    ready = resolve(cell, places)
    done = rounds_done(places.folder(cell))
    if ready is not None and result_of(ready, places) is not None:
      state = 'finished'
    else:
      seconds = estimate(cell, known) * (1 - min(1.0, done / cell.rounds))
      total += seconds
      num_left += 1
      state = f'{_duration(seconds)} to run'
      if ready is None and cell.match is not None:
        state += f', after {cell.match.name}'
      elif done:
        state += f', from round {done} or a little before'
    lines += [f'{cell.name}: {state}', f'  {(ready or cell).command}']
  lines.append(
    f'{len(cells)} cells, {num_left} to run: about {_duration(total)} of work, '
    f'{_duration(total / jobs)} with --jobs={jobs} if there are cores for it'
  )
  return '\n'.join(lines)


def _duration(seconds: float) -> str:
  if seconds < 120:
    return f'{seconds:.0f} s'
  if seconds < 7200:
    return f'{seconds / 60:.0f} min'
  return f'{seconds / 3600:.1f} h'
