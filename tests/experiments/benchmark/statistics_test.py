"""Tests of a benchmark's statistics, by hand and against SciPy."""

import itertools
import math
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.benchmark import conclusion
from experiments.benchmark import statistics


def _values(accuracies):
  """Returns values of runs; by model and method, the accuracies of seeds."""
  return pd.DataFrame([
    {'avail': avail, 'method': method, 'seed': seed, 'accuracy': accuracy}
    for (avail, method), of_seeds in accuracies.items()
    for seed, accuracy in enumerate(of_seeds)
  ])


def test_bias_of_weights_by_hand():
  p = np.array([0.5, 0.25, 0.25])
  # Shares of the weights: 3/4, 1/4 and 0.
  cohorts = [([0, 1], [1.0, 1.0]), ([], []), ([0], [2.0])]
  found = statistics.misplaced(cohorts, p)
  assert found == pytest.approx((0.25 + 0 + 0.25) / 2)
  assert statistics.misplaced([([0, 1, 2], [4.0, 2.0, 2.0])], p) == 0.0
  assert math.isnan(statistics.misplaced([([], [])], p))


def test_means_spreads_and_ranks_by_hand():
  values = _values({
    ('always', 'a'): [0.1, 0.3],
    ('always', 'b'): [0.5, 0.5],
    ('always', 'c'): [0.1, 0.3],
    ('uneven', 'a'): [0.9, 0.7],
    ('uneven', 'b'): [0.6, math.nan],
    ('uneven', 'c'): [0.1, 0.1],
  }).assign(seconds=[1, 3] * 6)
  table = statistics.summary(values, 'accuracy', ['seconds'])
  table = table.set_index(['avail', 'method'])
  assert table['accuracy_mean']['always', 'a'] == pytest.approx(0.2)
  assert table['accuracy_std']['always', 'a'] == pytest.approx(math.sqrt(0.02))
  # Equal ones share their places; without a mean, a method comes last.
  assert table['rank'].tolist() == [2.5, 1, 2.5, 1, 3, 2]
  assert table['mean_rank']['always'].tolist() == [1.75, 2, 2.25]
  assert table['seconds'].tolist() == [2] * 6
  assert table['seeds'].tolist() == [2] * 6


def test_comparisons_are_those_of_scipy():
  rng = np.random.default_rng(0)
  methods = ['a', 'b', 'c', 'd']
  values = _values({
    (avail, method): rng.normal(0.02 * i, 0.02, 5)
    for avail in ('always', 'uneven')
    for i, method in enumerate(methods)
  })
  pairs = statistics.all_pairs(methods)
  found = statistics.compare(values, 'accuracy', pairs)
  assert len(found) == 2 * 6
  expected = []
  for avail, (one, two) in itertools.product(('always', 'uneven'), pairs):
    of_avail = values[values['avail'] == avail]
    ours, other = (
      of_avail.loc[of_avail['method'] == each, 'accuracy'].to_numpy()
      for each in (one, two)
    )
    expected.append(stats.ttest_rel(ours, other).pvalue)
  np.testing.assert_allclose(found['p'], expected)
  decided = found[found['p_adjusted'] < 0.05]
  assert 0 < len(decided) < len(found)
  assert (
    (decided['verdict'] == 'above') == (decided['mean'] > 0)
  ).all()
  # Against one method there are fewer, and so less to adjust for.
  fewer = statistics.compare(
    values, 'accuracy', statistics.with_reference(methods, 'a')
  )
  assert fewer['method'].tolist() == ['b', 'c', 'd'] * 2
  assert set(fewer['other']) == {'a'}
  assert (fewer['p_adjusted'] <= fewer['p'] * 6 + 1e-12).all()


def test_what_cannot_be_tested_is_undecided():
  values = _values({
    ('always', 'a'): [0.1],
    ('always', 'b'): [0.9],
    ('uneven', 'a'): [0.1, 0.2],
    ('uneven', 'b'): [0.2, math.nan],
    ('scarce', 'a'): [0.5],
  })
  found = statistics.compare(values, 'accuracy', [('b', 'a')])
  assert found['avail'].tolist() == ['always', 'uneven']
  assert found['verdict'].tolist() == ['undecided'] * 2
  assert found['p_adjusted'].isna().all()
  assert statistics.compare(values, 'accuracy', []).empty


def test_sentences():
  differences = pd.DataFrame(
    [
      ('always', 'b', 'a', 5, 0.1, 'above'),
      ('uneven', 'b', 'a', 5, -0.1, 'below'),
      ('scarce', 'b', 'a', 5, 0.0, 'undecided'),
      ('always', 'c', 'a', 5, 0.0, 'undecided'),
    ],
    columns=['avail', 'method', 'other', 'seeds', 'mean', 'verdict'],
  )
  table = pd.DataFrame({
    'avail': ['always'] * 3,
    'method': ['a', 'b', 'c'],
    'seeds': 5,
    'mean_rank': [1.0, 2.0, 3.0],
    'diverged': [0, 0.4, 0],
  })
  found = conclusion.sentences(table, differences, 'a')
  assert found[:4] == [
    'Of 4 comparisons with a, 1 is significantly above it, 1 significantly '
    'below, and 2 are undecided.',
    'b is significantly above a under always and below a under uneven; 1 of 3 '
    'undecided.',
    'No difference from a is significant for c.',
    'Undecided does not mean equal.',
  ]
  assert found[4].startswith(
    'By mean rank under the one model, a comes first (1 of 3) and c last (3).'
  )
  assert found[5] == 'Runs diverged: 2 of 5 of b under always.'
  table['mean_rank'] = [1.25, 1.25, 3.0]
  assert conclusion.sentences(table, differences, 'a')[4].startswith(
    'By mean rank under the one model, a and b come first (1.25 of 3) and c '
  )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
