"""Tests of `report.paper_tables`: layout, and numbers by hand."""

import sys

import pytest

from experiments.paper import frames
from experiments.paper import paper_numbers
from experiments.paper import paper_tables
from experiments.paper import tables
from tests import fake_results

_row = fake_results.row
_synthetic = fake_results.synthetic


def _tables(all_results):
  numbers = paper_numbers.load()
  values = frames.values(all_results)
  return {
    table.name: table
    for table in paper_tables.build(values, numbers, paper_numbers.SECONDS)
  }


def test_the_papers_layout_and_gains():
  table = _tables([
    *_synthetic('fedavg', 'home_devices', [0.4, 0.6]),
    *_synthetic('f3ast', 'home_devices', [0.5, 0.8]),
    *fake_results.seeds('compact', 'cifar100', 'always', 'f3ast', [0.1]),
  ])['accuracy-paper']
  assert len(table.rows) == 3 * 5
  assert [tables.text(row[1]) for row in table.rows[:5]] == [
    'FedAvg', 'F3AST', 'FedAdam', 'F3AST+Adam', 'PoC'
  ]
  row = _row(table, 'Synthetic(1,1)', 'F3AST')
  # Means .65 and .5, gain 30 %; sample sd of .5 and .8 is .212.
  assert row['Home-devices: ours'] == '0.650 ± 0.212 [2] (+30 %)'
  assert row['Always: ours'] == 'not run'
  assert row['Home-devices: paper'] == '–'
  row = _row(table, 'CIFAR-100', 'F3AST')
  # The compact model's number is not in this table.
  assert row['Always: ours'] == 'not run'
  assert row['Home-devices: paper'] == '0.208 (+87 %)'  # As the paper says.


def test_presets_share_no_table():
  found = _tables(
    fake_results.seeds('compact', 'cifar100', 'always', 'f3ast', [0.125])
  )
  for name, table in found.items():
    text = tables.markdown(table)
    assert ('0.125' in text) == (name == 'accuracy-compact'), name


def test_no_column_mixes_kinds():
  for table in _tables([]).values():
    assert all(len(row) == len(table.header) for row in table.rows)
    for column in zip(*table.rows):
      assert len({type(entry) for entry in column}) == 1, table.name


def test_heterogeneity():
  table = _tables([
    *_synthetic('fedavg', 'smartphones', [0.5], 'alpha=0', alpha=0.0),
    *_synthetic('f3ast', 'smartphones', [0.6], 'alpha=0', alpha=0.0),
    *_synthetic('f3ast', 'smartphones', [0.7]),
  ])['heterogeneity']
  row = _row(table, 'F3AST')
  assert row['alpha = 0: ours'] == '0.600 [1] (+20 %)'
  assert row['alpha = 0: paper'] == '0.83 (+15 %)'
  assert row['alpha = 1: ours'] == '0.700 [1]'
  assert row['alpha = 0.5: ours'] == 'not run'


def test_k_sweep():
  found = _tables([
    *_synthetic('fedavg', 'home_devices', [0.5], 'clients_per_round=20'),
    *_synthetic('f3ast', 'home_devices', [0.6], 'clients_per_round=20'),
  ])
  row = _row(found['k-sweep'], '20')
  assert row['F3AST - FedAvg'] == '+0.100 [1]'
  assert row['PoC'] == row['F3AST - PoC'] == 'not run'


def test_seconds():
  # Half a second a round.
  found = _tables(_synthetic('fedavg', 'scarce', [0.5, 0.5]))['seconds']
  row = _row(found, 'Synthetic(1,1)')
  assert row['FedAvg'] == '0.500 [2]'
  assert row['paper'] == '0.57'


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
