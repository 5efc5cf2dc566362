"""Tests of `pairs`."""

import math
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pandas as pd
import pytest

from experiments.grid import pairs


def test_differences_are_of_the_seeds_that_both_have():
  ours = pd.Series([1.0, math.nan, 3.0], index=[0, 1, 2])
  other = pd.Series([9.0, 1.0, 1.0], index=[3, 2, 1])
  differences = pairs.differences(ours, other)
  assert differences.sort_index().index.tolist() == [1, 2]
  assert math.isnan(differences[1]) and differences[2] == 2.0


def test_the_t_test_by_hand():
  # Mean 2, standard error 1 / sqrt(3). With 2 degrees of freedom p is
  # 1 - t / sqrt(2 + t^2), with one it is 1 - 2 / pi atan(t).
  t = 2 * math.sqrt(3)
  p = 1 - t / math.sqrt(2 + t**2)
  assert pairs.t_test([1.0, 2.0, 3.0]) == pytest.approx(p)
  assert pairs.t_test([-1.0, -2.0, -3.0]) == pytest.approx(p)
  two = 1 - 2 / math.pi * math.atan(2)
  assert pairs.t_test([1.0, 3.0]) == pytest.approx(two)


def test_the_t_test_where_there_is_none():
  assert math.isnan(pairs.t_test([]))
  assert math.isnan(pairs.t_test([1.0]))
  assert math.isnan(pairs.t_test([1.0, math.nan]))
  assert pairs.t_test([0.0, 0.0]) == 1.0
  assert pairs.t_test([0.5, 0.5]) == 0.0


def test_adjusted_by_hand():
  # In order .005, .01, .03, .04; times 4, 2, 4 / 3, 1: .02, .02, .04, .04.
  found = pairs.adjusted([0.01, 0.04, math.nan, 0.03, 0.005])
  np.testing.assert_allclose(found, [0.02, 0.04, math.nan, 0.04, 0.02])
  # The second, 3 / 2 times .5, is above the third.
  np.testing.assert_allclose(pairs.adjusted([0.1, 0.5, 0.6]), [0.3, 0.6, 0.6])
  np.testing.assert_allclose(pairs.adjusted([0.9]), [0.9])
  assert pairs.adjusted([]).size == 0


@hypothesis.given(
  st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.01, 0.99)
)
def test_adjusted_decides_as_benjamini_and_hochberg(p_values, level):
  """Their rule: the k smallest, k the largest with p_(k) <= level k / m."""
  ordered, m = sorted(p_values), len(p_values)
  small = [k for k in range(1, m + 1) if ordered[k - 1] * m / k <= level]
  found = pairs.adjusted(p_values) <= level
  assert found.sum() == max(small, default=0)
  if small:
    assert found.tolist() == [p <= ordered[max(small) - 1] for p in p_values]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
