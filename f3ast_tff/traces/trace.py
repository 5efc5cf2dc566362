"""A trace: when phones were available, by bisection at any second."""

import dataclasses
import functools
import hashlib
import pathlib
from typing import Union

import numpy as np

from f3ast_tff.traces import files
from f3ast_tff.traces import intervals as intervals_lib
from f3ast_tff.traces import recording as recording_lib


@dataclasses.dataclass(frozen=True, eq=False)
class Trace:
  """Recorded phones, each of which repeats after its own whole days.

  Attributes:
    names: What the phones are called.
    begins: Per phone, the second at which its recording begins. Second 0 of the
      clock is a midnight.
    days: Per phone, after how many days its recording repeats.
    bounds: When phones turn available and when not, in turn: see `intervals`.
    path: The file that it is from.
    sha256: The digest of that file.
  """

  names: tuple[str, ...]
  begins: np.ndarray
  days: np.ndarray
  bounds: np.ndarray
  path: str = ''
  sha256: str = ''

  @functools.cached_property
  def stride(self) -> int:
    """The seconds of a phone's track in `bounds`."""
    return intervals_lib.stride_of(self.days)

  @functools.cached_property
  def firsts(self) -> np.ndarray:
    """Where in `bounds` each phone begins, and behind the last one its end."""
    tracks = self.stride * np.arange(len(self.names) + 1)
    return np.searchsorted(self.bounds, tracks)

  @functools.cached_property
  def shares(self) -> np.ndarray:
    """Per phone, the share of its time in which it is available."""
    seconds = self.bounds[1::2] - self.bounds[::2]
    total = np.concatenate([[0], np.cumsum(seconds)])[self.firsts // 2]
    return np.diff(total) / (intervals_lib.DAY * self.days)


def read(
  path: Union[str, pathlib.Path], state: str = recording_lib.READY
) -> Trace:
  """Reads a trace.

  Args:
    path: A file in one of the formats of `files`.
    state: What counts as available: a state of the file, or several that must
      hold at the same time, `charging+wifi`.

  Returns:
    The trace.

  Raises:
    TraceError: If the file is none.
  """
  path = pathlib.Path(path)
  content = files.content_of(path)
  recording = files.parse(path, content, recording_lib.parse_state(state))
  begins = np.floor(recording.begins).astype(np.int64)
  days = intervals_lib.whole_days(recording.begins, recording.ends)
  bounds = intervals_lib.intersection([
    intervals_lib.bounds_of(intervals, begins, days)
    for intervals in recording.states.values()
  ])
  if not bounds.size:
    raise recording_lib.TraceError(
      f'The trace {path} has no phone that is ever {state}; choose another '
      'trace_state or file.'
    )
  return Trace(
    tuple(recording.names),
    begins,
    days,
    bounds,
    str(path),
    hashlib.sha256(content).hexdigest(),
  )
