"""Tests of `report.local_work`."""

import sys

import pandas as pd
import pytest

from experiments.paper import frames
from experiments.paper import local_work
from experiments.paper import results
from experiments.paper import tables
from tests import fake_results


def _run(rounds, examples, accuracies):
  return pd.DataFrame(
    {'round': rounds, 'examples_trained': examples, 'accuracy': accuracies}
  )


_FEW = _run([10, 20], [100, 200], [0.2, 0.4])
_MANY = _run([10, 20], [150, 350], [0.3, 0.5])


def test_by_hand():
  found = local_work.at_equal_work(_FEW, _MANY)
  # The other had 200 examples a quarter of the way from round 10 to 20.
  assert found == pytest.approx({
    'ours': 0.4,
    'other': 0.35,
    'difference': 0.05,
    'by_rounds': -0.1,
    'ours_examples': 10,
    'other_examples': 17.5,
  })


def test_the_other_way_round_the_signs_change():
  there, back = (
    local_work.at_equal_work(*runs) for runs in ((_FEW, _MANY), (_MANY, _FEW))
  )
  for name in ('difference', 'by_rounds'):
    assert there[name] == pytest.approx(-back[name])
  assert (there['ours'], there['other']) == (back['other'], back['ours'])


def _result(method, seed, accuracy, examples):
  key = results.Key('compact', 'shakespeare', 'scarce', method, '', seed)
  trained = [examples * i for i in range(1, 5)]
  return {**fake_results.result(key, accuracy), 'examples_trained': trained}


def test_table():
  methods = ('f3ast', 0.5, 100), ('fedavg', 0.6, 200)
  found = [
    _result(method, seed, accuracy + 0.1 * seed, examples)
    for method, accuracy, examples in methods
    for seed in range(2)
  ]
  # One that does not say how many, and one whose rounds are equal work.
  key = results.Key('compact', 'shakespeare', 'scarce', 'power_of_choice')
  cifar = results.Key('compact', 'cifar100', 'scarce', 'f3ast')
  found += [fake_results.result(key)]
  found += [
    {**fake_results.result(k), 'examples_trained': [1, 2, 3, 4]}
    for k in (cifar, results.Key('compact', 'cifar100', 'scarce', 'fedavg'))
  ]
  (row,) = local_work.table(frames.curves(found)).rows
  assert row[:6] == [
    'Shakespeare, compact', 'Scarce', 'F3AST and FedAvg', '200', '2', '4'
  ]
  # Rounds 50 and 100 have accuracy 0, round 200 has .01 more than the mean:
  # F3AST ends with 400 examples, which FedAvg had after round 100.
  assert row[6].mean == pytest.approx(-0.1) and row[6].signed
  assert row[7].mean == pytest.approx(0.56) and row[7].seeds == 2
  assert row[8].mean == 0
  assert row[9].mean == pytest.approx(0.56) and row[9].signed


@pytest.mark.parametrize(
  'found', [[], [fake_results.result(results.Key('paper', 'x', 'y', 'f3ast'))]]
)
def test_nothing_was_run(found):
  assert 'not run' in tables.markdown(local_work.table(frames.curves(found)))


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
