"""Tests of `paper_tables`: layout, and numbers by hand."""

import sys

import pytest

from experiments.paper import frames
from experiments.paper import paper_numbers
from experiments.paper import paper_tables
from experiments.paper import tables
from tests import fake_results

_row = fake_results.row
_synthetic = fake_results.synthetic


def _tables(found):
  return paper_tables.build(frames.values(found), paper_numbers.load())


def test_the_papers_layout_and_gains():
  found = _tables([
    *_synthetic('fedavg', 'home_devices', [0.4, 0.6]),
    *_synthetic('f3ast', 'home_devices', [0.5, 0.8]),
    *fake_results.seeds('compact', 'cifar100', 'always', 'f3ast', [0.1]),
  ])
  assert found[0].name == 'accuracy-paper'
  methods = ['FedAvg', 'F3AST', 'FedAdam', 'F3AST+Adam', 'PoC']
  methods += ['FedAvg, with replacement', 'FedAdam, with replacement']
  assert list(found[0].frame['method']) == 3 * methods
  row = _row(found, 'accuracy-paper', 'Synthetic(1,1)', 'F3AST')
  # Means .65 and .5, gain 30 %; sample sd of .5 and .8 is .212.
  assert row['Home-devices: ours'] == '0.650 ± 0.212 [2] (+30 %)'
  assert row['Always: ours'] == 'not run'
  assert row['Home-devices: paper'] == '–'
  row = _row(found, 'accuracy-paper', 'CIFAR-100', 'F3AST')
  # The compact model's number is not in this table.
  assert row['Always: ours'] == 'not run'
  assert row['Home-devices: paper'] == '0.208 (+87 %)'  # As the paper says.


def test_presets_share_no_table():
  found = _tables(
    fake_results.seeds('compact', 'cifar100', 'always', 'f3ast', [0.115])
  )
  with_it = [t.name for t in found if '0.125' in tables.markdown(t)]
  assert with_it == ['accuracy-compact']


def test_no_column_mixes_kinds():
  for table in _tables([]):
    for column in table.frame:
      assert table.frame[column].map(type).nunique() == 1, table.name


def test_heterogeneity():
  found = _tables([
    *_synthetic('fedavg', 'smartphones', [0.5], 'alpha=0', alpha=0.0),
    *_synthetic('f3ast', 'smartphones', [0.6], 'alpha=0', alpha=0.0),
    *_synthetic('f3ast', 'smartphones', [0.7]),
    *_synthetic('f3ast', 'smartphones', [0.4], 'rate_init=kp'),
    *_synthetic('f3ast', 'smartphones', [0.3], 'alpha=0-rate_init=kp'),
  ])
  row = _row(found, 'heterogeneity', 'F3AST')
  assert row['alpha = 0: ours'] == '0.600 [1] (+20 %)'
  assert row['alpha = 0: paper'] == '0.83 (+15 %)'
  assert row['alpha = 1: ours'] == '0.700 [1]'
  assert row['alpha = 0.5: ours'] == 'not run'
  row = _row(found, 'heterogeneity', 'F3AST from r(0) = K p, as at first')
  assert row['alpha = 0: ours'] == '0.300 [1] (-40 %)'
  assert row['alpha = 1: ours'] == '0.400 [1]'
  assert row['alpha = 0: paper'] == '–'
  row = _row(found, 'heterogeneity', 'FedAvg, with replacement')
  assert row['alpha = 0: ours'] == 'not run'


def test_k_sweep_and_seconds():
  found = _tables([
    *_synthetic('fedavg', 'home_devices', [0.5], 'clients_per_round=20'),
    *_synthetic('f3ast', 'home_devices', [0.6], 'clients_per_round=20'),
    *_synthetic('fedavg', 'scarce', [0.5, 0.5]),
  ])
  row = _row(found, 'k-sweep', '20')
  assert row['F3AST - FedAvg'] == '+0.100 [1]'
  assert row['PoC'] == row['F3AST - PoC'] == 'not run'
  row = _row(found, 'seconds', 'Synthetic(1,1)')
  # Half a second a round, in the main grid alone.
  assert (row['FedAvg'], row['F3AST']) == ('0.500 [2]', 'not run')
  assert row['paper'] == '0.57'


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
