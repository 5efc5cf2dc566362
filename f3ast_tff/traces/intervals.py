"""When many phones are in a state: all of their intervals in one sorted array.

Each phone has a track of `stride` whole seconds, one behind the other. The
array holds the seconds at which the state begins and ends, in turn, so that a
second is inside an interval where an odd number of bounds is not above it: one
bisection answers for all phones, and no cursor is kept. Intervals are
[start, end). This module needs NumPy only.
"""

from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np

DAY = 86_400
# No time in seconds is beyond it, but milliseconds since 1970 are.
LATEST = 100_000 * DAY


class Intervals(NamedTuple):
  """Intervals as recorded: of which phone, from when, until when, in seconds.

  Attributes:
    phones: The index of the phone of each interval.
    starts: Where it begins.
    ends: The first second after it.
  """

  phones: np.ndarray
  starts: np.ndarray
  ends: np.ndarray


class Fault(NamedTuple):
  """What is wrong with a phone's intervals.

  Attributes:
    phone: Its index.
    what: What it has that it should not, as the end of a sentence.
  """

  phone: int
  what: str


def sort(intervals: Intervals) -> Intervals:
  """Returns the intervals that are not empty, by phone and start."""
  phones, starts, ends = intervals
  # What is wrong stays, for `fault` to find.
  kept = ~(starts == ends)
  phones, starts, ends = phones[kept], starts[kept], ends[kept]
  order = np.lexsort((starts, phones))
  return Intervals(phones[order], starts[order], ends[order])


def fault(
  intervals: Intervals, begins: np.ndarray, ends: np.ndarray
) -> Optional[Fault]:
  """Returns what is wrong with intervals, None if nothing is.

  Args:
    intervals: The intervals, in the order of `sort`.
    begins: Where the recording of each phone begins.
    ends: Where it ends.

  Returns:
    A fault of one phone.
  """
  phones, starts, stops = intervals

  def said(found: np.ndarray, what: str) -> Optional[Fault]:
    if not found.any():
      return None
    i = int(np.argmax(found))
    return Fault(
      int(phones[i]),
      f'the interval {starts[i]:.16g} to {stops[i]:.16g}, {what}',
    )

  is_number = np.isfinite(starts) & np.isfinite(stops)
  overlap = np.zeros(starts.size, bool)
  if starts.size:
    overlap[1:] = (phones[1:] == phones[:-1]) & (starts[1:] < stops[:-1])
  return (
    said(~is_number, 'which is no pair of numbers')
    or said(starts < 0, 'which begins before 0')
    or said(stops < starts, 'which ends before it begins')
    or said(stops > LATEST, f'but times are seconds up to {LATEST}')
    or said(
      (starts < begins[phones]) | (stops > ends[phones]),
      'which is not inside of its recording',
    )
    or said(overlap, 'which overlaps the one before')
  )


def fault_of_recordings(
  begins: np.ndarray, ends: np.ndarray
) -> Optional[Fault]:
  """Returns what is wrong with where recordings begin and end, or None."""
  is_right = (0 <= begins) & (begins < ends) & (ends <= LATEST)
  if is_right.all():  # NaN is not right.
    return None
  phone = int(np.argmin(is_right))
  return Fault(
    phone,
    f'a recording from {begins[phone]:.16g} to {ends[phone]:.16g}, but it must '
    f'begin at 0 or later and end after that, in seconds up to {LATEST}',
  )


def whole_days(begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
  """Returns how many whole days recordings have, at least 1 each."""
  return np.maximum(1, (ends - begins) // DAY).astype(np.int64)


def stride_of(days: np.ndarray) -> int:
  """Returns the length of a phone's track, more than any recording has."""
  return int(days.max()) * DAY + 1


def bounds_of(
  intervals: Intervals, begins: np.ndarray, days: np.ndarray
) -> np.ndarray:
  """Returns the bounds of faultless intervals, on the tracks of their phones.

  A track begins with the phone's recording and ends after its whole days. At
  whole seconds x, s <= x < e is the same with s and e rounded up.

  Args:
    intervals: The intervals, in the order of `sort`.
    begins: Where the recording of each phone begins, in whole seconds.
    days: How many days of it count.

  Returns:
    Starts and ends in turn, ascending; a start may equal the end before.
  """
  phones = intervals.phones
  pairs = np.stack([intervals.starts, intervals.ends], axis=1)
  seconds = np.ceil(pairs).astype(np.int64) - begins[phones, None]
  seconds = np.minimum(seconds, DAY * days[phones, None])
  seconds = seconds + stride_of(days) * phones.astype(np.int64)[:, None]
  return seconds.ravel()


def intersection(states: Sequence[np.ndarray]) -> np.ndarray:
  """Returns the bounds of the times at which all states hold.

  Args:
    states: The bounds of each state.

  Returns:
    Bounds that ascend strictly: there is no empty interval, and none that
    begins where another one ends.
  """
  bounds, where = np.unique(np.concatenate(states), return_inverse=True)
  turns = np.concatenate([
    np.tile(np.array([1, -1]), state.size // 2) for state in states
  ])
  change = np.bincount(where, turns, bounds.size)
  holds = np.cumsum(change) == len(states)
  return bounds[np.flatnonzero(np.diff(holds, prepend=False))]
