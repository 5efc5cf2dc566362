"""Tests of `traces.logs`."""

import sys

import pytest

from f3ast_tff.traces import logs

# Seconds of 2020-01-31 00:00:00 since 1970: 18,292 days.
_MIDNIGHT = 18_292 * 86_400

_LOG = """
2020-01-31 00:00:10\tscreen_lock
2020-01-31 00:00:20\tBattery_Charged_On
2020-01-31 00:00:25\t87.0%
2020-01-31 00:00:30\twifi
2020-01-31 00:00:35\tbattery_charged_on
2020-01-31 00:00:40\t4G
2020-01-31 00:01:00\tscreen_on
2020-01-31 00:01:00\tscreen_unlock
2020-01-31 00:01:10\twifi
2020-01-31 00:01:10\tUnknown
2020-01-31 00:02:00\tbattery_charged_off
2020-01-31 00:02:10\tbattery_charged_off

2020-01-31 00:02:20\tscreen_lock
2020-02-01 00:00:10\tscreen_off
"""
_STATES = {
  'locked': [(10, 60), (140, 86_410)],
  'charging': [(20, 120)],
  'wifi': [(30, 40), (70, 70)],
}


def _states(log):
  return {
    state: [(s - _MIDNIGHT, e - _MIDNIGHT) for s, e in zip(*pairs)]
    for state, pairs in log.states.items()
  }


def test_a_log_by_hand():
  log = logs.read(_LOG)
  assert (log.begin, log.end) == (_MIDNIGHT + 10, _MIDNIGHT + 86_410)
  assert _states(log) == _STATES
  # In another order, but for what is in the same second.
  lines = _LOG.strip().splitlines()
  assert _states(logs.read('\r\n'.join(lines[8:] + lines[:8]))) == _STATES


def test_a_single_line_is_a_recording_of_a_second():
  log = logs.read('2020-01-31 00:00:00\twifi')
  assert (log.begin, log.end) == (_MIDNIGHT, _MIDNIGHT + 1)
  assert _states(log) == {'charging': [], 'locked': [], 'wifi': [(0, 0)]}


@pytest.mark.parametrize(
  'line, message',
  [
    ('', 'no events'),
    ('2020-01-31 00:00:00\tbattery_ok', "the event 'battery_ok', which"),
    ('2020-01-31 00:00:00 wifi', "the event '', which"),
    ('2020-01-32 00:00:00\twifi', "the time '2020-01-32 00:00:00', which must"),
    ('2020-01-31T00:00:00\twifi', 'must read like 2020-01-31 18:00:40'),
    ('20200131T1800+00:00\twifi', 'must read like 2020-01-31 18:00:40'),
    ('yesterday\twifi', "the time 'yesterday', which must read"),
  ],
)
def test_what_is_no_event_is_named(line, message):
  with pytest.raises(logs.LogError, match=message):
    logs.read(line)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
