"""Tests of what rounds show, by hand and against plain loops."""

import itertools
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff.availability import observed

_MASKS = np.array(
  [[1, 0, 1, 0], [1, 1, 1, 0], [0, 0, 1, 0], [0, 1, 1, 0]], bool
)


def test_by_hand():
  # Clients 2 and 3 never change; 0 and 1 have covariance 1/4 - 1/4.
  assert observed.mean_correlation(_MASKS) == pytest.approx(0)
  on, off = observed.run_lengths(_MASKS)
  assert on.tolist() == [2, 1, 1, 4]
  assert off.tolist() == [2, 1, 1, 4]


def test_a_model_is_recorded_from_its_first_round():
  model = availability.smartphones(7, seed=3)
  masks = observed.record(model, 5)
  assert masks.shape == (5, 7) and masks.dtype == bool
  np.testing.assert_array_equal(masks[0], model(1))
  np.testing.assert_array_equal(masks[4], model(5))


@pytest.mark.parametrize('n', [0, 1])
def test_fewer_than_two_have_no_correlation(n):
  assert np.isnan(observed.mean_correlation(_MASKS[:, :n]))


@hypothesis.given(
  st.integers(1, 9), st.integers(1, 6), st.integers(0, 2**32)
)
def test_correlations_and_runs_are_those_of_plain_loops(rounds, n, seed):
  masks = np.random.default_rng(seed).random((rounds, n)) < 0.5
  moving = [m for m in masks.T if 0 < m.sum() < rounds]
  pairs = list(itertools.combinations(moving, 2))
  found = observed.mean_correlation(masks)
  if pairs:
    single = [np.corrcoef(one, two)[0, 1] for one, two in pairs]
    assert found == pytest.approx(np.mean(single))
  else:
    assert np.isnan(found)
  lengths = {True: [], False: []}
  for mask in masks.T:
    for state, run in itertools.groupby(mask):
      lengths[bool(state)].append(len(list(run)))
  on, off = observed.run_lengths(masks)
  assert on.tolist() == lengths[True] and off.tolist() == lengths[False]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
