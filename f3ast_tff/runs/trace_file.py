"""A run on a recorded trace, `--avail=trace:FILE`, and its `phones.csv`."""

import csv
import io
import pathlib
import textwrap
from typing import Optional

import numpy as np

from f3ast_tff import availability
from f3ast_tff import selector as selector_lib
from f3ast_tff import traces
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import run_directory

PHONES = 'phones.csv'
_COLUMNS = 80  # Of what is printed.


def _file(config: config_lib.Config) -> Optional[str]:
  """Returns the file that the settings name, None if they name no trace."""
  name, values = availability.read(config.avail)
  return values[0] if name == 'trace' else None


def of(config: config_lib.Config) -> Optional[traces.Trace]:
  """Returns the trace that the settings name, None if they name none."""
  file = _file(config)
  return None if file is None else traces.read(file, config.trace_state)


def model_of(
  config: config_lib.Config, p: np.ndarray, seed: int
) -> Optional[traces.Clocked]:
  """Returns the model that the settings describe, None if it is no trace."""
  trace = of(config)
  if trace is None:
    return None
  return traces.Clocked(
    trace,
    traces.assign(trace, p, config.trace_assignment, seed),
    config.round_seconds,
    config.trace_start,
  )


def begin(folder: pathlib.Path, selector: selector_lib.Selector) -> None:
  """Writes who has which phone, and prints what can be reached.

  Args:
    folder: The run's folder.
    selector: The selector; nothing happens if it is not on a trace.
  """
  model = selector.availability
  if not isinstance(model, traces.Clocked):
    return
  delivery = selector.delivery
  to_the_end = delivery is not None and delivery.stays is not None
  phones, shifts = (column.tolist() for column in model.assignment)
  shares = model.shares_of_rounds(to_the_end).tolist()
  text = io.StringIO()
  writer = csv.writer(text, lineterminator='\n')
  writer.writerow(['client', 'phone', 'shift_days', 'share_of_rounds'])
  for client, phone in enumerate(phones):
    name = model.trace.names[phone]
    writer.writerow([client, name, shifts[client], shares[client]])
  run_directory.write_atomically(folder / PHONES, text.getvalue())
  reachable = model.reachable_share(selector.p, to_the_end)
  when = 'for all of a round' if to_the_end else 'when a round starts'
  said = (
    f'The trace has {len(model.trace.names)} phones for {model.num_clients} '
    f'clients. Those that are ever available {when} have '
    f'{reachable:.4f} of the objective (the reachable share of p); no method '
    f'can be unbiased for the others. {PHONES} has who has which phone.'
  )
  print(textwrap.fill(said, _COLUMNS), flush=True)
