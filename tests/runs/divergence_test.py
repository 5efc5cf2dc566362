"""Tests of `divergence`."""

import sys

import numpy as np
import pytest

from f3ast_tff.runs import divergence


def test_only_rounds_in_a_row_without_any_finite_update_count():
  count = 0
  seen = []
  # (trained, finite) by round; in the third one nobody trained.
  for trained, finite in ((3, 3), (2, 0), (0, 0), (1, 0), (4, 1), (4, 0)):
    count = divergence.rounds_without_update(count, trained, finite)
    seen.append(count)
  assert seen == [0, 1, 1, 2, 0, 1]


def test_what_is_finite_is_no_problem():
  weights = [np.zeros(3), np.full((2, 2), 3e38, np.float32), np.zeros(0)]
  assert divergence.problem(9, weights, [0.5, 1e300]) is None


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_one(bad):
  assert 'weights' in divergence.problem(0, [np.zeros(2), np.array([0, bad])])
  found = divergence.problem(0, [], [0.5, bad])
  assert found == f'the test loss is {bad}'
  assert 'in 10 rounds' in divergence.problem(10)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
