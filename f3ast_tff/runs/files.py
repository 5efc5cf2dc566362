"""The files that a run writes, row by row and at its end.

`run_directory` lists them; these are their columns.
"""

from collections.abc import Sequence
import pathlib
from typing import Any, NamedTuple

import numpy as np
import psutil

from f3ast_tff import selector as selector_lib
from f3ast_tff.datasets import federated
from f3ast_tff.execution import rounds as rounds_lib
from f3ast_tff.learning import server as server_lib
from f3ast_tff.methods import fixed_policy
from f3ast_tff.runs import checkpoint
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
    server: The state of the learning process, r included; empty while rounds
      are run, which have it.
    times_available: Per client, in how many rounds it was available.
    times_selected: Per client, in how many rounds it was selected.
    times_delivered: Per client, in how many rounds it delivered an update.
  """

  server: Any
  times_available: np.ndarray
  times_selected: np.ndarray
  times_delivered: np.ndarray

  def counting(self, round_: rounds_lib.Round) -> 'Progress':
    """Returns it with one more round counted."""
    selected, delivered = (
      self.times_selected.copy(), self.times_delivered.copy()
    )
    selected[round_.selected] += 1
    delivered[round_.delivered] += 1
    available = self.times_available + round_.available
    return Progress(self.server, available, selected, delivered)


def model_weights(state: server_lib.ServerState) -> tuple[Any, Any]:
  """Returns the weights of the model, trainable and other."""
  weights = state.global_model_weights
  return weights.trainable, weights.non_trainable


def columns(
  round_: rounds_lib.Round, k: int, all_deliver: bool = True
) -> dict[str, Any]:
  """Returns what `rounds.csv` has of a round."""
  measured = round_.metrics['selection']
  lost = np.intersect1d(round_.cohort.clients, round_.lost)
  weights = dict(zip(*(each.tolist() for each in round_.cohort)))
  selected = round_.selected.tolist()
  of_delivery = {
    'delivered': round_.delivered.size,
    'lost': ' '.join(map(str, round_.lost)),
  }
  return {
    'available': int(round_.available.sum()),
    'k': k,
    'selected': len(selected),
    'left_out': int(measured['excluded']) - lost.size,
    'empty': int(not selected),
    'sum_of_weights': float(measured['sum_of_weights']),
    'variance_bound': float(measured['variance_bound']),
    'train_loss': float(round_.metrics['client_work']['train']['loss']),
    **({} if all_deliver else of_delivery),
    'clients': ' '.join(map(str, selected)),
    'weights': ' '.join(f'{weights.get(k, 0.0):.6g}' for k in selected),
  }


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
  selector: selector_lib.Selector,
  progress: Progress,
) -> None:
  """Writes each client's participation, and the model."""
  server = progress.server
  table = {
    'client': np.arange(len(dataset.train)),
    'examples': dataset.num_examples,
    'p': selector.p,
    'times_available': progress.times_available,
    'times_selected': progress.times_selected,
    'times_delivered': progress.times_delivered,
    'rate': server.rates,
  }
  if selector.delivery is None:
    del table['times_delivered']
  run_directory.write_table(
    folder / 'clients.csv',
    list(table),
    list(zip(*(column.tolist() for column in table.values()))),
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
