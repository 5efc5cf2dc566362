"""What a grid would do and how long that takes, before it is run."""

from collections.abc import Callable, Mapping, Sequence
import os

import pandas as pd

from experiments.paper import cell as cells_lib
from experiments.paper import frames
from experiments.paper import results
from f3ast_tff import wording
from f3ast_tff.runs import run_directory

# Seconds a round, tests included, with two runs at a time on 2 cores (AMD EPYC)
# but for the large models, which were timed alone. Only until a cell has been
# timed.
_SECONDS_PER_ROUND = {
  ('paper', 'synthetic'): 0.01,
  ('paper', 'cifar100'): 24.0,
  ('paper', 'shakespeare'): 9.0,
  ('compact', 'cifar100'): 0.4,
  ('compact', 'shakespeare'): 2.2,
}
_START_SECONDS = 10.0  # TensorFlow, the data, compilation.


def seconds_known(known: pd.DataFrame) -> dict[tuple[str, ...], float]:
  """Returns median seconds a round by (preset, dataset), and with method."""
  per_round = known['seconds'] / known['rounds']
  times: dict[tuple[str, ...], float] = {}
  for columns in (['preset', 'dataset'], ['preset', 'dataset', 'method']):
    by = per_round.groupby([known[column] for column in columns])
    times.update(by.median().to_dict())
  return times


def estimate(
  cell: cells_lib.Cell, known: Mapping[tuple[str, ...], float]
) -> float:
  """Returns about how many seconds a cell takes, from `seconds_known`."""
  place = cell.key.preset, cell.key.dataset
  per_round = known.get(
    (*place, cell.key.method), known.get(place, _SECONDS_PER_ROUND[place])
  )
  return _START_SECONDS + per_round * cell.rounds


def estimator(places: cells_lib.Places) -> Callable[[cells_lib.Cell], float]:
  """Returns `estimate` with what the results know."""
  known = seconds_known(frames.values(results.read_all(places.results)))
  return lambda cell: estimate(cell, known)


def text(
  cells: Sequence[cells_lib.Cell], places: cells_lib.Places, jobs: int
) -> str:
  """Returns what `runner.run` would do: a cell's state, time and command."""
  seconds_of = estimator(places)
  num_cores = len(os.sched_getaffinity(0))
  lines, total, span, num_left = [], 0.0, 0.0, 0
  for cell in cells:
    ready = places.resolve(cell)
    done = run_directory.rounds_done(places.folder(cell))
    if ready is not None and places.has_result(ready):
      state = 'finished'
    else:
      seconds = seconds_of(cell) * (1 - min(1.0, done / cell.rounds))
      total += seconds
      # The times of large ones are those on two cores.
      at_a_time = min(jobs, num_cores // 2) if cell.is_large else jobs
      span += seconds / max(1, at_a_time)
      num_left += 1
      state = f'{_duration(seconds)} to run'
      if ready is None:
        state += f', after {cell.after}'
      elif done:
        state += f', from round {done} or a little before'
    lines += [f'{cell.name}: {state}', f'  {(ready or cell).command}']
  lines.append(
    f'{wording.count(len(cells), "cell")}, {num_left} to run: about '
    f'{_duration(total)} of work, '
    f'{_duration(span)} with --jobs={jobs} if there are cores for it'
  )
  return '\n'.join(lines)


def _duration(seconds: float) -> str:
  if seconds < 120:
    return f'{seconds:.0f} s'
  if seconds < 7200:
    return f'{seconds / 60:.0f} min'
  return f'{seconds / 3600:.1f} h'
