"""The cells of the paper's grid: what each is, who is chosen, what is done."""

from collections.abc import Mapping, Sequence
import dataclasses
import fnmatch
import pathlib
from typing import Any, NamedTuple, Optional

from experiments.grid import cell as grid_cell
from experiments.grid import runner
from experiments.paper import design
from experiments.paper import results
from f3ast_tff.runs import run_directory

# Where runs are by default.
RUNS = pathlib.PurePosixPath('runs/cells')
# The setting that is a file of another run.
_OF_RUN = 'server_rate_file'


@dataclasses.dataclass(frozen=True)
class Cell:
  """A run with a place in the grid.

  Attributes:
    key: Its place.
    rounds: The number of rounds.
    flags: Settings beyond method, availability, rounds and seed.
    match: Another cell, whose sum of weights is to be the server learning rate
      of this one; it can start when the other has finished.
    is_by_round: Whether that is the sum of each round, which the folder of the
      other's run has; otherwise it is their mean.
  """

  key: design.Key
  rounds: int
  flags: tuple[tuple[str, Any], ...] = ()
  match: Optional[design.Key] = None
  is_by_round: bool = False

  @property
  def name(self) -> str:
    """The name, which --only looks at."""
    return self.key.name

  @property
  def task(self) -> str:
    """The experiment that runs it."""
    return self.key.dataset

  @property
  def is_large(self) -> bool:
    """Whether it fills two cores by itself."""
    return grid_cell.is_large(self.task, self.key.preset)

  @property
  def num_cores(self) -> int:
    """How many cores it makes use of."""
    return grid_cell.num_cores(self.task, self.key.preset)

  @property
  def memory(self) -> int:
    """How many bytes of memory it may need."""
    return grid_cell.memory(self.task, self.key.preset)

  @property
  def after(self) -> Optional[str]:
    """The name of the cell that it waits for."""
    return None if self.match is None else self.match.name

  @property
  def settings(self) -> dict[str, Any]:
    """The settings that make this cell what it is."""
    return {
      'algorithm': self.key.method,
      'avail': self.key.avail,
      **dict(self.flags),
      'rounds': self.rounds,
      'seed': self.key.seed,
      # The same on every machine.
      'parallel_clients': self.num_cores,
    }

  @property
  def arguments(self) -> list[str]:
    """What comes after `python`."""
    return grid_cell.arguments(self.task, self.settings)

  @property
  def command(self) -> str:
    """The command to print."""
    # Nobody is to run it without.
    rest = ''
    if self.match is not None:
      rest = (
        ' --server_rate_file=ROUNDS_CSV'
        if self.is_by_round
        else ' --server_learning_rate=MEAN_SUM_OF_WEIGHTS'
      )
    return grid_cell.command(self) + rest


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

  def resolve(self, cell: Cell) -> Optional[Cell]:
    """Returns the cell with nothing left open; None if it has to wait."""
    if cell.match is None:
      return cell
    if cell.is_by_round:
      return self._following(cell, cell.match)
    path = results.path_of(self.results, cell.match)
    if not path.exists():
      return None
    # Four digits, so that the command can be read and typed.
    rate = round(results.read(path)['mean_sum_of_weights'], 4)
    flags = (*cell.flags, ('server_learning_rate', rate))
    return dataclasses.replace(cell, flags=flags, match=None)

  def _following(self, cell: Cell, other: design.Key) -> Optional[Cell]:
    """As `resolve`, for a cell with the rounds of another."""
    resolved = dataclasses.replace(cell, match=None)
    if results.path_of(self.results, cell.key).exists():
      return resolved  # The file of the rounds may be gone by now.
    folder = self.runs / other.name
    if not grid_cell.is_whole(folder, cell.rounds):
      return None
    flag = _OF_RUN, str(folder / 'rounds.csv')
    return dataclasses.replace(resolved, flags=(*cell.flags, flag))

  def has_result(self, cell: Cell) -> bool:
    """Returns whether a cell has a result; a `ResultError` if another has."""
    path = results.path_of(self.results, cell.key)
    if not path.exists():
      return False
    check_settings(cell, results.read(path))
    return True

  def is_finished(self, cell: Cell) -> bool:
    """As `has_result`; a `ResultError` if its run is of other code, too."""
    if self.has_result(cell):
      return True
    if not grid_cell.is_whole(self.folder(cell), cell.rounds):
      self._check_same_code(self.folder(cell))
    return False

  def _check_same_code(self, folder: pathlib.Path) -> None:
    """Raises a `ResultError` if a run was begun that cannot continue."""
    if self.allow_changed_code or not (folder / 'config.json').exists():
      return
    theirs = run_directory.read_config(folder)['revision']
    ours = runner.revision()
    if theirs != ours:
      raise results.ResultError(
        f'was begun at revision {theirs or "unknown"}, and the code is now at '
        f'{ours or "unknown"}; go back to that, or move {folder} away'
      )

  def keep(self, cell: Cell) -> None:
    """Makes a result of a whole run; a `ResultError` if it is none."""
    folder = self.folder(cell)
    result = results.from_run(folder, cell.key, cell.command)
    reason = results.refusal(result, self.allow_changed_code)
    if reason:
      raise results.ResultError(f'{reason}; the run stays in {folder}')
    check_settings(cell, result)
    results.write(self.results, _wherever(result, self.runs))


def _wherever(
  result: Mapping[str, Any], runs: pathlib.Path
) -> dict[str, Any]:
  """Returns a result that names a run's file as if runs were in `RUNS`."""
  settings = dict(result['settings'])
  path = settings.get(_OF_RUN)
  if not path:
    return dict(result)
  settings[_OF_RUN] = str(RUNS / pathlib.Path(path).relative_to(runs))
  command = result['command'].replace(path, settings[_OF_RUN])
  return {**result, 'settings': settings, 'command': command}


def only(cells: Sequence[Cell], patterns: Sequence[str]) -> list[Cell]:
  """Returns the cells whose name holds or matches one of the patterns.

  A pattern with `*`, `?` or `[` is a glob of whole names; without patterns all
  cells are returned.
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


def check_settings(cell: Cell, result: Mapping[str, Any]) -> None:
  """Raises a `ResultError` unless a result has the settings of its cell."""
  for name, value in cell.settings.items():
    found = result['settings'].get(name)
    if found != value:
      raise results.ResultError(
        f'The result of {cell.name} was made with {name}={found}, and the grid '
        f'has {name}={value}; move it away to make it again.'
      )
