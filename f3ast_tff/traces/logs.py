"""What a phone logs of itself, line by line, as intervals of its states.

A line is a time, a tab and an event, as in the logs of FLASH (Yang et al., WWW
2021). Times are those of the phone's own calendar: hours stay hours. Before the
first event of a kind a phone is taken not to be in the state; a state that is
open at the end ends with the log.
"""

import datetime
import re
from typing import NamedTuple, Optional

import numpy as np

STATES = ('charging', 'locked', 'wifi')

# Which state an event turns on or off; None for what changes none.
_EVENTS: dict[str, Optional[tuple[str, bool]]] = {
  'battery_charged_on': ('charging', True),
  'battery_charged_off': ('charging', False),
  'wifi': ('wifi', True),
  **dict.fromkeys(('2g', '3g', '4g', '5g', 'unknown'), ('wifi', False)),
  'screen_lock': ('locked', True),
  'screen_unlock': ('locked', False),
  'screen_on': None,
  'screen_off': None,
}
_TIME = re.compile('[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}')
_ZERO = datetime.datetime(1970, 1, 1)
_SECOND = datetime.timedelta(seconds=1)


class LogError(ValueError):
  """What a log has that it should not, as the end of a sentence."""


class Log(NamedTuple):
  """The states of a phone.

  Attributes:
    begin: The second of its first line.
    end: The second of its last one, or the next if there is one line only.
    states: Starts and ends of the intervals of each state.
  """

  begin: int
  end: int
  states: dict[str, tuple[np.ndarray, np.ndarray]]


def _event(line: str) -> tuple[int, str]:
  """Returns the second and the name of an event."""
  time, _, event = line.partition('\t')
  time, event = time.strip(), event.strip().lower()
  if event not in _EVENTS and not event.endswith('%'):
    raise LogError(
      f'the event {event[:40]!r}, which is none of {", ".join(_EVENTS)} or a '
      'level in %'
    )
  try:
    if not _TIME.fullmatch(time):
      raise ValueError
    moment = datetime.datetime.fromisoformat(time)
  except ValueError as error:
    raise LogError(
      f'the time {time[:40]!r}, which must read like 2020-01-31 18:00:40'
    ) from error
  return (moment - _ZERO) // _SECOND, event


def read(messages: str) -> Log:
  """Reads a log.

  Args:
    messages: Its lines, in any order.

  Returns:
    Where it begins and ends, and its intervals; there may be empty ones.

  Raises:
    LogError: If a line is no event.
  """
  # Stable: what happens in the same second happens in the order of the log.
  events = sorted(
    (_event(line) for line in messages.splitlines() if line.strip()),
    key=lambda event: event[0],
  )
  if not events:
    raise LogError('no events')
  begin, end = events[0][0], events[-1][0]
  since: dict[str, int] = {}
  found: dict[str, list[int]] = {state: [] for state in STATES}
  for second, event in events:
    change = _EVENTS.get(event)
    if change is None:
      continue
    state, is_on = change
    if is_on:
      since.setdefault(state, second)
    elif state in since:
      found[state] += since.pop(state), second
  for state, start in since.items():
    found[state] += start, end
  bounds = {state: np.array(times, float) for state, times in found.items()}
  return Log(
    begin,
    max(end, begin + 1),
    {state: (b[::2], b[1::2]) for state, b in bounds.items()},
  )
