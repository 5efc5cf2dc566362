"""Tests of `control_tables`: numbers by hand."""

import sys

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
  assert list(row)[1:6] == ['FedAvg', 'F3AST', 'FedAdam', 'F3AST+Adam', 'PoC']
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
    *_synthetic('fedavg', 'uneven', [0.6], 'following'),
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
    # Its steps are F3AST's.
    ("FedAvg, F3AST's step in each round", '0.800 [1]', '+0.100 [1]'),
    (
      "FedAvg, with replacement, F3AST's step in each round",
      'not run',
      'not run',
    ),
  ):
    row = _row(found, 'controls', 'Uneven', method)
    assert row['step'] == step
    assert row['F3AST with Kp - this, accuracy'] == difference


def test_released():
  found = _tables([
    *_synthetic('f3ast', 'scarce', [0.25, 0.35], 'protocol=released'),
    *_synthetic('fedavg_with_replacement', 'scarce', [0.5]),
  ])
  row = _row(found, 'released', 'test accuracy', 'F3AST')
  assert row["Scarce: the released code's"] == '0.300 ± 0.071 [2]'
  assert row["Scarce: the paper's rules"] == 'not run'
  # The released baselines are drawn so as they are.
  row = _row(found, 'released', 'test accuracy', 'FedAvg, with replacement')
  assert row["Scarce: the released code's"] == '–'
  assert row["Scarce: the paper's rules"] == '0.500 [1]'


def _long_run(
  method, seed, accuracies, avail='uneven', variant='5000_rounds'
):
  key = design.synthetic(method, avail, variant, seed)
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
    _long_run('f3ast_safe', 0, [0.9, 0.1, 0.5, 0.7, 0.7]),
    _long_run('fedavg_with_replacement', 0, [0.9, 0.1, 0.5, 0.6, 0.6]),
    # The paper's own rounds are another table's.
    *_synthetic('f3ast', 'uneven', [0.25, 0.25, 0.25]),
  ])
  # Rounds 401 to 500 have two tests: .4 and .6, then .3 and .5.
  row = _row(found, 'settled', 'Uneven', '500')
  assert row['test accuracy: FedAvg'] == '0.500 ± 0.141 [2]'
  assert row['test accuracy: F3AST'] == '0.400 ± 0.141 [2]'
  assert row['F3AST minus: FedAvg'] == '-0.1000 ± 0.0000 [2]'
  row = _row(found, 'settled', 'Uneven', '5000')
  assert row['F3AST minus: FedAvg'] == '+0.4000 ± 0.0000 [2]'
  assert row['F3AST minus: FedAvg, with replacement'] == '+0.200 [1]'
  assert row['F3AST, safe minus: FedAvg'] == '+0.300 [1]'
  assert row['F3AST, safe minus: F3AST'] == '-0.100 [1]'
  assert row['F3AST, safe minus: FedAvg, with replacement'] == '+0.100 [1]'
  assert row['F3AST: test loss'] == '0.850 ± 0.707 [2]'
  row = _row(found, 'settled', 'Uneven', '3000')
  assert row['F3AST minus: FedAvg'] == 'not run'


def test_settled_from_the_first_rates_that_there_were():
  found = _tables([
    _long_run('f3ast', 0, [0.3] * 5, 'smartphones', '5000_rounds-rate_init=kp'),
    _long_run('f3ast', 0, [0.6] * 5, 'smartphones'),
    _long_run('fedavg', 0, [0.5] * 5, 'smartphones'),
  ])
  for title, difference in (
    ('Smartphones', '+0.100 [1]'),
    ('Smartphones, F3AST from r(0) = K p as at first', '-0.200 [1]'),
  ):
    row = _row(found, 'settled', title, '5000')
    assert row['F3AST minus: FedAvg'] == difference


def test_local_work():
  place, cifar = ('compact', 'shakespeare'), ('compact', 'cifar100', 'scarce')
  found = _tables([
    *fake_results.trained(*place, 'scarce', 'f3ast', [0.5, 0.6], 100),
    *fake_results.trained(*place, 'scarce', 'fedavg', [0.6, 0.7], 200),
    # One that does not say how many, and one whose rounds are equal work.
    *fake_results.seeds(*place, 'scarce', 'power_of_choice', [0.5]),
    *fake_results.trained(*cifar, 'f3ast', [0.5], 1),
    *fake_results.trained(*cifar, 'fedavg', [0.5], 1),
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
