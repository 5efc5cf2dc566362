"""Tests of `report.verdict_tables`."""

import sys

import pytest

from experiments.paper import claims
from experiments.paper import frames
from experiments.paper import paper_numbers
from experiments.paper import tables
from experiments.paper import verdict_tables
from tests import fake_results


def _tables(methods):
  """Returns the tables of accuracies under Scarce by method."""
  values = frames.values([
    result
    for method, accuracies in methods.items()
    for result in fake_results.seeds(
      'paper', 'synthetic', 'scarce', method, accuracies
    )
  ])
  found = verdict_tables.build(claims.claims(values, paper_numbers.load()))
  return {table.name: table for table in found}


def _row(table, *labels):
  """Returns the texts of the row that begins with the labels, by column."""
  rows = [list(map(tables.text, row)) for row in table.rows]
  (row,) = [row for row in rows if tuple(row[: len(labels)]) == labels]
  return dict(zip(table.header, row))


# The differences are .1, .11 and .09: mean .1, deviation .01, and t = 17.3.
_ABOVE = {'fedavg': [0.5, 0.6, 0.7], 'f3ast': [0.6, 0.71, 0.79]}


def test_a_claim_by_availability():
  row = _row(
    _tables(_ABOVE)['verdicts-paper'],
    'Synthetic(1,1)',
    'test accuracy',
    'F3AST above FedAvg',
  )
  assert row['Scarce'] == 'holds'
  assert row['Always'] == row['mean of the five'] == 'not run'


def test_rows_without_any_run_are_left_out():
  found = _tables(_ABOVE)
  # FedAvg and F3AST: a row for each of the four metrics.
  table = found['verdicts-paper']
  assert len(table.rows) == 4
  num_claims = len(_tables({})['verdicts-paper'].rows)
  assert f' {num_claims - 4} rows are left out' in table.note
  # Of a table of nothing all is there, to show what could be run.
  assert len(found['verdicts-compact'].rows) > 4


def test_counts_by_where_claims_are_from():
  counts = _tables(_ABOVE)['verdict-counts']
  size = "models of the paper's size"
  claims_of = "the paper's claim, where it does not show it"
  row = _row(counts, claims_of, size)
  # Both accuracies hold; both losses are the same in all seeds.
  assert (row['holds'], row['does not hold'], row['undecided']) == (
    '2', '0', '2'
  )
  row = _row(counts, 'the paper prints, draws or says it', size)
  assert (row['holds'], row['undecided']) == ('0', '0')
  # The tables have 30 pairs of accuracies, losses and user averages each, of
  # which 10 are equal or the other way round. Then there are three numbers by
  # alpha, one of them also in the grid; on Synthetic two pairs of curves of
  # accuracy and loss; six K and a trend for two pairs; three datasets' curves,
  # steadier than two others.
  in_tables = 3 * 30 - 10
  in_others = (3 + 1) + 2 * 2 + 2 * (6 + 1) + 3 * 2
  assert int(row['not run']) == in_tables + in_others
  assert _row(counts, 'our controls', size)['not run'] == '18'
  num_claims = len(_tables({})['claims'].rows)
  words = ('holds', 'does not hold', 'undecided', 'not run')
  columns = [counts.header.index(word) for word in words]
  total = sum(int(row[column]) for row in counts.rows for column in columns)
  assert total == num_claims


def test_statistics_of_a_claim():
  table = _tables(_ABOVE)['claims']
  (row,) = [
    dict(zip(table.header, map(tables.text, row)))
    for row in table.rows
    if list(map(tables.text, row[1:6]))
    == ['paper', 'synthetic', 'Scarce', 'accuracy', 'F3AST above FedAvg']
  ]
  assert row['difference'] == '+0.100 ± 0.010 [3]'
  # Two degrees of freedom: p = 1 - t / sqrt(t^2 + 2) = .0033.
  assert row['p'] == '0.0033'
  assert row['seeds as claimed'] == '3 of 3'
  assert row['sign test p'] == '0.25'


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
