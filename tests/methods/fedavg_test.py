"""Tests of `methods.fedavg`; the draws themselves are in selection_test."""

import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff.methods import fedavg
from tests import situations


def test_clients_are_drawn_by_their_data():
  found = situations.counts(
    fedavg.select, situations.situation([0.5, 0.3, 0.2]), 3000
  )
  situations.assert_frequencies(found, {(0,): 0.5, (1,): 0.3, (2,): 0.2})


@pytest.mark.parametrize('k', [2, 3])
def test_who_has_no_data_does_not_make_the_step_smaller(k):
  s = situations.situation([0.5, 0.5, 0.0], k)
  cohort = fedavg.select(s, situations.rng())
  assert cohort.clients.tolist() == [0, 1]
  assert cohort.weights.tolist() == [0.5, 0.5]


def test_with_replacement_mean_weights_are_shares():
  s = situations.situation([0.2, 0.5, 0.06, 0.24], 4, available=[1, 0, 1, 1])
  q = np.array([0.4, 0, 0.12, 0.48])  # p / .5
  draws, rng = 5000, situations.rng(1)
  weights = np.zeros((draws, 4))
  for row in weights:
    cohort = fedavg.select_with_replacement(s, rng)
    assert (np.diff(cohort.clients) > 0).all()  # Each client once.
    row[cohort.clients] = cohort.weights
  np.testing.assert_array_equal(4 * weights, np.rint(4 * weights))
  # The number of draws is binomial, and 1 - (1 - q)^4 the chance of any.
  error = np.sqrt(q * (1 - q) / 4 / draws)
  assert (np.abs(weights.mean(axis=0) - q) <= 5 * error).all()
  taken = 1 - (1 - q) ** 4
  error = np.sqrt(taken * (1 - taken) / draws)
  assert (np.abs((weights > 0).mean(axis=0) - taken) <= 5 * error).all()


@hypothesis.given(situations.situations(), st.integers(0, 99))
def test_weights_with_replacement_sum_to_1_if_somebody_is_there(s, seed):
  cohort = fedavg.select_with_replacement(s, situations.rng(seed))
  is_somebody = s.k > 0 and s.available.any()
  assert cohort.weights.sum() == pytest.approx(float(is_somebody))
  # There are K_t draws also where fewer are available.
  times = cohort.weights * s.k
  np.testing.assert_allclose(times, np.rint(times))


def test_who_is_alone_is_drawn_every_time():
  s = situations.situation([0.1, 0.9, 0.0], 10, available=[1, 0, 1])
  cohort = fedavg.select_with_replacement(s, situations.rng())
  assert (cohort.clients.tolist(), cohort.weights.tolist()) == ([0], [1.0])
  only_empty = s._replace(available=np.array([False, False, True]))
  cohort = fedavg.select_with_replacement(only_empty, situations.rng())
  assert cohort.clients.size == cohort.weights.size == 0


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
