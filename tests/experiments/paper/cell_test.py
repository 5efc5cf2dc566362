"""Tests of `cell`; `grid_test` has those of finished cells."""

import sys

import pytest

from experiments.paper import all_cells
from experiments.paper import cell as cells_lib
from experiments.paper import design


def _cell(method, seed=0):
  key = design.Key('paper', 'synthetic', 'scarce', method, '', seed)
  return cells_lib.Cell(key, 2)


def test_only():
  cells = [_cell('f3ast'), _cell('f3ast_adam'), _cell('fedavg', 1)]
  assert cells_lib.only(cells, []) == cells
  assert cells_lib.only(cells, ['f3ast']) == cells[:2]
  assert cells_lib.only(cells, ['*-f3ast-*']) == cells[:1]
  assert cells_lib.only(cells, ['seed=1', 'adam']) == cells[1:]
  assert cells_lib.only(cells, ['f3ast*']) == []  # A glob is of the whole name.


def test_what_a_cell_needs():
  cells = all_cells.cells('all')
  # Two tables of 25, and two runs of 60 rounds.
  assert sum(cell.num_cores == 2 for cell in cells) == 52
  assert all(
    cell.settings['parallel_clients'] == cell.num_cores for cell in cells
  )
  assert {
    (cell.key.preset, cell.key.dataset)
    for cell in cells
    if cell.memory > 2_000_000_000
  } == {('paper', 'cifar100')}


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
