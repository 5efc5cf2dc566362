"""Tests of `traces.assignment`."""

import collections
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import traces

_DAY = 86_400


def _trace(days, hours=None):
  """Returns phones of some days that are available in the first hours."""
  days = np.array(days)
  hours = np.ones(days.size, int) if hours is None else np.array(hours)
  stride = int(days.max()) * _DAY + 1
  starts = stride * np.arange(days.size)
  bounds = np.stack([starts, starts + 3600 * hours], axis=1)
  return traces.Trace(
    tuple(f'phone{k}' for k in range(days.size)),
    np.zeros(days.size, int),
    days,
    bounds.ravel(),
    'some.json',
  )


@hypothesis.given(
  st.lists(st.integers(1, 5), min_size=1, max_size=8),
  st.integers(1, 60),
  st.sampled_from(traces.ASSIGNMENTS[:3]),
  st.integers(0, 99),
)
def test_phones_are_dealt_evenly_and_copies_shifted(days, n, how, seed):
  p = np.full(n, 1 / n)
  found = traces.assign(_trace(days), p, how, seed)
  again = traces.assign(_trace(days), p, how, seed)
  for one, two in zip(found, again):
    np.testing.assert_array_equal(one, two)
  counts = np.bincount(found.phones, minlength=len(days))
  assert counts.sum() == n and np.ptp(counts) <= 1
  pairs = collections.Counter(zip(found.phones.tolist(), found.shifts.tolist()))
  for phone, count in enumerate(counts):
    used = sorted(shift for k, shift in pairs if k == phone)
    # Shifts 0, 1, ... in turn: no two clients alike before all days are used.
    assert used == list(range(min(count, days[phone])))
    assert all(pairs[phone, s] <= -(-count // days[phone]) for s in used)


def test_seeds_decide_and_data_do_not():
  trace = _trace([1] * 50)
  equal, unequal = np.full(50, 0.02), np.arange(50) / 1225
  one = traces.assign(trace, equal, seed=1)
  assert sorted(one.phones) == list(range(50))
  np.testing.assert_array_equal(
    one.phones, traces.assign(trace, unequal, seed=1).phones
  )
  assert (one.phones != traces.assign(trace, equal, seed=2).phones).any()


def test_who_has_the_most_data_is_there_the_most_or_the_least():
  hours = np.random.default_rng(0).permutation(20)
  trace = _trace([1] * 20, hours)
  p = np.random.default_rng(1).permutation(12) / 66
  for how, sign in (
    ('most_data_most_available', 1), ('most_data_least_available', -1)
  ):
    found = traces.assign(trace, p, how, seed=3)
    dealt = hours[found.phones]
    assert len(set(dealt)) == 12  # Of 20, drawn at random.
    by_data = dealt[np.argsort(sign * p)]
    assert (np.diff(by_data) > 0).all()
    other = traces.assign(trace, p, how, seed=4)
    assert set(hours[other.phones]) != set(dealt)


def test_equal_clients_are_ordered_at_random():
  trace = _trace([1] * 20, np.arange(20))
  found = traces.assign(
    trace, np.full(20, 0.05), 'most_data_most_available', seed=0
  )
  assert sorted(found.phones) == list(range(20))
  assert 0 < np.sum(np.diff(found.phones) > 0) < 19


def test_names_are_those_of_the_clients():
  trace = _trace([1, 2, 1])
  p = np.full(3, 1 / 3)
  with pytest.raises(traces.TraceError) as error:
    traces.assign(trace, p, 'by_name')
  assert "The trace some.json has no phone '0', but with" in str(error.value)
  named = traces.Trace(
    ('2', '0', '1'), trace.begins, trace.days, trace.bounds, 'some.json'
  )
  found = traces.assign(named, p, 'by_name')
  assert found.phones.tolist() == [1, 2, 0]
  assert found.shifts.tolist() == [0, 0, 0]
  with pytest.raises(traces.TraceError) as error:
    traces.assign(named, p[:2], 'by_name')
  assert "phone '2', which is none of the clients 0 to 1" in str(error.value)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
