"""Traces in JSON: an object that maps phones to what was recorded of each.

Intervals have `trace_start`, `trace_end` and a list of pairs for each state;
FedScale has `active`, `inactive` and `finish_time`; FLASH has `messages`.
"""

from collections.abc import Mapping, Sequence
import itertools
import json
from typing import Any, Union

import numpy as np

from f3ast_tff.traces import intervals as intervals_lib
from f3ast_tff.traces import logs as logs_lib
from f3ast_tff.traces import recording as recording_lib

_Phone = Mapping[str, Any]
_Pairs = tuple[np.ndarray, np.ndarray]
_short = recording_lib.short
_NUMBER = (int, float)
_KINDS = {list: 'a list', str: 'a text', _NUMBER: 'a number'}


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  found: dict[str, Any] = {}
  for name, value in pairs:
    if name in found:
      raise recording_lib.WrongContent(f'has {_short(name)} twice')
    found[name] = value
  return found


def loads(content: bytes) -> Any:
  """Returns what a file of JSON holds.

  Args:
    content: Its bytes.

  Returns:
    Dictionaries, lists, numbers and texts; NaN counts as a number here.

  Raises:
    WrongContent: If it is no JSON, or names something twice.
  """
  try:
    return json.loads(content, object_pairs_hook=_no_duplicates)
  except RecursionError as error:
    raise recording_lib.WrongContent('is nested too deeply') from error
  except recording_lib.WrongContent:
    raise
  except ValueError as error:  # Also what is no UTF-8, or a number too long.
    raise recording_lib.WrongContent(f'is no JSON ({error})') from error


def recording_of(
  phones: Any, states: Sequence[str]
) -> recording_lib.Recording:
  """Returns what was recorded.

  Args:
    phones: What the file maps its phones to.
    states: Which states are asked for.

  Returns:
    The recording, its times not checked yet.

  Raises:
    WrongContent: If it is in none of the formats.
  """
  if not isinstance(phones, dict):
    raise recording_lib.WrongContent('does not map phones to what they did')
  if not phones:
    raise recording_lib.WrongContent('has no phones')
  for name, phone in phones.items():
    if not isinstance(phone, dict):
      raise recording_lib.WrongContent(
        f'has a {type(phone).__name__} instead of an object for phone '
        f'{_short(name)}'
      )
  name, first = next(iter(phones.items()))
  if 'messages' in first:
    return _logs(phones, states)
  if 'active' in first:
    return _fedscale(phones, states)
  if 'trace_start' in first:
    return _intervals(phones, states)
  raise recording_lib.WrongContent(
    f'has for phone {_short(name)} neither trace_start (intervals) nor active '
    '(FedScale) nor messages (FLASH)'
  )


def _field(name: str, phone: _Phone, field: str, kind: Any) -> Any:
  """Returns a field of a phone."""
  found = phone.get(field)
  if not isinstance(found, kind) or isinstance(found, bool):
    raise recording_lib.WrongContent(
      f'has for phone {_short(name)} no field {_short(field)} that is '
      f'{_KINDS[kind]}'
    )
  return found


def _float(value: Union[int, float]) -> float:
  try:
    return float(value)
  except OverflowError:
    return np.inf  # Which is refused when the times are checked.


def _number_of_each(phones: Mapping[str, _Phone], field: str) -> np.ndarray:
  return np.array([
    _float(_field(name, phone, field, _NUMBER))
    for name, phone in phones.items()
  ])


def _times(name: str, field: str, values: Sequence[Any]) -> np.ndarray:
  if not set(map(type, values)) <= set(_NUMBER):
    raise recording_lib.WrongContent(
      f'has for phone {_short(name)} something else than numbers in '
      f'{_short(field)}'
    )
  try:
    return np.array(values, float)
  except OverflowError:
    return np.array([_float(value) for value in values])


def _together(of_phones: Sequence[_Pairs]) -> intervals_lib.Intervals:
  """Returns the intervals of all phones from starts and ends of each."""
  sizes = [starts.size for starts, _ in of_phones]
  return intervals_lib.Intervals(
    np.repeat(np.arange(len(sizes)), sizes),
    np.concatenate([starts for starts, _ in of_phones]),
    np.concatenate([ends for _, ends in of_phones]),
  )


def _intervals(
  phones: Mapping[str, _Phone], states: Sequence[str]
) -> recording_lib.Recording:
  if recording_lib.READY not in next(iter(phones.values())):
    states = recording_lib.with_parts_of_ready(states)

  def pairs(name: str, field: str) -> _Pairs:
    found = _field(name, phones[name], field, list)
    if not all(type(pair) is list and len(pair) == 2 for pair in found):
      raise recording_lib.WrongContent(
        f'has for phone {_short(name)} something else than [start, end] in '
        f'{_short(field)}'
      )
    times = _times(name, field, list(itertools.chain.from_iterable(found)))
    return times[::2], times[1::2]

  return recording_lib.Recording(
    list(phones),
    _number_of_each(phones, 'trace_start'),
    _number_of_each(phones, 'trace_end'),
    {
      state: _together([pairs(name, state) for name in phones])
      for state in states
    },
  )


def _fedscale(
  phones: Mapping[str, _Phone], states: Sequence[str]
) -> recording_lib.Recording:
  recording_lib.check_only_ready(states, "FedScale's")
  ends = _number_of_each(phones, 'finish_time')

  def pairs(name: str, end: float) -> _Pairs:
    starts, stops = (
      _times(name, field, _field(name, phones[name], field, list))
      for field in ('active', 'inactive')
    )
    if starts.size != stops.size:
      raise recording_lib.WrongContent(
        f'has for phone {_short(name)} {starts.size} times in active and '
        f'{stops.size} in inactive'
      )
    # FedScale takes its time modulo finish_time, and looks at nothing beyond.
    is_seen = ~(starts >= end)
    return starts[is_seen], np.minimum(stops, end)[is_seen]

  return recording_lib.Recording(
    list(phones),
    np.zeros(len(phones)),
    ends,
    {
      recording_lib.READY: _together([
        pairs(name, end) for name, end in zip(phones, ends)
      ])
    },
  )


def _logs(
  phones: Mapping[str, _Phone], states: Sequence[str]
) -> recording_lib.Recording:
  states = recording_lib.with_parts_of_ready(states)
  unknown = sorted(set(states) - set(logs_lib.STATES))
  if unknown:
    raise recording_lib.WrongContent(
      f"is FLASH's, which has the states {recording_lib.READY}, "
      f'{", ".join(logs_lib.STATES)}; but trace_state has {_short(unknown[0])}'
    )
  logs = []
  for name, phone in phones.items():
    try:
      logs.append(logs_lib.read(_field(name, phone, 'messages', str)))
    except logs_lib.LogError as error:
      raise recording_lib.WrongContent(
        f'has for phone {_short(name)} {error}'
      ) from error
  return recording_lib.Recording(
    list(phones),
    np.array([log.begin for log in logs], float),
    np.array([log.end for log in logs], float),
    {
      state: _together([log.states[state] for log in logs]) for state in states
    },
  )
