"""Tests of `results`: comparisons from a table of runs, and those committed."""

import pathlib
import sys

import pandas as pd
import pytest

from experiments.benchmark import report
from experiments.benchmark import results
from tests import fake_results

_COMMITTED = pathlib.Path(__file__).parents[3] / 'results' / 'methods'
_TASKS = sorted(path.name for path in _COMMITTED.iterdir())


def test_what_is_read_needs_no_curves(tmp_path):
  # Differences of .1, .2 and .3: t is .2 / (.1 / sqrt(3)) = 3.464, and with two
  # degrees of freedom p = 1 - t / sqrt(t^2 + 2) = .0742.
  accuracies = {'f3ast': [0.5, 0.5, 0.5], 'other': [0.6, 0.7, 0.8]}
  table = fake_results.benchmark(accuracies)
  table.to_csv(tmp_path / 'runs.csv', index=False)
  found = results.read(tmp_path, 'f3ast', 'Task')
  (row,) = found.differences.itertuples()
  assert (row.method, row.other, row.verdict) == ('other', 'f3ast', 'undecided')
  assert row.mean == pytest.approx(0.2) and row.sd == pytest.approx(0.1)
  assert row.p == pytest.approx(0.0742, abs=1e-4)
  shown = report.pictures(found)
  assert set(shown) == {'accuracy.png', 'accuracy.svg'}
  said = report.content(found)
  page = report.page(found, said, shown, {'Elsewhere': 'other.html'})
  assert 'Benchmark: Task' in page and 'id="curves"' not in page
  assert '<a href="other.html">Elsewhere</a>' in page


@pytest.mark.parametrize('task', _TASKS)
def test_committed_tables_are_those_of_the_committed_runs(task):
  found = results.read(_COMMITTED / task, 'f3ast', task)
  for name in ('table', 'differences', 'pairs'):
    ours = getattr(found, name)
    theirs = pd.read_csv(_COMMITTED / task / f'{name}.csv')
    # Runs are written with six digits, and t-tests divide small differences.
    pd.testing.assert_frame_equal(ours, theirs, check_dtype=False, rtol=1e-2)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
