"""Tests of `cell`, with a stub in place of the training."""

import sys
from unittest import mock

import pytest

from experiments.grid import cell as grid_cell
from experiments.grid import runner
from experiments.paper import all_cells
from experiments.paper import cell as cells_lib
from experiments.paper import design
from experiments.paper import results
from tests import stub_training


def _cell(method, seed=0, variant='', **rest):
  key = design.Key('paper', 'synthetic', 'scarce', method, variant, seed)
  return cells_lib.Cell(key, 2, **rest)


_MATCHED = _cell('fedavg', variant='matched', match=_cell('f3ast').key)


@pytest.fixture
def places(tmp_path):
  return cells_lib.Places(tmp_path / 'runs', tmp_path / 'results')


@pytest.fixture(autouse=True)
def _revision(monkeypatch):
  monkeypatch.setattr(runner, 'revision', lambda: stub_training.REVISION)


def _run(cells, places, stub, jobs=2):
  with mock.patch.object(runner, 'start', stub):
    return runner.run(cells, places, jobs, poll_seconds=0.02)


def _names(places):
  return sorted(path.stem for path in places.results.glob('*/*/*.json'))


def test_only():
  cells = [_cell('f3ast'), _cell('f3ast_adam'), _cell('fedavg', 1)]
  assert cells_lib.only(cells, []) == cells
  assert cells_lib.only(cells, ['f3ast']) == cells[:2]
  assert cells_lib.only(cells, ['*-f3ast-*']) == cells[:1]
  assert cells_lib.only(cells, ['seed=1', 'adam']) == cells[1:]
  assert cells_lib.only(cells, ['f3ast*']) == []  # A glob is of the whole name.


def test_what_a_cell_needs():
  cells = all_cells.cells('all')
  # Two tables of 35, four runs of 60 rounds, and two of Uneven by batches.
  assert sum(cell.num_cores == 2 for cell in cells) == 76
  assert all(
    cell.settings['parallel_clients'] == cell.num_cores for cell in cells
  )
  assert {
    (cell.key.preset, cell.key.dataset)
    for cell in cells
    if cell.memory > 2_000_000_000
  } == {('paper', 'cifar100')}


def test_a_finished_run_becomes_a_result(tmp_path, places):
  cells = [_cell('fedavg'), _cell('f3ast'), _cell('f3ast', 1)]
  stub = stub_training.Stub(tmp_path)
  assert _run(cells[:2], places, stub) == ([], [])
  assert _run(cells, places, stub) == ([], [])
  names = [
    'scarce-f3ast-seed=0', 'scarce-f3ast-seed=1', 'scarce-fedavg-seed=0'
  ]
  assert stub.calls == _names(places) == names
  result = results.read(results.path_of(places.results, cells[0].key))
  assert result['command'] == (
    '.venv/bin/python -m experiments.synthetic --algorithm=fedavg '
    '--avail=scarce --rounds=2 --seed=0 --parallel_clients=1'
  )
  assert result['revision'] == stub_training.REVISION


def test_a_finished_run_without_result_is_taken_as_it_is(tmp_path, places):
  cell = _cell('f3ast')
  stub = stub_training.Stub(tmp_path)
  _run([cell], places, stub)
  results.path_of(places.results, cell.key).unlink()
  assert _run([cell], places, stub) == ([], [])
  assert _names(places) == ['scarce-f3ast-seed=0']
  assert len(stub.calls) == 1


@pytest.mark.parametrize(
  'stub, reason',
  [
    ({'revision': stub_training.REVISION + '+'}, 'uncommitted changes'),
    ({'revision': ''}, 'without a git revision'),
    ({'data_source': 'sample'}, 'sample data'),
    ({'beta': 0.5, 'seed': 7}, 'seed=7'),
  ],
)
def test_what_is_no_result_stays_in_runs(tmp_path, places, stub, reason):
  cell = _cell('f3ast')
  outcome = _run([cell], places, stub_training.Stub(tmp_path, **stub))
  assert len(outcome.failed) == 1 and reason in outcome.failed[0]
  assert not places.results.exists()
  assert grid_cell.is_whole(places.folder(cell), 2)


def test_changed_code_where_it_is_allowed(tmp_path, places):
  places = places._replace(allow_changed_code=True)
  stub = stub_training.Stub(tmp_path, revision=stub_training.REVISION + '+')
  assert _run([_cell('f3ast')], places, stub) == ([], [])


def test_a_run_does_not_go_on_with_other_code(tmp_path, places, monkeypatch):
  cell = _cell('f3ast')
  _run([cell], places, stub_training.Stub(tmp_path, fail=['f3ast']))
  monkeypatch.setattr(runner, 'revision', lambda: 'd' * 40)
  stub = stub_training.Stub(tmp_path)
  outcome = _run([cell], places, stub)
  assert f'was begun at revision {stub_training.REVISION}' in outcome.failed[0]
  assert len(stub.calls) == 1


def test_a_matched_cell_waits_for_the_other(tmp_path, places):
  stub = stub_training.Stub(tmp_path)
  outcome = _run([_MATCHED], places, stub)
  assert outcome.failed == [] and stub.calls == []
  assert outcome.waiting == [
    'paper/synthetic/scarce-fedavg-matched-seed=0 waits for the result of '
    'paper/synthetic/scarce-f3ast-seed=0, which is not among the cells'
  ]
  failing = stub_training.Stub(tmp_path, fail=['f3ast'])
  outcome = _run([_MATCHED, _cell('f3ast')], places, failing)
  assert len(outcome.failed) == 1
  assert outcome.waiting[0].endswith('f3ast-seed=0, which failed')
  assert _run([_MATCHED, _cell('f3ast')], places, stub) == ([], [])
  result = results.read(results.path_of(places.results, _MATCHED.key))
  assert result['settings']['server_learning_rate'] == 0.8123
  assert '--server_learning_rate=0.8123' in result['command']
  # And it is known as finished.
  assert _run([_MATCHED], places, stub) == ([], [])
  assert len(stub.calls) == 3  # With the one that failed.


def test_a_result_does_not_say_where_runs_were(tmp_path, places):
  following = _cell(
    'fedavg',
    variant='following',
    match=_cell('f3ast').key,
    is_by_round=True,
  )
  stub = stub_training.Stub(tmp_path)
  # The first call leaves the run of the other, the second reads its file.
  for cells in ([_cell('f3ast')], [_cell('f3ast'), following]):
    assert _run(cells, places, stub) == ([], [])
  path = results.path_of(places.results, following.key)
  other = 'runs/cells/paper/synthetic/scarce-f3ast-seed=0/rounds.csv'
  found = results.read(path)
  assert found['settings']['server_rate_file'] == other
  assert f'--server_rate_file={other}' in found['command']
  assert str(tmp_path) not in path.read_text()


def test_a_result_of_other_settings_is_not_taken(tmp_path, places):
  _run([_cell('f3ast')], places, stub_training.Stub(tmp_path))
  longer = cells_lib.Cell(_cell('f3ast').key, 3)
  outcome = _run([longer], places, stub_training.Stub(tmp_path))
  assert 'made with rounds=2, and the grid has rounds=3' in outcome.failed[0]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
