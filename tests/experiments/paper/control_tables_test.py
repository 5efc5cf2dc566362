"""Tests of `report.control_tables`: numbers by hand."""

import sys

import pytest

from experiments.paper import claims
from experiments.paper import control_tables
from experiments.paper import frames
from experiments.paper import paper_numbers
from experiments.paper import results
from experiments.paper import tables
from experiments.paper import verdict_tables
from tests import fake_results

_row = fake_results.row
_synthetic = fake_results.synthetic


def _tables(all_results):
  numbers = paper_numbers.load()
  values = frames.values(all_results)
  return {
    table.name: table
    for table in (
      *control_tables.build(values, frames.curves(all_results)),
      *verdict_tables.build(claims.claims(values, numbers)),
    )
  }


def test_departures():
  variant = 'protocol=divide_by_k'
  table = _tables([
    *_synthetic('fedavg', 'smartphones', [0.5, 0.5, 0.5, 0.9]),
    *_synthetic('f3ast', 'smartphones', [0.6, 0.6, 0.6, 0.1]),
    *_synthetic('f3ast', 'smartphones', [0.3, 0.3, 0.3], variant),
  ])['departures']
  assert len(table.rows) == 1 + 9 + 1
  row = _row(table, 'paper')
  assert row['F3AST'] == '0.600 ± 0.000 [3]'  # The same three seeds.
  row = _row(table, 'divide_by_k')
  assert row['FedAvg'] == 'as in the paper'
  assert row['F3AST'] == '0.300 ± 0.000 [3] (-50 %)'
  # FedAvg is that of the paper's protocol.
  assert row['F3AST - FedAvg'] == '-0.2000 ± 0.0000 [3]'
  assert _row(table, 'released')['F3AST'] == 'not run'


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
  table = found['controls']
  row = _row(table, 'Uneven', 'FedAvg, matched server rate')
  assert row['step'] == '0.800 ± 0.000 [2]'
  assert row['F3AST with Kp - this, accuracy'] == '+0.050 ± 0.071 [2]'
  row = _row(table, 'Uneven', 'F3AST, r(0) = p')
  assert row['step'] == '3.000 ± 0.000 [2]'
  assert _row(table, 'Uneven', 'F3AST, beta = 0.01')['step'] == 'not run'
  row = _row(table, 'Uneven', 'FedAvg, server rate matched to r(0) = p')
  assert row['step'] == '3.000 ± 0.000 [2]'
  assert row['F3AST with Kp - this, accuracy'] == '+0.350 ± 0.071 [2]'
  verdicts = tables.markdown(found['verdicts-other'])
  assert 'F3AST with r(0) = p above FedAvg with a matched' in verdicts
  assert 'F3AST above FedAvg with a matched server rate' in verdicts


def test_released():
  table = _tables([
    *_synthetic('f3ast', 'scarce', [0.25], 'protocol=released'),
  ])['released']
  row = _row(table, 'test accuracy', 'F3AST')
  assert row["Scarce: the released code's"] == '0.250 [1]'
  assert row["Scarce: the paper's rules"] == 'not run'


def _long_run(method, seed, accuracies):
  key = results.Key('paper', 'synthetic', 'uneven', method, '5000_rounds', seed)
  found = fake_results.result(key, rounds=5000)
  tests = {'round': [400, 420, 500, 4920, 5000], 'accuracy': accuracies}
  for name in ('loss', 'user_accuracy', 'user_loss', 'sum_of_weights'):
    tests[name] = [seed + i / 10 for i in range(5)]
  return {**found, 'metrics': tests}


def test_settled():
  found = _tables([
    _long_run('fedavg', 0, [0.9, 0.3, 0.5, 0.4, 0.4]),
    _long_run('fedavg', 1, [0.9, 0.5, 0.7, 0.5, 0.5]),
    _long_run('f3ast', 0, [0.9, 0.1, 0.5, 0.7, 0.9]),
    _long_run('f3ast', 1, [0.9, 0.3, 0.7, 0.8, 1.0]),
    # The paper's own rounds are another table's.
    *_synthetic('f3ast', 'uneven', [0.25, 0.25, 0.25]),
  ])
  rows = {
    row[1]: dict(zip(found['settled'].header, map(tables.text, row)))
    for row in found['settled'].rows
    if row[0] == 'Uneven'
  }
  # Rounds 401 to 500 have two tests: .4 and .6, then .3 and .5.
  assert rows['500']['test accuracy, FedAvg'] == '0.500 ± 0.141 [2]'
  assert rows['500']['test accuracy, F3AST'] == '0.400 ± 0.141 [2]'
  assert rows['500']['F3AST - FedAvg'] == '-0.1000 ± 0.0000 [2]'
  assert rows['5000']['F3AST - FedAvg'] == '+0.4000 ± 0.0000 [2]'
  assert rows['5000']['test loss, F3AST'] == '0.850 ± 0.707 [2]'
  assert rows['3000']['F3AST - FedAvg'] == 'not run'
  verdicts = tables.markdown(found['verdicts-other'])
  line = next(x for x in verdicts.splitlines() if '5000 rounds' in x)
  assert 'F3AST above FedAvg' in line and '+0.4000 ± 0.0000 [2]' in line


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
