"""The Synthetic cells of the report against whole runs in plain NumPy."""

import sys

import numpy as np
import pytest

from tests import independent_runs
from tests import slow

_ALL = [
  (avail, method)
  for avail in independent_runs.AVAIL
  for method in independent_runs.METHODS
]


@pytest.mark.parametrize('method', independent_runs.METHODS)
def test_a_run_agrees_with_its_cell(method):
  # They have the data in common and no other draw. Cells from r(0) = K p are
  # off by more than 0.1 here.
  own = independent_runs.run('smartphones', method, seed=0)
  cell = independent_runs.of_cell('smartphones', method, seed=0)
  assert own == pytest.approx(cell, abs=0.04)


@pytest.mark.parametrize('avail, method', slow.but([], _ALL))
def test_means_agree_within_the_spread_over_seeds(avail, method):
  seeds = range(5)
  own = [independent_runs.run(avail, method, seed) for seed in seeds]
  cells = [independent_runs.of_cell(avail, method, seed) for seed in seeds]
  apart = abs(np.mean(own) - np.mean(cells))
  assert apart < np.std(cells, ddof=1)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
