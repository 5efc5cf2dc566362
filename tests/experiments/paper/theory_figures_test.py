"""Draws the pictures of the theory; saving one checks its layout."""

import pathlib
import sys

import pandas as pd
import pytest

from experiments.paper import theory_figures

_THEORY = pathlib.Path(__file__).parents[3] / 'results' / 'theory'


def _saved(path):
  return path.with_suffix('.png').exists() and path.with_suffix('.svg').exists()


@pytest.mark.parametrize('starts', [1, 3])
def test_the_region(tmp_path, starts):
  table = pd.read_csv(_THEORY / 'region.csv')
  corners, points, paths = (
    table[table['kind'] == kind] for kind in ('vertex', 'point', 'trajectory')
  )
  traces = [path[['r1', 'r2']].to_numpy() for _, path in paths.groupby('name')]
  theory_figures.draw_region(
    corners[['r1', 'r2']].to_numpy(),
    {row.name: (row.r1, row.r2) for row in points.itertuples(index=False)},
    (2 * traces)[:starts],
    0.005,
    tmp_path / 'region',
  )
  assert _saved(tmp_path / 'region')


@pytest.mark.parametrize('num_models', [1, 4])
def test_rates(tmp_path, num_models):
  table = pd.read_csv(_THEORY / 'rates.csv')
  models = table['avail'].unique()
  assert len(models) == 6
  theory_figures.draw_rates(
    table[table['avail'].isin(models[:num_models])],
    'Rates of F3AST, 100 clients with the data of Synthetic(1,1), K = 10',
    tmp_path / 'rates',
  )
  assert _saved(tmp_path / 'rates')


@pytest.mark.parametrize('num_systems', [1, 7])
def test_variance(tmp_path, num_systems):
  table = pd.read_csv(_THEORY / 'variance.csv')
  assert len(table) == 7
  theory_figures.draw_variance(table[-num_systems:], tmp_path / 'variance')
  assert _saved(tmp_path / 'variance')


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
