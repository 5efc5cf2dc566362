"""A grid as a program: what all programs that run one share."""

from collections.abc import Callable, Sequence
import pathlib
import shutil
import sys
from typing import Any

from experiments import cli
from experiments import interrupts
from experiments.grid import cell as cells_lib
from experiments.grid import cluster as cluster_lib
from experiments.grid import runner
from f3ast_tff import wording
from f3ast_tff.execution.cluster import connection


def keep_once_more(folder: pathlib.Path) -> None:
  """Moves what a finished call left aside, and drops what that one had kept."""
  previous = folder.with_name(folder.name + '-previous')
  shutil.rmtree(previous, ignore_errors=True)
  folder.rename(previous)


def run(
  cells: Sequence[cells_lib.Cell],
  places: cells_lib.Places,
  jobs: int,
  where: str = '',
  work_of: Callable[[Any], float] = lambda cell: cell.rounds,
) -> bool:
  """Runs cells and prints what became of them.

  Args:
    cells: The cells.
    places: Where runs and results go.
    jobs: How many at a time, if on this machine.
    where: The Ray cluster to run them on, see `connection.check`; empty for
      this machine.
    work_of: Returns how much work a cell is, for the progress bar.

  Returns:
    Whether all have a result now.
  """
  interrupts.install()
  interrupts.advise('the same command continues.')
  cluster = None
  if where:
    with cli.one_sentence(connection.UsageError, 2):
      cluster = cluster_lib.Cluster(where)
  try:
    outcome = runner.run(cells, places, cluster or jobs, work_of)
  except connection.ClusterError as error:
    cli.fail_at_once(f'{error} The same command continues.', 1)
  finally:
    if cluster is not None:
      cluster.close()
  for line in (*outcome.waiting, *outcome.failed):
    print(f'error: {line}', file=sys.stderr)
  if outcome.failed:
    print(
      f'{len(outcome.failed)} of {wording.count(len(cells), "run")} failed; '
      'the same command tries again.',
      file=sys.stderr,
    )
  return not outcome.failed and not outcome.waiting
