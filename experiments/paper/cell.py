"""The cells of a grid: what each of them is, who is chosen, what is done."""

from collections.abc import Mapping, Sequence
import dataclasses
import fnmatch
import pathlib
from typing import Any, NamedTuple, Optional

from experiments.paper import design
from experiments.paper import results


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

  key: design.Key
  rounds: int
  flags: tuple[tuple[str, Any], ...] = ()
  match: Optional[design.Key] = None

  @property
  def name(self) -> str:
    """The name, which --only looks at."""
    return self.key.name

  @property
  def is_large(self) -> bool:
    """Whether it fills two cores by itself."""
    return self.key.dataset != 'synthetic' and self.key.preset == 'paper'

  @property
  def num_cores(self) -> int:
    """How many cores it makes use of."""
    return 2 if self.is_large else 1

  @property
  def memory(self) -> int:
    """How many bytes of memory it may need; docs/performance.md has peaks."""
    if self.key.dataset == 'cifar100' and self.is_large:
      return 5_000_000_000
    return 1_500_000_000

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
      'parallel_clients': self.num_cores,
    }

  @property
  def arguments(self) -> list[str]:
    """What comes after `python`."""
    flags = [f'--{name}={value}' for name, value in self.settings.items()]
    return ['-m', f'experiments.{self.key.dataset}', *flags]

  @property
  def command(self) -> str:
    """The command to print."""
    words = ['.venv/bin/python', *self.arguments]
    if self.match is not None:  # Nobody is to run it without.
      words.append('--server_learning_rate=MEAN_SUM_OF_WEIGHTS')
    return ' '.join(words)


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


def result_of(cell: Cell, places: Places) -> Optional[dict[str, Any]]:
  """Returns the result of a cell, None if there is none yet.

  A file of other settings raises a `results.ResultError`.
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
