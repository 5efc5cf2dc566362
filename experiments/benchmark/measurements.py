"""What a benchmark reads from the files of a finished run."""

from collections.abc import Iterator
import math
import pathlib
from typing import Any, Optional

import numpy as np
import pandas as pd

from experiments.benchmark import statistics
from f3ast_tff.runs import divergence
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import run_tables


def _numbers(texts: pd.Series) -> list[list[float]]:
  """Returns the numbers of texts; pandas reads some as a number, or as NaN."""
  return [
    [] if pd.isna(text) else [float(each) for each in str(text).split()]
    for text in texts
  ]


def _cohorts(
  rounds: pd.DataFrame,
) -> Iterator[tuple[list[int], list[float]]]:
  """Yields the clients and weights of the last half of the rounds."""
  late = rounds[rounds['round'] > rounds['round'].max() / 2]
  for clients, weights in zip(
    _numbers(late['clients']), _numbers(late['weights'])
  ):
    yield list(map(int, clients)), weights


def misplaced(folder: pathlib.Path) -> float:
  """Returns the bias of a run's weights in the last half of its rounds.

  Args:
    folder: The run's folder.

  Returns:
    As `statistics.misplaced`; NaN if the run did not record its weights.

  Raises:
    RunDirectoryError: If its files are not those of a run.
  """
  rounds = run_tables.read(folder / 'rounds.csv', ('round',))
  path = folder / 'clients.csv'
  if not {'clients', 'weights'} <= set(rounds) or not path.exists():
    return math.nan
  p = run_tables.read(path, ('client', 'p')).sort_values('client')['p']
  try:
    return statistics.misplaced(_cohorts(rounds), p.to_numpy(float))
  except (ValueError, IndexError) as error:
    raise run_directory.RunDirectoryError(
      f'{folder / "rounds.csv"} has clients or weights that cannot be read '
      f'({error}); make the run again.'
    ) from error


def examples_per_round(folder: pathlib.Path) -> float:
  """Returns how many examples the clients of a round hold, as a mean."""
  rounds = run_tables.read(folder / 'rounds.csv', ('round',))
  trained = run_tables.examples_trained(folder, rounds)
  return math.nan if trained is None else trained.iloc[-1] / len(rounds)


def _column(timing: pd.DataFrame, name: str) -> Optional[np.ndarray]:
  return timing[name].to_numpy(float) if name in timing else None


def cost(folder: pathlib.Path) -> dict[str, float]:
  """Returns the median seconds of a round, and the highest memory in MB."""
  timing = run_tables.read(folder / 'timing.csv', ('round',))
  seconds = _column(timing, 'train_seconds')
  memory = _column(timing, 'memory_mb')
  return {
    'seconds_per_round': math.nan if seconds is None else np.median(seconds),
    'peak_memory_mb': math.nan if memory is None else memory.max(),
  }


def has_diverged(tests: pd.DataFrame) -> bool:
  """Returns whether the last test of a run says that it has diverged."""
  loss = tests['loss'].iloc[-1]
  return not (math.isfinite(loss) and loss <= divergence.MAX_LOSS)


def of_run(folder: pathlib.Path) -> dict[str, Any]:
  """Returns what of a run is not in the curves."""
  return {
    'misplaced': misplaced(folder),
    'examples_per_round': examples_per_round(folder),
    **cost(folder),
  }
