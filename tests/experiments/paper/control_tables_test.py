"""Tests of `control_tables`: numbers by hand."""

import sys

import pandas as pd
import pytest

from experiments.paper import control_tables
from experiments.paper import design
from experiments.paper import frames
from tests import fake_results

_row = fake_results.row
_synthetic = fake_results.synthetic


def _tables(found):
  return control_tables.build(frames.values(found), frames.curves(found))


def test_departures():
  found = _tables([
    *_synthetic('fedavg', 'smartphones', [0.5, 0.5, 0.5, 0.9]),
    *_synthetic('f3ast', 'smartphones', [0.6, 0.6, 0.6, 0.1]),
    *_synthetic('f3ast', 'smartphones', [0.3] * 3, 'protocol=divide_by_k'),
  ])
  row = _row(found, 'departures', 'paper')
  assert row['F3AST'] == '0.600 ± 0.000 [3]'  # The same three seeds.
  row = _row(found, 'departures', 'divide_by_k')
  assert row['FedAvg'] == 'as in the paper'
  assert row['F3AST'] == '0.300 ± 0.000 [3] (-50 %)'
  # FedAvg is that of the paper's protocol.
  assert row['F3AST - FedAvg'] == '-0.2000 ± 0.0000 [3]'
  assert _row(found, 'departures', 'released')['F3AST'] == 'not run'


def test_controls():
  found = _tables([
    *_synthetic('f3ast', 'uneven', [0.7, 0.8], weights=0.8),
    *_synthetic('f3ast', 'uneven', [0.7, 0.8], 'rate_init=p', weights=3.0),
    *_synthetic(
      'fedavg', 'uneven', [0.6, 0.8], 'matched', server_learning_rate=0.8
    ),
    *_synthetic(
      'fedavg', 'uneven', [0.3, 0.5], 'matched_to_p', server_learning_rate=3.0
    ),
  ])
  for method, step, difference in (
    ('F3AST, r(0) = Kp', '0.800 ± 0.000 [2]', '–'),
    ('F3AST, r(0) = p', '3.000 ± 0.000 [2]', '+0.0000 ± 0.0000 [2]'),
    ('F3AST, beta = 0.01', 'not run', 'not run'),
    ('FedAvg, matched server rate', '0.800 ± 0.000 [2]', '+0.050 ± 0.071 [2]'),
    (
      'FedAvg, server rate matched to r(0) = p',
      '3.000 ± 0.000 [2]',
      '+0.350 ± 0.071 [2]',
    ),
  ):
    row = _row(found, 'controls', 'Uneven', method)
    assert row['step'] == step
    assert row['F3AST with Kp - this, accuracy'] == difference


def test_released():
  found = _tables(_synthetic('f3ast', 'scarce', [0.25], 'protocol=released'))
  row = _row(found, 'released', 'test accuracy', 'F3AST')
  assert row["Scarce: the released code's"] == '0.250 [1]'
  assert row["Scarce: the paper's rules"] == 'not run'


def _long_run(method, seed, accuracies):
  key = design.synthetic(method, 'uneven', '5000_rounds', seed)
  tests = {'round': [400, 420, 500, 4920, 5000], 'accuracy': accuracies}
  for name in ('loss', 'user_accuracy', 'user_loss', 'sum_of_weights'):
    tests[name] = [seed + i / 10 for i in range(5)]
  return {**fake_results.result(key, rounds=5000), 'metrics': tests}


def test_settled():
  found = _tables([
    _long_run('fedavg', 0, [0.9, 0.3, 0.5, 0.4, 0.4]),
    _long_run('fedavg', 1, [0.9, 0.5, 0.7, 0.5, 0.5]),
    _long_run('f3ast', 0, [0.9, 0.1, 0.5, 0.7, 0.9]),
    _long_run('f3ast', 1, [0.9, 0.3, 0.7, 0.8, 1.0]),
    # The paper's own rounds are another table's.
    *_synthetic('f3ast', 'uneven', [0.25, 0.25, 0.25]),
  ])
  # Rounds 401 to 500 have two tests: .4 and .6, then .3 and .5.
  row = _row(found, 'settled', 'Uneven', '500')
  assert row['test accuracy, FedAvg'] == '0.500 ± 0.141 [2]'
  assert row['test accuracy, F3AST'] == '0.400 ± 0.141 [2]'
  assert row['F3AST - FedAvg'] == '-0.1000 ± 0.0000 [2]'
  row = _row(found, 'settled', 'Uneven', '5000')
  assert row['F3AST - FedAvg'] == '+0.4000 ± 0.0000 [2]'
  assert row['test loss, F3AST'] == '0.850 ± 0.707 [2]'
  row = _row(found, 'settled', 'Uneven', '3000')
  assert row['F3AST - FedAvg'] == 'not run'


def _run(rounds, examples, accuracies):
  return pd.DataFrame(
    {'round': rounds, 'examples_trained': examples, 'accuracy': accuracies}
  )


def test_equal_work_by_hand():
  few = _run([10, 20], [100, 200], [0.2, 0.4])
  many = _run([10, 20], [150, 350], [0.3, 0.5])
  there = control_tables.at_equal_work(few, many)
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
  back = control_tables.at_equal_work(many, few)
  for name in ('difference', 'by_rounds'):
    assert there[name] == pytest.approx(-back[name])
  assert (there['ours'], there['other']) == (back['other'], back['ours'])


def _trained(preset, dataset, method, accuracies, examples):
  return [
    {**result, 'examples_trained': [examples * i for i in range(1, 5)]}
    for result in fake_results.seeds(
      preset, dataset, 'scarce', method, accuracies
    )
  ]


def test_local_work():
  place = 'compact', 'shakespeare'
  found = _tables([
    *_trained(*place, 'f3ast', [0.5, 0.6], 100),
    *_trained(*place, 'fedavg', [0.6, 0.7], 200),
    # One that does not say how many, and one whose rounds are equal work.
    *fake_results.seeds(*place, 'scarce', 'power_of_choice', [0.5]),
    *_trained('compact', 'cifar100', 'f3ast', [0.5], 1),
    *_trained('compact', 'cifar100', 'fedavg', [0.5], 1),
  ])
  assert len(found[-1].frame) == 1
  # Rounds 50 and 100 have accuracy 0, round 200 has .01 more than the mean:
  # F3AST ends with 400 examples, which FedAvg had after round 100.
  assert _row(found, 'local-work') == {
    'dataset, models': 'Shakespeare, compact',
    'availability': 'Scarce',
    'methods': 'F3AST and FedAvg',
    'rounds': '200',
    'examples a round: first': '2',
    'examples a round: second': '4',
    'accuracy, equal rounds: difference': '-0.1000 ± 0.0000 [2]',
    'accuracy, equal examples: first': '0.560 ± 0.071 [2]',
    'accuracy, equal examples: second': '0.000 ± 0.000 [2]',
    'accuracy, equal examples: difference': '+0.560 ± 0.071 [2]',
  }
  assert _row(_tables([]), 'local-work') == {'methods': 'not run'}


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
