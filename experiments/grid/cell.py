"""What a grid has to know of its runs, and of where they and results are."""

from collections.abc import Mapping
import pathlib
import shlex
from typing import Any, Optional, Protocol


class Cell(Protocol):
  """A run with a place in a grid."""

  @property
  def name(self) -> str:
    """Its name, which no other has; also that of its folder."""

  @property
  def task(self) -> str:
    """The experiment, e.g. `synthetic`."""

  @property
  def rounds(self) -> int:
    """The number of rounds."""

  @property
  def num_cores(self) -> int:
    """How many cores it makes use of."""

  @property
  def memory(self) -> int:
    """How many bytes of memory it may need."""

  @property
  def arguments(self) -> list[str]:
    """What comes after `python`, but for where its files go."""

  @property
  def after(self) -> Optional[str]:
    """The name of a cell whose result it has to wait for, if any."""


class Places(Protocol):
  """Where runs go, and what is kept of them: a named tuple of a grid.

  It is given the cells of its grid only, of whatever kind they are.
  """

  def _replace(self, *, runs: pathlib.Path) -> Any:
    """Returns the same with another folder of runs, as any named tuple."""

  @property
  def runs(self) -> pathlib.Path:
    """The folder of the runs."""

  @property
  def data_dir(self) -> Optional[pathlib.Path]:
    """Where the real data are; None for the default."""

  def folder(self, cell: Any) -> pathlib.Path:
    """Returns the folder of a cell's run."""

  def log(self, cell: Any) -> pathlib.Path:
    """Returns the file for what the run prints."""

  def resolve(self, cell: Any) -> Any:
    """Returns the cell with nothing left open; None if it has to wait."""

  def is_finished(self, cell: Any) -> bool:
    """Returns whether there is a result; a ValueError if it cannot run."""

  def keep(self, cell: Any) -> None:
    """Makes a result of a whole run; a ValueError if it is none."""


def is_large(task: str, model: str) -> bool:
  """Returns whether a run fills two cores by itself."""
  return task != 'synthetic' and model == 'paper'


def num_cores(task: str, model: str) -> int:
  """Returns how many cores a run makes use of."""
  # Two runs fill two cores better than one does, but two of the large models
  # would take much memory.
  return 2 if is_large(task, model) else 1


def memory(task: str, model: str) -> int:
  """Returns how many bytes a run may need; docs/performance.md has peaks."""
  if task == 'cifar100' and is_large(task, model):
    return 5_000_000_000
  return 1_500_000_000


def arguments(task: str, settings: Mapping[str, Any]) -> list[str]:
  """Returns what comes after `python` in the command of a run."""
  flags = [f'--{name}={value}' for name, value in settings.items()]
  return ['-m', f'experiments.{task}', *flags]


def command(cell: Cell) -> str:
  """Returns the command to print."""
  return shlex.join(['.venv/bin/python', *cell.arguments])


def is_whole(folder: pathlib.Path, num_rounds: int) -> bool:
  """Returns whether a run's folder holds all of a finished run."""
  try:
    last = (folder / 'metrics.csv').read_text().splitlines()[-1]
  except (OSError, IndexError):
    return False
  return last.startswith(f'{num_rounds},') and (folder / 'model.npz').exists()
