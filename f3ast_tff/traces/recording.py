"""What a file of recorded availability holds, and what can be wrong with it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from f3ast_tff.traces import intervals as intervals_lib

READY = 'ready'
# What phones must be to be ready, where that is not recorded itself.
READY_STATES = ('charging', 'locked', 'wifi')


class TraceError(ValueError):
  """A file is no trace that can be used."""


class WrongContent(ValueError):
  """What is wrong with a file, as a sentence that begins with its name."""


class Recording(NamedTuple):
  """What a file holds.

  Attributes:
    names: What its phones are called.
    begins: Per phone, the second at which its recording begins.
    ends: Per phone, where it ends.
    states: The intervals of each state that was asked for: a phone must be in
      all of them.
  """

  names: Sequence[str]
  begins: np.ndarray
  ends: np.ndarray
  states: Mapping[str, intervals_lib.Intervals]


def short(name: str) -> str:
  """Returns a name for a sentence; whoever made the file chose it."""
  return repr(name if len(name) <= 40 else name[:37] + '...')


def parse_state(text: str) -> tuple[str, ...]:
  """Returns the states that a phone must be in, from `a` or `a+b+c`."""
  states = tuple(text.split('+'))
  if not all(states) or len(set(states)) < len(states):
    raise ValueError(
      'trace_state must read like ready, or charging+wifi for both, but it is '
      f'{text!r}.'
    )
  return states


def check_only_ready(states: Sequence[str], what: str) -> None:
  """Raises WrongContent if another state is asked for than the only one."""
  if tuple(states) != (READY,):
    raise WrongContent(
      f'is {what}, which has one state only; leave trace_state at {READY}'
    )


def with_parts_of_ready(states: Sequence[str]) -> list[str]:
  """Returns states with what makes up `ready` in its place."""
  if READY not in states:
    return sorted(states)
  return sorted({*states, *READY_STATES} - {READY})


def checked(recording: Recording) -> Recording:
  """Returns a recording with its intervals sorted, and right.

  Args:
    recording: What a file holds.

  Returns:
    The same, in the order of `intervals.sort`.

  Raises:
    WrongContent: If something is wrong with the times of a phone.
  """
  names, begins, ends, states = recording
  if not names:
    raise WrongContent('has no phones')
  fault = intervals_lib.fault_of_recordings(begins, ends)
  if fault is not None:
    raise WrongContent(
      f'has for phone {short(names[fault.phone])} {fault.what}'
    )
  in_order = {state: intervals_lib.sort(i) for state, i in states.items()}
  for state, intervals in in_order.items():
    fault = intervals_lib.fault(intervals, begins, ends)
    if fault is not None:
      raise WrongContent(
        f'has for phone {short(names[fault.phone])} in state {short(state)} '
        f'{fault.what}'
      )
  return recording._replace(states=in_order)
