"""Tests of `experiments.cells`; `grid_test` has those of finished cells."""

import sys

import pytest

from experiments import cells as cells_lib
from experiments import paper_cells
from f3ast_tff.report import results


def _cell(method, seed=0):
  key = results.Key('paper', 'synthetic', 'scarce', method, '', seed)
  return cells_lib.Cell(key, 2)


def test_only():
  cells = [_cell('f3ast'), _cell('f3ast_adam'), _cell('fedavg', 1)]
  assert cells_lib.only(cells, []) == cells
  assert cells_lib.only(cells, ['f3ast']) == cells[:2]
  assert cells_lib.only(cells, ['*-f3ast-*']) == cells[:1]
  assert cells_lib.only(cells, ['seed=1', 'adam']) == cells[1:]
  assert cells_lib.only(cells, ['f3ast*']) == []  # A glob is of the whole name.


def test_shards_are_all_cells_once():
  cells = [_cell('f3ast', seed) for seed in range(7)]
  parts = [cells_lib.shard(cells, f'{i}/3') for i in (1, 2, 3)]
  assert [len(part) for part in parts] == [3, 2, 2]
  assert sorted(sum(parts, []), key=lambda c: c.key.seed) == cells
  for wrong in ('0/3', '4/3', '1', 'a/b', '1/2/3', '-1/3'):
    with pytest.raises(ValueError, match='i/n with i from 1 to n'):
      cells_lib.shard(cells, wrong)


def test_shards_mix_methods_and_keep_together_what_waits():
  methods = ('fedavg', 'f3ast', 'fedadam', 'f3ast_adam', 'power_of_choice')
  cells = [_cell(method, seed) for seed in range(20) for method in methods]
  waiting = [
    cells_lib.Cell(
      results.Key('paper', 'synthetic', 'scarce', 'fedavg', 'matched', seed),
      2,
      match=_cell('f3ast', seed).key,
    )
    for seed in range(20)
  ]
  for i in range(1, 6):
    part = cells_lib.shard(cells + waiting, f'{i}/5')
    assert {cell.key.method for cell in part} == set(methods)
    keys = {cell.key for cell in part}
    assert all(cell.match in keys for cell in part if cell.match)
    # In their order, so that nothing comes before what it waits for.
    assert part == [cell for cell in cells + waiting if cell in part]


def test_each_shard_has_its_share_of_what_takes_hours():
  cells = paper_cells.cells('paper')
  num_large = sum(cell.is_large for cell in cells)
  for n in (4, 10):
    for i in range(1, n + 1):
      part = cells_lib.shard(cells, f'{i}/{n}')
      for dataset in ('cifar100', 'shakespeare'):
        of_dataset = [c for c in cells if c.key.dataset == dataset]
        mine = [c for c in part if c.key.dataset == dataset]
        assert abs(len(mine) - len(of_dataset) / n) < 1
  assert num_large == 52  # Two tables of 25, and two runs of 60 rounds.


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
