"""Tests of `traces.intervals`."""

import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff.traces import intervals

_DAY = 86_400


def _intervals(*rows):
  phones, starts, ends = np.array(rows, float).reshape(-1, 3).T
  return intervals.Intervals(phones.astype(int), starts, ends)


def test_intervals_are_sorted_and_empty_ones_left_out():
  found = intervals.sort(
    _intervals((1, 5, 9), (0, 7, 8), (0, 3, 3), (0, 1, 2), (1, 0, 5))
  )
  assert list(zip(*map(list, found))) == [
    (0, 1, 2), (0, 7, 8), (1, 0, 5), (1, 5, 9)
  ]


_NAN, _INF = float('nan'), float('inf')


@pytest.mark.parametrize(
  'row, what',
  [
    ((1, _NAN, 5), 'the interval nan to 5, which is no pair of numbers'),
    ((1, 5, _INF), 'the interval 5 to inf, which is no pair of numbers'),
    ((1, -1, 5), 'the interval -1 to 5, which begins before 0'),
    ((1, 9, 5), 'the interval 9 to 5, which ends before it begins'),
    ((1, 5, 2e12), 'the interval 5 to 2000000000000, but times are seconds'),
    ((1, 5, 901), 'the interval 5 to 901, which is not inside of its'),
    ((1, 25, 27.5), 'the interval 25 to 27.5, which overlaps the one before'),
    ((1, 19, 27.5), 'the interval 20 to 30, which overlaps the one before'),
  ],
)
def test_faults_are_found(row, what):
  begins, ends = np.zeros(2), np.array([_DAY, 900])
  right = (0, 20, 901), (1, 20, 30), (1, 30, 40)
  found = intervals.fault(
    intervals.sort(_intervals(*right)), begins, ends
  )
  assert found is None
  found = intervals.fault(
    intervals.sort(_intervals(*right, row)), begins, ends
  )
  assert found.phone == 1 and found.what.startswith(what)


@pytest.mark.parametrize(
  'begin, end', [(-1, 5), (5, 5), (6, 5), (_NAN, 5), (0, _INF), (0, 2e12)]
)
def test_faults_of_recordings_are_found(begin, end):
  ends = np.array([_DAY, end])
  found = intervals.fault_of_recordings(np.array([0, begin]), ends)
  assert found.phone == 1 and 'must begin at 0 or later' in found.what
  assert intervals.fault_of_recordings(np.zeros(1), ends[:1]) is None


def test_days_are_whole_and_the_rest_is_cut_off():
  begins = np.array([0, 1000, 50])
  ends = np.array([3 * _DAY - 1, 2 * _DAY + 1000, 700])
  days = intervals.whole_days(begins, ends)
  assert days.tolist() == [2, 2, 1]
  stride = intervals.stride_of(days)
  assert stride == 2 * _DAY + 1
  found = intervals.bounds_of(
    _intervals(
      (0, 10, 20.5), (0, 2 * _DAY - 5, 2 * _DAY + 7), (0, 2 * _DAY + 8, 2e5),
      (1, 1000.2, 1007), (2, 50, 700),
    ),
    begins,
    days,
  )
  assert found.tolist() == [
    # A second x is from 10 on and below 20.5 if it is from 10 on and below 21.
    10, 21,
    2 * _DAY - 5, 2 * _DAY,
    2 * _DAY, 2 * _DAY,  # Empty: it is beyond the two days.
    stride + 1, stride + 7,
    2 * stride, 2 * stride + 650,
  ]  # fmt: skip


def test_an_intersection_by_hand():
  charging = np.array([0, 10, 10, 20, 30, 40])
  wifi = np.array([5, 15, 18, 35, 40, 50])
  assert intervals.intersection([charging]).tolist() == [0, 20, 30, 40]
  assert intervals.intersection([charging, wifi]).tolist() == [
    5, 15, 18, 20, 30, 35
  ]
  assert intervals.intersection([charging, wifi, wifi[:2]]).tolist() == [5, 15]
  assert intervals.intersection([charging, charging[:0]]).size == 0


_BOUNDS = st.lists(
  st.integers(0, 40), unique=True, max_size=12
).map(lambda times: np.array(sorted(times)[: len(times) // 2 * 2], int))


@hypothesis.given(st.lists(_BOUNDS, min_size=1, max_size=3))
def test_an_intersection_holds_where_all_do(states):
  seconds = np.arange(42)

  def inside(bounds):
    pairs = bounds.reshape(-1, 2)
    return [any(s <= x < e for s, e in pairs) for x in seconds]

  both = intervals.intersection(states)
  assert (np.diff(both) > 0).all()
  assert inside(both) == [all(each) for each in zip(*map(inside, states))]
  # This is how the model looks it up.
  found = np.searchsorted(both, seconds, 'right') % 2 == 1
  assert found.tolist() == inside(both)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
