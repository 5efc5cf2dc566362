"""Recorded traces with a clock: who was available when, from a file.

  model = traces.load('trace.json.xz', p, round_seconds=600)
  mask = model(t)             the clients available when round t starts (A_t)
  model.stays(t)              those that stay until it ends
  model.reachable_share(p)    the share of the data that can ever take part

`files` and `json_formats` have the formats, `assignment` says who has which
phone, `clocked` has the model. This package needs NumPy only.
"""

import pathlib
from typing import Union

import numpy as np

from f3ast_tff.traces import assignment as assignment_lib
from f3ast_tff.traces import clocked
from f3ast_tff.traces import recording
from f3ast_tff.traces import trace as trace_lib

ASSIGNMENTS = assignment_lib.ASSIGNMENTS
Assignment = assignment_lib.Assignment
Clocked = clocked.Clocked
Trace = trace_lib.Trace
TraceError = recording.TraceError
assign = assignment_lib.assign
parse_state = recording.parse_state
read = trace_lib.read


def load(
  path: Union[str, pathlib.Path],
  p: np.ndarray,
  *,
  seed: int = 0,
  state: str = recording.READY,
  assignment: str = 'random',
  round_seconds: int = 600,
  trace_start: int = 0,
) -> Clocked:
  """Reads a trace and gives its phones to clients.

  Args:
    path: A file in one of the formats of `files`.
    p: Each client's share of the data.
    seed: Decides who has which phone.
    state: What counts as available: a state of the file, or several that must
      hold at the same time, `charging+wifi`.
    assignment: How phones are assigned, see `assign`.
    round_seconds: From the start of a round to that of the next one.
    trace_start: The second of the clock at which round 1 starts; 0 is a
      midnight.

  Returns:
    The availability model.

  Raises:
    TraceError: If the file is no trace.
    ValueError: If another argument is wrong.
  """
  p = np.asarray(p, float)
  trace = read(path, state)
  return Clocked(
    trace, assign(trace, p, assignment, seed), round_seconds, trace_start
  )
