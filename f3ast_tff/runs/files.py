"""The files that a run writes, row by row and at its end.

`run_directory` lists them; these are their columns.
"""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import pathlib
from typing import Any, NamedTuple

import numpy as np
import psutil
import tensorflow as tf

from f3ast_tff import selection
from f3ast_tff.datasets import federated
from f3ast_tff.execution import rounds as rounds_lib
from f3ast_tff.learning import process as process_lib
from f3ast_tff.methods import fixed_policy
from f3ast_tff.runs import checkpoint
from f3ast_tff.runs import evaluation
from f3ast_tff.runs import run_directory

# They belong to the state. The times that timing.csv holds do not.
ROW_FILES = ('metrics.csv', 'rounds.csv')
TIMING = (
  'round',
  'train_seconds',
  'eval_seconds',
  'checkpoint_seconds',
  'memory_mb',
)


class Progress(NamedTuple):
  """All that a run carries from round to round; what a checkpoint holds.

  Attributes:
    server: The state of the learning process, r included.
    times_available: Per client, in how many rounds it was available.
    times_selected: Per client, in how many rounds it took part.
  """

  server: Any
  times_available: np.ndarray
  times_selected: np.ndarray


def model_weights(state: process_lib.ServerState) -> tuple[Any, Any]:
  """Returns the weights of the model, trainable and other."""
  weights = state.global_model_weights
  return weights.trainable, weights.non_trainable


def row(round_: rounds_lib.Round, t: int, k: int) -> dict[str, Any]:
  """Returns the row of a round in `rounds.csv`."""
  measured = round_.metrics['selection']
  return {
    'round': t,
    'available': int(round_.available.sum()),
    'k': k,
    'selected': int(measured['selected']),
    'left_out': int(measured['excluded']),
    'empty': int(measured['selected'] == 0),
    'sum_of_weights': float(measured['sum_of_weights']),
    'variance_bound': float(measured['variance_bound']),
    'train_loss': float(round_.metrics['client_work']['train']['loss']),
    'clients': ' '.join(map(str, round_.cohort.clients)),
  }


@contextlib.contextmanager
def writing_events() -> Iterator[None]:
  """Turns TensorFlow's errors of a full disk into those of Python."""
  try:
    yield
  except tf.errors.OpError as error:
    reason = error.message.partition('} ')[2] or error.message
    raise OSError(reason.partition('\n')[0]) from error


def write_test(
  folder: pathlib.Path,
  t: int,
  metrics: evaluation.Metrics,
  round_row: Mapping[str, Any],
) -> None:
  """Writes what a test gave, next to what happened in its round."""
  row = {'round': t, **metrics._asdict(), **round_row}
  del row['clients']
  run_directory.append_row(folder / 'metrics.csv', row)
  with writing_events():
    for name, value in row.items():
      tf.summary.scalar(name, value, step=t)


def write_timing(
  folder: pathlib.Path, t: int, moments: Sequence[float]
) -> None:
  """Writes the seconds between the moments of a round, and the memory."""
  seconds = (f'{end - begin:.6f}' for begin, end in zip(moments, moments[1:]))
  memory = psutil.Process().memory_info().rss // 1_000_000
  row = dict(zip(TIMING, (t, *seconds, memory)))
  run_directory.append_row(folder / 'timing.csv', row)


def write_final_files(
  folder: pathlib.Path,
  dataset: federated.FederatedDataset,
  selector: selection.Selector,
  progress: Progress,
) -> None:
  """Writes each client's participation, and the model."""
  server = progress.server
  run_directory.write_table(
    folder / 'clients.csv',
    ['client', 'examples', 'p', 'times_available', 'times_selected', 'rate'],
    list(
      zip(
        range(len(dataset.train)),
        dataset.num_examples.tolist(),
        selector.p.tolist(),
        progress.times_available.tolist(),
        progress.times_selected.tolist(),
        server.rates.tolist(),
      )
    ),
  )
  if isinstance(selector.policy, fixed_policy.FittedPolicy):
    fixed = selector.policy.fitted
    columns = fixed.target, fixed.realised, fixed.errors
    run_directory.write_table(
      folder / 'fixed_policy.csv',
      ['client', 'target', 'realised', 'standard_error'],
      list(zip(range(fixed.target.size), *(c.tolist() for c in columns))),
    )
  trainable, non_trainable = model_weights(server)
  arrays = {f'trainable_{i}': w for i, w in enumerate(trainable)}
  arrays |= {f'non_trainable_{i}': w for i, w in enumerate(non_trainable)}
  run_directory.write_atomically(
    folder / 'model.npz', checkpoint.npz(rates=server.rates, **arrays)
  )
