"""A grid whose results are its runs: a sweep, for example."""

from collections.abc import Mapping
import dataclasses
import pathlib
from typing import Any, NamedTuple, Optional

from experiments.grid import cell as cells_lib
from f3ast_tff.runs import run_directory


@dataclasses.dataclass(frozen=True)
class Run:
  """A cell; see `cell.Cell`.

  Attributes:
    name: Its name, also that of its folder.
    task: The experiment.
    flags: Those of its command; `rounds` and `parallel_clients` are among them.
    settings: All that its `config.json` records.
  """

  name: str
  task: str
  flags: Mapping[str, Any]
  settings: Mapping[str, Any]

  @property
  def rounds(self) -> int:
    """The number of rounds."""
    return self.settings['rounds']

  @property
  def num_cores(self) -> int:
    """How many cores it makes use of."""
    return self.settings['parallel_clients']

  @property
  def memory(self) -> int:
    """How many bytes of memory it may need."""
    return cells_lib.memory(self.task, self.settings.get('model', ''))

  @property
  def arguments(self) -> list[str]:
    """What comes after `python`."""
    return cells_lib.arguments(self.task, self.flags)

  @property
  def after(self) -> Optional[str]:
    """It waits for no other."""
    return None


class Runs(NamedTuple):
  """Where runs are; see `cell.Places`.

  Attributes:
    runs: The folder of the runs.
    data_dir: Where the real data are; None for the default.
  """

  runs: pathlib.Path
  data_dir: Optional[pathlib.Path] = None

  def folder(self, cell: Run) -> pathlib.Path:
    """Returns the folder of a run."""
    return self.runs / cell.name

  def log(self, cell: Run) -> pathlib.Path:
    """Returns the file for what the run prints."""
    return self.runs / f'{cell.name}.log'

  def resolve(self, cell: Run) -> Run:
    """Returns the cell: nothing is left open."""
    return cell

  def is_finished(self, cell: Run) -> bool:
    """Returns whether the run is whole; an error if another one is there."""
    folder = self.folder(cell)
    if (folder / 'config.json').exists():
      # A run can become longer.
      is_longer = run_directory.rounds_done(folder) < cell.rounds
      run_directory.check_same(folder, cell.settings, but_for_rounds=is_longer)
    return cells_lib.is_whole(folder, cell.rounds)

  def keep(self, cell: Run) -> None:
    """Does nothing: all of the run stays where it is."""
