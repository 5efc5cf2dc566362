"""Tests of `tables`."""

import csv
import io
import math
import sys

import pandas as pd
import pytest

from experiments.paper import tables

_TABLE = tables.table(
  'accuracy',
  'Title with 5 %',
  'A note.',
  [
    {
      'method': 'F3AST',
      'Always: ours': tables.Measured(0.75, 0.0123, 3, 0.5, 'paper/a_b'),
      'Always: paper': tables.Printed(0.8, 3, -0.021),
    },
    {
      'method': 'a|b_c',
      'Always: ours': tables.Measured(),
      'Always: paper': tables.Printed(),
    },
  ],
  'method',
)


def test_measured_by_hand():
  values = pd.Series({0: 0.5, 1: 0.7, 2: 0.9})
  baseline = pd.Series({0: 0.4, 1: 0.5})
  entry = tables.measured(values, 'group', baseline)
  assert (entry.mean, entry.sd) == pytest.approx((0.7, 0.2))
  assert entry.seeds == 3
  # Seeds 0 and 1 are in both: .6 / .45 - 1.
  assert entry.gain == pytest.approx(1 / 3)


def test_no_gain_over_a_baseline_that_diverged_or_is_not_there():
  values = pd.Series({0: 0.5, 1: 0.7})
  for baseline in ({0: 0.4, 1: math.nan}, {2: 0.4}, {}):
    baseline = pd.Series(baseline, dtype=float)
    assert tables.measured(values, 'group', baseline).gain is None


@pytest.mark.parametrize(
  'entry, text',
  [
    (tables.Measured(0.7004, 0.0306, 3), '0.700 ± 0.031 [3]'),
    (tables.Measured(0.7004, seeds=1), '0.700 [1]'),
    (tables.Measured(0.2, seeds=1, gain=0.87), '0.200 [1] (+87 %)'),
    (tables.Measured(0.2, seeds=1, gain=-0.0049), '0.200 [1] (-0.5 %)'),
    (tables.Measured(0.01, 0.02, 2, signed=True), '+0.010 ± 0.020 [2]'),
    (tables.Measured(-0.00049, 0.0002, 2, signed=True), '-0.0005 ± 0.0002 [2]'),
    (tables.Measured(0.0035, seeds=1, signed=True), '+0.0035 [1]'),
    (tables.Measured(0.0351, seeds=1, signed=True), '+0.035 [1]'),
    (tables.Measured(), 'not run'),
    (tables.Measured(absent='–'), '–'),
    (tables.measured(pd.Series([0.7, 0.8, math.nan])), 'diverged [3]'),
    (tables.Printed(0.54, 3), '0.540'),
    (tables.Printed(4.2, 2, -0.05), '4.20 (-5.0 %)'),
    (tables.Printed(), '–'),
  ],
)
def test_text(entry, text):
  assert str(entry) == text


def test_markdown():
  assert tables.markdown(_TABLE).splitlines() == [
    '**Title with 5 %**',
    '',
    '| method | Always: ours              | Always: paper  |',
    '|--------|---------------------------|----------------|',
    '| F3AST  | 0.750 ± 0.012 [3] (+50 %) | 0.800 (-2.1 %) |',
    r'| a\|b_c | not run                   | –              |',
    '',
    'A note.',
  ]


_GROUPED = tables.table(
  'grouped',
  'Title',
  'Note.',
  [
    {'dataset': dataset, 'metric': metric, 'claim': claim, 'verdict': 'holds'}
    for dataset, metric, claim in (
      ('A', 'x', 'one'), ('A', 'x', 'two'), ('A', 'y', 'one'), ('B', 'y', 'one')
    )
  ],
  'claim',
)


def test_columns_before_the_label_become_groups():
  assert _GROUPED.groups == [
    ('A, x', [['one', 'holds'], ['two', 'holds']]),
    ('A, y', [['one', 'holds']]),
    ('B, y', [['one', 'holds']]),
  ]
  assert tables.markdown(_GROUPED).splitlines()[2:8] == [
    '| claim    | verdict |',
    '|----------|---------|',
    '| **A, x** |         |',
    '| one      | holds   |',
    '| two      | holds   |',
    '| **A, y** |         |',
  ]
  ((title, rows),) = _TABLE.groups
  assert (title, len(rows)) == ('', 2)


def test_what_is_run():
  assert _TABLE.is_run and _GROUPED.is_run
  assert not _TABLE._replace(frame=_TABLE.frame[1:]).is_run
  nothing = _GROUPED.frame.replace('holds', 'not run')
  assert not _GROUPED._replace(frame=nothing).is_run


def test_latex():
  lines = tables.latex(_TABLE).splitlines()
  assert r'\caption{Title with 5 \%. A note.}' in lines
  assert r' & \multicolumn{2}{c}{Always} \\' in lines
  assert (
    r'F3AST & 0.750 $\pm$ 0.012 [3] (+50 \%) & 0.800 ($-$2.1 \%) \\' in lines
  )
  assert r'a|b\_c & not run & -- \\' in lines


def test_csv_has_each_number_alone():
  rows = list(csv.DictReader(io.StringIO(tables.csv(_TABLE))))
  assert rows[0] == {
    'method': 'F3AST',
    'Always: ours mean': '0.75',
    'Always: ours sd': '0.0123',
    'Always: ours seeds': '3',
    'Always: ours gain': '0.5',
    'Always: paper': '0.8',
    'Always: paper gain': '-0.021',
  }
  assert rows[1]['Always: ours seeds'] == '0'
  assert rows[1]['Always: ours mean'] == rows[1]['Always: paper'] == ''


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
