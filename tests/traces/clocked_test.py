"""Tests of `traces.clocked` and `traces.trace`."""

import dataclasses
import json
import math
import pathlib
import sys
import tracemalloc

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import traces

_DAY = 86_400
_HOUR = 3600

# Phone 0 has one day, from a midnight: ready until 1:00, from 2:00 to 2:30 and
# from 23:00 on. Phone 1 has two days, from a noon: ready in its first hour, and
# from 0:00 to 6:00 of the second night, 36 hours after the noon. Phone 2 never.
_RECORDED = {
  '0': {
    'trace_start': 0,
    'trace_end': _DAY,
    'ready': [[0, _HOUR], [2 * _HOUR, 9000], [23 * _HOUR, _DAY]],
  },
  '1': {
    'trace_start': _DAY // 2,
    'trace_end': _DAY // 2 + 2 * _DAY,
    'ready': [[12 * _HOUR, 13 * _HOUR], [48 * _HOUR, 54 * _HOUR]],
  },
  '2': {'trace_start': 77, 'trace_end': _DAY + 77, 'ready': []},
}


@pytest.fixture
def path(tmp_path):
  path = tmp_path / 'trace.json'
  path.write_text(json.dumps(_RECORDED))
  return path


def _load(path, **settings):
  return traces.load(
    path, np.array([0.5, 0.3, 0.2]), assignment='by_name', **settings
  )


def test_masks_by_hand(path):
  model = _load(path, round_seconds=_HOUR)
  assert model.num_clients == 3 and not model.positively_correlated
  # Round t is at t - 1 o'clock of the first day, the second, and so on.
  hours = {
    0: [1, 1, 0],  # Phone 1: its trace has the nights of day 1 and 2.
    1: [0, 1, 0],
    2: [1, 1, 0],
    5: [0, 1, 0],
    6: [0, 0, 0],
    12: [0, 1, 0],
    13: [0, 0, 0],
    23: [1, 0, 0],
    24: [1, 0, 0],
    36: [0, 0, 0],
    47: [1, 0, 0],
    48: [1, 1, 0],  # All of it again, after two days.
    60: [0, 1, 0],
  }
  for hour, mask in hours.items():
    assert model(hour + 1).tolist() == [bool(k) for k in mask], hour
  # The end of an interval does not belong to it: 2:30:00.
  for second, is_there in ((8999, True), (9000, False), (7199, False)):
    at = _load(path, round_seconds=1, trace_start=second)
    assert at(1)[0] == is_there
    later = _load(path, round_seconds=10, trace_start=second - 50)
    assert later(6)[0] == is_there
  # Far away, in any order.
  rounds = [10**9, 3, 48 * 10**7 + 3, 1]
  masks = {t: model(t) for t in rounds}
  for t in reversed(rounds):
    np.testing.assert_array_equal(model(t), masks[t])
  np.testing.assert_array_equal(masks[48 * 10**7 + 3], masks[3])
  for t in (0, -1):
    with pytest.raises(ValueError, match='Rounds count from 1'):
      model(t)


def test_who_stays_by_hand(path):
  model = _load(path, round_seconds=_HOUR)
  assert model.seconds_left(1).tolist() == [_HOUR, 6 * _HOUR, 0]
  assert model.stays(1).tolist() == [True, True, False]
  # From 2:00 on, phone 0 is ready for half an hour.
  assert model.seconds_left(3).tolist() == [1800, 4 * _HOUR, 0]
  assert model.stays(3).tolist() == [False, True, False]
  # From 23:00 on it is ready until 1:00 of the day after.
  assert model.seconds_left(24).tolist() == [2 * _HOUR, 0, 0]
  two = _load(path, round_seconds=2 * _HOUR, trace_start=12 * _HOUR)
  assert two(1).tolist() == [False, True, False]
  assert two.stays(1).tolist() == [False, False, False]


def test_a_phone_that_is_always_ready_stays(path):
  path.write_text('client,start,end\nx,0,86400\nx,86400,172800\n')
  model = traces.load(path, [1.0], round_seconds=10**9)
  assert model.seconds_left(5).tolist() == [math.inf]
  assert model.stays(5).all() and model.probabilities(1) == [1]
  assert model.shares_of_rounds(to_the_end=True) == [1]


def test_shares_of_rounds_by_hand(path):
  hourly = _load(path, round_seconds=_HOUR)
  # 0, 2, and 23 o'clock of one day; 12 and 0 to 5 o'clock of two.
  np.testing.assert_allclose(hourly.probabilities(9), [3 / 24, 7 / 48, 0])
  assert hourly.reachable_share(np.array([0.5, 0.3, 0.2])) == 0.8
  # At 2 o'clock phone 0 does not stay for an hour, at 23 o'clock it does.
  whole = hourly.shares_of_rounds(to_the_end=True)
  np.testing.assert_allclose(whole, [2 / 24, 7 / 48, 0])
  # By the second, they are the shares of the time.
  np.testing.assert_allclose(
    _load(path, round_seconds=1).probabilities(1), hourly.trace.shares
  )
  np.testing.assert_allclose(hourly.trace.shares, [2.5 / 24, 7 / 48, 0])
  # Once a day at 2:15, nobody else is ever found.
  daily = _load(path, round_seconds=_DAY, trace_start=8100)
  np.testing.assert_allclose(daily.probabilities(1), [1, 1 / 2, 0])
  at_six = _load(path, round_seconds=_DAY, trace_start=6 * _HOUR)
  assert at_six.reachable_share(np.array([0.5, 0.3, 0.2])) == 0
  # Phone 0 is never there for four hours in a row, though some rounds find it.
  long = _load(path, round_seconds=4 * _HOUR)
  assert long.reachable_share(np.array([0.5, 0.3, 0.2])) == 0.8
  assert long.reachable_share(np.array([0.5, 0.3, 0.2]), to_the_end=True) == 0.3


def test_a_shift_is_of_whole_days(path):
  model = _load(path, round_seconds=_HOUR)
  phones, shifts = np.array([1, 1, 0]), np.array([0, 1, 0])
  shifted = dataclasses.replace(
    model, assignment=traces.Assignment(phones, shifts)
  )
  for t in range(1, 49):
    mask = shifted(t)
    assert mask[0] == model(t)[1]
    assert mask[1] == model(t + 24)[1]
    assert mask[2] == model(t)[0]
  np.testing.assert_allclose(
    shifted.probabilities(1), [7 / 48, 7 / 48, 3 / 24]
  )


@pytest.mark.parametrize(
  'settings, message',
  [
    ({'round_seconds': 0}, 'round_seconds must be from 1 to'),
    ({'round_seconds': 10**10}, 'round_seconds must be from 1 to'),
    ({'trace_start': -1}, 'trace_start must be from 0 to'),
    ({'assignment': 'best'}, 'trace_assignment must be one of random, most_'),
  ],
)
def test_wrong_settings(settings, message, path):
  with pytest.raises(ValueError, match=message):
    traces.load(path, np.full(3, 1 / 3), **settings)


@st.composite
def _clocked(draw):
  """Returns a model of some phones of few intervals, and what it is made of."""
  recorded = []
  for _ in range(draw(st.integers(1, 3))):
    begin = draw(st.integers(0, 2 * _DAY))
    days = draw(st.integers(1, 3))
    # Bounds at the ends of the recording are likely, those near each other too.
    seconds = st.integers(0, days * _DAY) | st.integers(0, 5) | st.just(
      days * _DAY
    )
    times = draw(st.lists(seconds, unique=True, max_size=8))
    recorded.append((begin, days, sorted(times)[: len(times) // 2 * 2]))
  stride = max(days for _, days, _ in recorded) * _DAY + 1
  trace = traces.Trace(
    tuple(map(str, range(len(recorded)))),
    np.array([begin for begin, _, _ in recorded]),
    np.array([days for _, days, _ in recorded]),
    np.array([
      k * stride + x for k, (_, _, times) in enumerate(recorded) for x in times
    ], int),
  )
  phones = draw(st.lists(st.integers(0, len(recorded) - 1), min_size=1))
  shifts = [draw(st.integers(0, recorded[k][1] - 1)) for k in phones]
  model = traces.Clocked(
    trace,
    traces.Assignment(np.array(phones), np.array(shifts)),
    draw(st.sampled_from([1, 7, 600, 3600, 86_400, 100_000, 54_321])),
    draw(st.integers(0, 3 * _DAY)),
  )
  return model, recorded


@hypothesis.given(_clocked(), st.lists(st.integers(1, 10**6), max_size=5))
def test_a_model_does_what_a_loop_over_intervals_does(clocked, rounds):
  model, recorded = clocked

  def is_there(client, second):
    begin, days, times = recorded[model.assignment.phones[client]]
    shift = int(model.assignment.shifts[client])
    x = (second + shift * _DAY - begin) % (days * _DAY)
    return any(s <= x < e for s, e in zip(times[::2], times[1::2]))

  def left(client, second):
    """Walks from bound to bound, twice around."""
    begin, days, times = recorded[model.assignment.phones[client]]
    now = second
    for _ in range(2 * len(times) + 4):
      if not is_there(client, now):
        return now - second
      shift = int(model.assignment.shifts[client])
      x = (now + shift * _DAY - begin) % (days * _DAY)
      now += min(t for t in [*times, days * _DAY] if t > x) - x
    return math.inf

  for t in rounds:
    second = model.trace_start + (t - 1) * model.round_seconds
    clients = range(model.num_clients)
    assert model(t).tolist() == [is_there(k, second) for k in clients]
    assert model.seconds_left(t).tolist() == [left(k, second) for k in clients]
    stays = [left(k, second) >= model.round_seconds for k in clients]
    assert model.stays(t).tolist() == stays
  # All of what recurs.
  if model.round_seconds > 500:
    period = math.lcm(6 * _DAY, model.round_seconds) // model.round_seconds
    if period <= 900:
      masks = [model(t) for t in range(1, period + 1)]
      np.testing.assert_allclose(model.probabilities(1), np.mean(masks, axis=0))
      stay = [model.stays(t) for t in range(1, period + 1)]
      np.testing.assert_allclose(
        model.shares_of_rounds(to_the_end=True), np.mean(stay, axis=0)
      )
  assert (model.probabilities(1) <= 1).all()


def test_a_mask_of_many_clients_takes_a_byte_each_and_little_more(path):
  n = 400_000
  model = traces.load(path, np.full(n, 1 / n))
  model(1)  # What is kept.
  tracemalloc.start()
  try:
    mask = model(2)
    _, peak = tracemalloc.get_traced_memory()
  finally:
    tracemalloc.stop()
  assert mask.sum() > 0 and peak < n + 2**20


_REAL = (
  pathlib.Path(__file__).parents[3]
  / 'shared' / 'data' / 'traces' / 'flash_intervals_100.json.xz'
)  # fmt: skip


@pytest.mark.skipif(not _REAL.exists(), reason='needs a trace of 100 phones')
def test_what_is_known_of_a_real_trace():
  # Measured by others on the same file, without this package.
  ready, charging = (traces.read(_REAL, s) for s in ('ready', 'charging'))
  assert ready.shares.mean() == pytest.approx(0.061, abs=5e-4)
  assert np.median(ready.shares) == pytest.approx(0.017, abs=5e-4)
  assert (ready.shares == 0).sum() == 32
  assert charging.shares.mean() == pytest.approx(0.215, abs=5e-4)
  assert (charging.shares == 0).sum() == 5
  seconds = np.diff(ready.bounds)[::2]
  assert seconds.size == 1073
  assert np.median(seconds) == 208
  assert round(seconds.mean()) == 2094
  assert np.quantile(seconds, 0.9, method='higher') == 5129
  both = traces.read(_REAL, 'charging+wifi+locked')
  np.testing.assert_array_equal(both.bounds, ready.bounds)
  p = np.full(100, 0.01)
  model = traces.load(_REAL, p, assignment='by_name')
  # The share of the phones' days at each minute, by hours.
  minutes = [
    np.average(
      dataclasses.replace(
        model, round_seconds=_DAY, trace_start=60 * minute
      ).probabilities(1),
      weights=ready.days,
    )
    for minute in range(0, 24 * 60, 5)
  ]
  hours = np.reshape(minutes, (24, -1)).mean(axis=1)
  assert np.argmax(hours) == 2 and set(np.argsort(hours)[:2]) == {10, 13}
  known = [0.083, 0.032, 0.032]
  np.testing.assert_allclose(hours[[2, 10, 13]], known, atol=5e-4)
  # How long a ready phone stays so.
  left = np.concatenate([model.seconds_left(t) for t in range(1, 3000)])
  stays = [np.mean(left[left > 0] >= s) for s in (60, 300, 600, 1800)]
  np.testing.assert_allclose(stays, [0.97, 0.91, 0.86, 0.70], atol=0.03)
  assert model.reachable_share(p) <= 0.68


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
