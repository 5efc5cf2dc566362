"""Tests of `comparison`; `paper/comparison_test` has those of runs' files."""

import math
import sys

import pandas as pd
import pytest

from experiments.grid import comparison


def _values(accuracy):
  """Returns values as of `by_seed`, from accuracies by label and seed."""
  places = [(label, s) for label, by in accuracy.items() for s in by]
  index = pd.MultiIndex.from_tuples(places, names=['label', 'seed'])
  columns = {'accuracy': [accuracy[label][s] for label, s in places]}
  return pd.DataFrame(columns, index=index)


def test_a_run_counts_by_its_last_rounds_or_its_last_test():
  tests = pd.DataFrame({
    'label': 'a', 'seed': 0, 'round': [100, 200, 250, 300], 'accuracy': [
      0.1, 0.2, 0.4, 0.5
    ], 'loss': 1.0, 'user_accuracy': 0.0, 'user_loss': 0.0,
    'sum_of_weights': [1.0, 1.0, 1.0, 0.5],
  })
  for is_last_test, accuracy in ((False, 0.45), (True, 0.5)):
    values = comparison.by_seed(tests, is_last_test).loc['a', 0]
    assert values['accuracy'] == pytest.approx(accuracy)
    assert values['sum_of_weights'] == 0.5


def test_differences_by_hand():
  values = _values({
    'b': {0: 0.5, 1: 0.6, 2: 0.7},
    'a': {0: 0.6, 1: 0.8, 2: 1.0},
    'c': {2: 0.4, 1: 0.4, 3: 9.0},  # One seed that the first has not.
    'd': {0: 0.7},
    'e': {0: 0.5, 1: math.nan},
  })
  found = comparison.differences(values, 'b', ['accuracy'])
  assert found['label'].tolist() == ['a', 'c', 'd', 'e']
  assert found['seeds'].tolist() == [3, 2, 1, 2]
  # .1, .2, .3 and -.3, -.2.
  assert found['mean'][:3].tolist() == pytest.approx([0.2, -0.25, 0.2])
  assert found['sd'][:2].tolist() == pytest.approx([0.1, 0.005**0.5])
  t = 0.2 / (0.1 / math.sqrt(3))
  p = [1 - t / math.sqrt(2 + t**2), 1 - 2 / math.pi * math.atan(0.25 / 0.05)]
  assert found['p'][:2].tolist() == pytest.approx(p)
  # Two tests: the smaller p counts twice, but no more than the larger one.
  assert p[0] < p[1] < 2 * p[0]
  assert found['p_adjusted'][:2].tolist() == pytest.approx([p[1], p[1]])
  assert found.loc[2:, ['p', 'p_adjusted']].isna().all(axis=None)
  assert math.isnan(found['mean'][3])  # A run diverged.


def test_no_differences_without_others_or_a_baseline():
  for values, baseline in (
    (_values({'a': {0: 0.5, 1: 0.6}}), 'a'),
    (_values({'a': {0: 0.5}, 'b': {0: 0.6}}), 'c'),
  ):
    found = comparison.differences(values, baseline, ['accuracy'])
    assert found.empty and 'p_adjusted' in found


def test_metrics_are_adjusted_apart():
  values = _values({'a': {0: 0.0, 1: 0.0}, 'b': {0: 1.0, 1: 3.0}})
  values['loss'] = [0.0, 0.0, 1.0, 2.0]
  found = comparison.differences(values, 'a', ['accuracy', 'loss'])
  assert found['metric'].tolist() == ['accuracy', 'loss']
  assert found['p_adjusted'].tolist() == found['p'].tolist()


def test_table_keeps_the_order():
  found = comparison.table(_values({'b': {0: 0.5, 1: 0.7}, 'a': {0: 0.1}}))
  assert found.index.tolist() == ['b', 'a']
  assert found['accuracy', 'mean'].tolist() == pytest.approx([0.6, 0.1])
  assert found['accuracy', 'std'].iloc[0] == pytest.approx(0.02**0.5)
  assert found['seeds'].tolist() == [2, 1]
  lines = comparison.markdown(found, 'combination', ['accuracy']).splitlines()
  assert lines[0] == '| combination | test accuracy | seeds |'
  assert lines[2] == '| b           | 0.600 ± 0.141 | 2     |'
  assert lines[3] == '| a           | 0.100         | 1     |'


def test_spread():
  assert comparison.spread(0.1234, 0.0, '+') == '+0.123 ± 0.000'
  assert comparison.spread(-0.5, math.nan) == '-0.500'
  assert comparison.spread(math.nan, 1.0) == 'diverged'


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
