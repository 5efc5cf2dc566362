"""Tests of `local_work`: numbers by hand."""

import sys

import pandas as pd
import pytest

from experiments.paper import design
from experiments.paper import frames
from experiments.paper import local_work
from tests import fake_results


def _run(rounds, examples, accuracies):
  return pd.DataFrame(
    {'round': rounds, 'examples_trained': examples, 'accuracy': accuracies}
  )


def test_equal_work_by_hand():
  few = _run([10, 20], [100, 200], [0.2, 0.4])
  many = _run([10, 20], [150, 350], [0.3, 0.5])
  there = local_work.at_equal_work(few, many)
  # The other had 200 examples a quarter of the way from round 10 to 20.
  assert there == pytest.approx({
    'ours': 0.4,
    'other': 0.35,
    'difference': 0.05,
    'by_rounds': -0.1,
    'ours_examples': 10,
    'other_examples': 17.5,
    'rounds': 20,
  })
  # The other way round the signs change.
  back = local_work.at_equal_work(many, few)
  for name in ('difference', 'by_rounds'):
    assert there[name] == pytest.approx(-back[name])
  assert (there['ours'], there['other']) == (back['other'], back['ours'])


def test_only_seeds_that_both_have():
  place = 'compact', 'shakespeare', 'scarce'
  keys = [design.Key(*place, method) for method in ('f3ast', 'fedavg')]
  results = [
    *fake_results.trained(*place, 'f3ast', [0.5, 0.6], 100),
    *fake_results.trained(*place, 'fedavg', [0.6], 100),
    # One that does not say how many.
    *fake_results.seeds(*place, 'fedavg', [0.6, 0.7])[1:],
  ]
  found = local_work.compare(frames.curves(results), keys)
  assert found['difference'].to_dict() == pytest.approx({0: -0.1})
  assert local_work.compare(frames.curves([]), keys)['difference'].empty


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
