"""Tests of `frames`."""

import math
import sys

import pytest

from experiments.paper import design
from experiments.paper import frames
from tests import fake_results

_KEY = design.Key('paper', 'synthetic', 'scarce', 'f3ast', 'alpha=0.5', 2)


def test_values_are_means_over_the_last_rounds():
  result = fake_results.result(_KEY)
  # Tested in rounds 50, 100, 150 and 200; the last 66 rounds count.
  result['metrics']['accuracy'] = [0.0, 0.0, 0.4, 0.6]
  result['metrics']['sum_of_weights'] = [2.0, 2.0, 1.5, 1.0]
  row = frames.values([result]).iloc[0]
  assert row['name'] == _KEY.name and row['variant'] == 'alpha=0.5'
  assert row['accuracy'] == pytest.approx(0.5)
  assert row['final_accuracy'] == 0.6
  # Each is a mean over 66 rounds already, so that the last one counts.
  assert row['sum_of_weights'] == 1.0


def test_on_real_data_the_last_test_counts():
  key = design.Key('compact', 'shakespeare', 'scarce', 'f3ast')
  result = fake_results.result(key)
  result['metrics']['accuracy'] = [0.0, 0.0, 0.4, 0.6]
  assert frames.values([result]).iloc[0]['accuracy'] == 0.6


def test_unsteadiness_is_the_standard_deviation():
  result = fake_results.result(_KEY, rounds=400)
  result['metrics'] = {name: [1.0] * 9 for name in result['metrics']}
  # The first one is not of the last 100 rounds.
  result['metrics']['round'] = [300, *range(310, 390, 10)]
  result['metrics']['round'][-1] = 400
  result['metrics']['accuracy'] = [0.0, *[0.4, 0.6] * 4]
  row = frames.values([result]).iloc[0]
  # Eight times .1 from the mean: sqrt(8 x .01 / 7).
  assert row['unsteadiness'] == pytest.approx(math.sqrt(0.08 / 7))


def test_a_run_that_diverged_has_no_steadiness():
  result = fake_results.result(_KEY)
  result['metrics'] = {name: [1.0] * 8 for name in result['metrics']}
  result['metrics']['round'] = range(193, 201)
  # Nor has one with few tests.
  for accuracy, is_known in (
    ([0.5] * 8, True), ([math.nan, *[0.5] * 7], False)
  ):
    result['metrics']['accuracy'] = accuracy
    for tests in (8, 7):
      few = {name: list(v)[:tests] for name, v in result['metrics'].items()}
      row = frames.values([{**result, 'metrics': few}]).iloc[0]
      assert math.isfinite(row['unsteadiness']) == (is_known and tests == 8)


def test_a_test_that_is_nan_makes_the_mean_nan():
  result = fake_results.result(_KEY)
  result['metrics']['loss'][-2] = math.nan
  row = frames.values([result]).iloc[0]
  assert math.isnan(row['loss']) and row['accuracy'] == pytest.approx(0.5)


def test_curves_have_a_row_per_cell_and_test():
  silent = fake_results.result(_KEY)
  other = design.Key('paper', 'synthetic', 'scarce', 'fedavg')
  trained = {**fake_results.result(other), 'examples_trained': [7, 8, 9, 10]}
  curves = frames.curves([silent, trained])
  assert curves['round'].tolist() == [50, 100, 150, 200] * 2
  assert curves['method'].tolist() == ['f3ast'] * 4 + ['fedavg'] * 4
  assert curves['examples_trained'].isna().tolist() == [True] * 4 + [False] * 4
  assert curves['examples_trained'].tolist()[4:] == [7, 8, 9, 10]


def test_by_seed_has_all_seeds_of_the_cell_and_no_other():
  cell = 'paper', 'synthetic', 'scarce'
  found = fake_results.seeds(*cell, 'f3ast', [0.1, 0.2, 0.3])[::-1]
  found += fake_results.seeds(*cell, 'f3ast', [0.9], variant='beta=1')
  found += fake_results.seeds(*cell, 'fedavg', [0.8])
  by_seed = frames.by_seed(
    frames.values(found), design.Key(*cell, 'f3ast'), 'accuracy'
  )
  assert by_seed.index.tolist() == [0, 1, 2]
  assert by_seed.tolist() == pytest.approx([0.1, 0.2, 0.3])


def test_no_results_have_the_same_columns():
  one = [fake_results.result(_KEY)]
  for table in (frames.values, frames.curves):
    assert not len(table([]))
    assert set(table([]).columns) == set(table(one).columns)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
