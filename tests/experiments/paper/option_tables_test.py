"""Tests of `option_tables`: numbers by hand."""

import math
import sys

import pytest

from experiments.paper import claims
from experiments.paper import frames
from experiments.paper import option_tables
from experiments.paper import paper_numbers
from tests import fake_results

_row = fake_results.row
_synthetic = fake_results.synthetic


def _tables(found):
  values, curves = frames.values(found), frames.curves(found)
  return option_tables.build(
    values, claims.claims(values, curves, paper_numbers.load())
  )


def test_local_steps():
  found = _tables([
    *_synthetic('f3ast', 'scarce', [0.5, 0.6, 0.7]),
    *_synthetic('fedavg', 'scarce', [0.6, 0.6, 0.6]),
    *_synthetic('f3ast', 'scarce', [0.6, 0.71, 0.79], 'local_steps=10'),
    *_synthetic('fedavg', 'scarce', [0.5, 0.6, 0.7], 'local_steps=10'),
  ])
  row = _row(found, 'local-steps', 'Scarce', 'one epoch')
  assert row['F3AST - FedAvg'] == '+0.000 ± 0.100 [3]'
  row = _row(found, 'local-steps', 'Scarce', '10 steps')
  # p = 1 - sqrt(300 / 302) = .0033 is the least of five: .017.
  assert row['F3AST - FedAvg'] == '+0.100 ± 0.010 [3]*'
  assert row['F3AST - FedAvg, with replacement'] == 'not run'
  row = _row(found, 'local-steps', 'Scarce', 'change')
  assert row['F3AST'] == '+0.100 ± 0.010 [3]'
  assert row['FedAvg'] == '+0.000 ± 0.100 [3]'
  assert row['F3AST - FedAvg'] == '–'


def test_safe():
  found = _tables([
    *_synthetic('f3ast_safe', 'always', [0.6, 0.71, 0.79]),
    *_synthetic('f3ast', 'always', [0.5, 0.6, 0.7]),
    *_synthetic('fedavg', 'always', [0.7, 0.6, 0.8]),
  ])
  row = _row(found, 'safe', '500 rounds', 'Always')
  assert row['test accuracy: F3AST, safe'] == '0.700 ± 0.095 [3]'
  over = 'safe minus F3AST: '
  assert row[f'{over}difference'] == '+0.100 ± 0.010 [3]*'
  assert row[f'{over}p'] == '0.0033'  # 1 - sqrt(300 / 302).
  # Of six tests this is the surest: F3AST next to FedAvg has four metrics.
  assert row[f'{over}corrected'] == f'{6 * (1 - math.sqrt(300 / 302)):.2g}'
  assert row['safe minus FedAvg, with replacement: p'] == ''
  row = _row(found, 'safe', '5000 rounds', 'Always')
  assert row['safe minus FedAvg: difference'] == 'not run'


def test_nothing_run():
  assert not any(table.is_run for table in _tables([]))


def test_a_step_that_decays():
  def of(method, accuracies, variant=''):
    return fake_results.seeds(
      'compact', 'cifar100', 'scarce', method, accuracies, variant
    )

  found = _tables([
    *of('fedavg', [0.10, 0.11, 0.12]),
    *of('fedavg', [0.20, 0.22, 0.21], 'following_released'),
    *of('f3ast', [0.15, 0.16, 0.18]),
    *of('f3ast', [0.18, 0.19, 0.23], 'protocol=released'),
  ])
  labels = 'decay', 'Scarce'
  decayed = "minus FedAvg, the released F3AST's step: difference"
  # Of a fake result the last test is .01 above the mean.
  row = _row(found, *labels, 'F3AST as released')
  assert row['test accuracy'] == '0.210 ± 0.026 [3]'
  assert row['minus FedAvg: difference'] == '+0.090 ± 0.017 [3]*'
  assert row[decayed] == '-0.010 ± 0.026 [3]'
  row = _row(found, *labels, 'F3AST')
  assert row['minus FedAvg: difference'] == '+0.053 ± 0.006 [3]*'
  assert row[decayed].rstrip('*') == '-0.047 ± 0.015 [3]'
  row = _row(found, *labels, 'FedAvg')
  assert row['minus FedAvg: difference'] == row[decayed] == '–'
  row = _row(found, 'decay', 'Home-devices', 'FedAvg')
  assert row['test accuracy'] == 'not run'


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
