"""Tests of `report.control_tables`: numbers by hand."""

import sys

import pytest

from experiments import paper_numbers
from f3ast_tff.report import claims
from f3ast_tff.report import control_tables
from f3ast_tff.report import frames
from f3ast_tff.report import tables
from f3ast_tff.report import verdict_tables
from tests import fake_results


def _tables(all_results):
  numbers = paper_numbers.load()
  values = frames.values(all_results)
  return {
    table.name: table
    for table in (
      *control_tables.build(values),
      *verdict_tables.build(claims.claims(values, numbers)),
    )
  }


def _rows(table, *labels):
  """Returns the texts of the row that begins with the labels."""
  rows = [list(map(tables.text, row)) for row in table.rows]
  found = [row for row in rows if tuple(row[: len(labels)]) == labels]
  assert len(found) == 1, labels
  return dict(zip(tables._flat_header(table), found[0]))


def _synthetic(method, avail, accuracies, variant='', **rest):
  return fake_results.seeds(
    'paper', 'synthetic', avail, method, accuracies, variant, **rest
  )


def test_departures():
  variant = 'protocol=divide_by_k'
  table = _tables([
    *_synthetic('fedavg', 'smartphones', [0.5, 0.5, 0.5, 0.9]),
    *_synthetic('f3ast', 'smartphones', [0.6, 0.6, 0.6, 0.1]),
    *_synthetic('f3ast', 'smartphones', [0.3, 0.3, 0.3], variant),
  ])['departures']
  assert len(table.rows) == 1 + 9 + 1
  row = _rows(table, 'paper')
  assert row['F3AST'] == '0.600 ± 0.000 [3]'  # The same three seeds.
  row = _rows(table, 'divide_by_k')
  assert row['FedAvg'] == 'as in the paper'
  assert row['F3AST'] == '0.300 ± 0.000 [3] (-50 %)'
  # FedAvg is that of the paper's protocol.
  assert row['F3AST - FedAvg'] == '-0.2000 ± 0.0000 [3]'
  assert _rows(table, 'released')['F3AST'] == 'not run'


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
  row = _rows(table, 'Uneven', 'FedAvg, matched server rate')
  assert row['step'] == '0.800 ± 0.000 [2]'
  assert row['F3AST with Kp - this, accuracy'] == '+0.050 ± 0.071 [2]'
  row = _rows(table, 'Uneven', 'F3AST, r(0) = p')
  assert row['step'] == '3.000 ± 0.000 [2]'
  assert _rows(table, 'Uneven', 'F3AST, beta = 0.01')['step'] == 'not run'
  row = _rows(table, 'Uneven', 'FedAvg, server rate matched to r(0) = p')
  assert row['step'] == '3.000 ± 0.000 [2]'
  assert row['F3AST with Kp - this, accuracy'] == '+0.350 ± 0.071 [2]'
  verdicts = tables.markdown(found['verdicts-other'])
  assert 'F3AST with r(0) = p above FedAvg with a matched' in verdicts
  assert 'F3AST above FedAvg with a matched server rate' in verdicts


def test_released():
  table = _tables([
    *_synthetic('f3ast', 'scarce', [0.25], 'protocol=released'),
  ])['released']
  row = _rows(table, 'test accuracy', 'F3AST')
  assert row["Scarce: the released code's"] == '0.250 [1]'
  assert row["Scarce: the paper's rules"] == 'not run'


def test_settled():
  found = _tables([
    *_synthetic('fedavg', 'uneven', [0.4, 0.6, 0.5, 0.9]),
    *_synthetic('f3ast', 'uneven', [0.3, 0.5, 0.4, 0.1], weights=0.5),
    *_synthetic('fedavg', 'uneven', [0.4, 0.6, 0.5], '5000_rounds'),
    *_synthetic('f3ast', 'uneven', [0.6, 0.9, 0.6], '5000_rounds'),
  ])
  row = _rows(found['settled'], 'Uneven')
  # The fourth seed has no long run.
  assert row['500 rounds: FedAvg'] == '0.500 ± 0.100 [3]'
  assert row['500 rounds: difference'] == '-0.1000 ± 0.0000 [3]'
  assert row['500 rounds: sum of weights'] == '0.500 ± 0.000 [3]'
  # .2, .3 and .1.
  assert row['5000 rounds: difference'] == '+0.200 ± 0.100 [3]'
  row = _rows(found['settled'], 'Smartphones')
  assert row['500 rounds: F3AST'] == 'not run'
  verdicts = tables.markdown(found['verdicts-other'])
  # t = .2 / (.1 / sqrt 3) = 3.46, p = .074 with two degrees of freedom.
  line = next(x for x in verdicts.splitlines() if '5000 rounds' in x)
  assert 'F3AST above FedAvg' in line
  assert '| undecided ' in line and '| 0.074 ' in line


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
