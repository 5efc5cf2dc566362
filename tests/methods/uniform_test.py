"""Tests of `methods.uniform`."""

import sys

import numpy as np
import pytest

from f3ast_tff.methods import uniform
from tests import situations


@pytest.mark.parametrize(
  'k, expected',
  [
    (1, {(0,): 1 / 3, (1,): 1 / 3, (3,): 1 / 3}),
    (2, {(0, 1): 1 / 3, (0, 3): 1 / 3, (1, 3): 1 / 3}),
  ],
)
def test_all_who_are_there_are_alike(k, expected):
  s = situations.situation([0.7, 0.1, 0.1, 0.1], k, available=[1, 1, 0, 1])
  situations.assert_frequencies(
    situations.counts(uniform.select, s, 4000), expected
  )
  weights = uniform.select(s, situations.rng()).weights
  np.testing.assert_array_equal(weights, [1 / k] * k)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
