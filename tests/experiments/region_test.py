"""Tests of `experiments.region`."""

import sys

import pandas as pd
import pytest

from tests import programs


def test_figure_1(tmp_path):
  programs.succeed(
    tmp_path,
    'experiments.region',
    '--output_dir=out',
    '--picture_dir=pictures',
    '--beta=0.02',
    '--rounds=600',
    '--starts=0.5,0.5',
  )
  for ending in ('png', 'svg'):
    assert (tmp_path / 'pictures' / f'region.{ending}').exists()
  table = pd.read_csv(tmp_path / 'out' / 'region.csv')
  corners = table[table['kind'] == 'vertex'][['r1', 'r2']].to_numpy().tolist()
  assert corners == [[0, 0], [0, 0.8], [0.075, 0.8], [0.375, 0], [0.375, 0.5]]
  points = table[table['kind'] == 'point'].set_index('name')
  for name, r1, r2 in (
    ('a', 0.375, 0),
    ('b', 0.375, 0.5),
    ('c', 0.225, 0.65),
    ('ideal', 0.5, 0.5),
    ('best', 0.375, 0.5),
  ):
    assert points.loc[name, 'r1'] == pytest.approx(r1)
    assert points.loc[name, 'r2'] == pytest.approx(r2)
  path = table[table['kind'] == 'trajectory']
  assert path.iloc[0][['r1', 'r2']].tolist() == [0.5, 0.5]
  # One standard deviation of r(t) is about sqrt(beta / 2) / 2 = .05.
  late = path[path['round'] >= 300][['r1', 'r2']].mean()
  assert abs(late['r1'] - 0.375) < 0.06 and abs(late['r2'] - 0.5) < 0.06


@pytest.mark.parametrize(
  'flag, message',
  [
    ('--p=0.5,0.6', 'p must sum to 1'),
    ('--p=0.5', '2 numbers'),
    ('--p=nan,1', '2 numbers'),
    ('--starts=0.5,1.5', 'rates in [0, 1]'),
    ('--beta=0', 'beta must be in (0, 1]'),
    ('--rounds=0', 'a positive integer'),
    ('--nonsense', 'nonsense'),
    ('extra', 'unexpected argument'),
    ('--output_dir=/proc/no', 'Cannot write'),
  ],
)
def test_bad_flags_are_one_sentence(tmp_path, flag, message):
  assert message in programs.one_error(tmp_path, 'experiments.region', flag)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
