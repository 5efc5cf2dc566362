"""Tests of `verdict_tables`."""

import sys

import pytest

from experiments.paper import claims
from experiments.paper import frames
from experiments.paper import paper_numbers
from experiments.paper import verdict_tables
from experiments.paper import verdicts
from tests import fake_results

_row = fake_results.row


def _tables(**methods):
  """Returns the tables of accuracies on Synthetic under Scarce by method."""
  return _of([
    result
    for method, accuracies in methods.items()
    for result in fake_results.synthetic(method, 'scarce', accuracies)
  ])


def _of(found):
  values, curves = frames.values(found), frames.curves(found)
  return verdict_tables.build(
    claims.claims(values, curves, paper_numbers.load())
  )


@pytest.fixture(name='nothing', scope='module')
def _nothing():
  return {table.name: table for table in _tables()}


@pytest.fixture(name='above', scope='module')
def _above():
  # The differences are .1, .11 and .09: mean .1, deviation .01, and t = 17.3.
  return _tables(fedavg=[0.5, 0.6, 0.7], f3ast=[0.6, 0.71, 0.79])


def test_a_claim_by_availability(above):
  labels = 'Synthetic(1,1)', 'test accuracy', 'F3AST above FedAvg'
  row = _row(above, 'verdicts-paper', *labels)
  assert row['Scarce'] == 'holds'
  assert row['Always'] == row['mean of the five'] == 'not run'


def test_the_conclusion_has_the_rows_that_were_run(above, nothing):
  assert above[0].name == 'verdicts-synthetic'
  assert len(above[0].frame) == 1
  assert _row(above, 'verdicts-synthetic', 'Scarce') == {
    'availability': 'Scarce',
    'F3AST above FedAvg': 'holds',
    'F3AST above FedAvg, with replacement': 'not run',
    'F3AST - FedAvg': '+0.100 ± 0.010 [3]*',
    'F3AST+Adam - FedAdam': 'not run',
    'F3AST - PoC': 'not run',
    'F3AST - FedAvg, with replacement': 'not run',
    'F3AST+Adam - FedAdam, with replacement': 'not run',
    'F3AST - FedAvg, user accuracy': '+0.0500 ± 0.0050 [3]*',
  }
  assert above[0].is_run
  assert not nothing['verdicts-synthetic'].is_run


def test_in_every_table_a_verdict_is_next_to_the_label(above):
  for table in above:
    columns = list(table.frame)[table.num_groups :]
    assert columns[0] == table.label
    assert columns[1] in ('F3AST above FedAvg', 'holds', 'Always', 'verdict')


def test_rows_without_any_run_are_left_out(above, nothing):
  found = {table.name: table for table in above}
  # FedAvg and F3AST: a row for each of the four metrics.
  assert len(found['verdicts-paper'].frame) == 4
  absent = len(nothing['verdicts-paper'].frame) - 4
  assert f' {absent} rows ' in found['verdicts-paper'].note
  # Of a table of nothing all is there, to show what could be run.
  assert len(found['verdicts-compact'].frame) > 4


def test_counts_by_where_claims_are_from(above, nothing):
  def count(source):
    row = _row(above, 'verdict-counts', source, "models of the paper's size")
    return [int(count) for count in list(row.values())[2:]]

  # Both accuracies hold; both losses are the same in all seeds.
  assert count(verdicts.CARRIED_OVER)[:3] == [2, 0, 2]
  # The tables have 30 pairs of accuracies, losses and user averages each, of
  # which 6 are of Uneven on CIFAR-100, and 9 of the others are equal or the
  # other way round. Then there are three numbers by alpha; on Synthetic two
  # pairs of curves of accuracy and loss; five K beside that of the grid and a
  # trend for two pairs, one K less for PoC; three datasets' curves, steadier
  # than two others.
  in_tables = 3 * 30 - 6 - 9
  in_others = 3 + 2 * 2 + (5 + 1) + (4 + 1) + 3 * 2
  assert count(verdicts.PAPER) == [0, 0, 0, in_tables + in_others]
  # Two pairs in five models and their mean, four metrics on Synthetic and
  # Shakespeare; without Uneven, two metrics on CIFAR-100. Two alpha, five K and
  # a trend, three curves.
  in_tables = 2 * (2 * 6 * 4 + 5 * 2)
  assert count(verdicts.OTHER_DRAW) == [0, 0, 0, in_tables + 2 + 5 + 1 + 3]
  # Equal steps: five in two models; E steps: two in five; long runs: of two
  # metrics one in six and one in five; safe: three in five, twice; the released
  # code: two in five; equal work: two in five; Uneven by batches.
  ours = 5 * 2 + 2 * 5 + 2 * (6 + 5) + 2 * 3 * 5 + 2 * 5 + 2 * 5 + 1
  assert count(verdicts.OURS) == [0, 0, 0, ours]
  (table,) = [table for table in above if table.name == 'verdict-counts']
  counts = table.frame.iloc[:, 2:].astype(int)
  assert counts.to_numpy().sum() == len(nothing['claims'].frame)


def test_statistics_of_a_claim(above):
  place = 'tables', 'paper', 'synthetic', 'accuracy'
  row = _row(above, 'claims', *place, 'F3AST above FedAvg', 'Scarce')
  assert row['difference'] == '+0.100 ± 0.010 [3]*'
  # Two degrees of freedom: p = 1 - t / sqrt(t^2 + 2) = .0033.
  assert row['p'] == '0.0033'
  # The user accuracy has the same, and both losses 1: 4 / 2 of it.
  assert row['p, corrected'] == '0.0066'
  assert row['seeds as claimed'] == '3 of 3'
  assert row['sign test p'] == '0.25'


def test_signs_of_one_seed():
  place = 'compact', 'shakespeare', 'always'
  found = {
    table.name: table
    for table in _of([
      *fake_results.seeds(*place, 'f3ast', [0.5], loss=1.0),
      *fake_results.seeds(*place, 'fedavg', [0.4], loss=0.9),
      # Not of the paper, and not with one seed.
      *fake_results.seeds(*place, 'fedavg_with_replacement', [0.4]),
      *fake_results.synthetic('f3ast', 'home_devices', [0.5, 0.5]),
      *fake_results.synthetic('fedavg', 'home_devices', [0.4, 0.4]),
    ])
  }
  # Both accuracies are higher, both losses too.
  note = found['verdict-counts'].note
  assert note.endswith('the claimed sign: 2 of 4 (Shakespeare, compact).')


def test_uneven_on_cifar100_is_always():
  place = 'compact', 'cifar100'
  found = _of([
    *fake_results.seeds(*place, 'always', 'f3ast', [0.6, 0.71, 0.79]),
    *fake_results.seeds(*place, 'always', 'fedavg', [0.5, 0.6, 0.7]),
  ])
  labels = 'CIFAR-100', 'test accuracy', 'F3AST above FedAvg'
  row = _row(found, 'verdicts-compact', *labels)
  assert row['Uneven'] == row['Always'] == 'holds'
  assert list(row)[3:] == [
    'Always',
    'Scarce',
    'Home-devices',
    'Uneven',
    'Smartphones',
    'mean of the five',
  ]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
