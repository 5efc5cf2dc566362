"""Tests of `grid` with a stub in place of the training."""

import contextlib
import os
import pathlib
import subprocess
import sys
import time
from unittest import mock

import pandas as pd
import psutil
import pytest

from experiments.paper import cell as cells_lib
from experiments.paper import design
from experiments.paper import frames
from experiments.paper import grid
from experiments.paper import results
from tests import stub_training


def _cell(method, seed=0, avail='scarce', variant='', **rest):
  key = design.Key('paper', 'synthetic', avail, method, variant, seed)
  return cells_lib.Cell(key, 2, **rest)


_MATCHED = _cell(
  'fedavg', variant='matched', match=_cell('f3ast').key
)


@pytest.fixture
def places(tmp_path):
  return cells_lib.Places(tmp_path / 'runs', tmp_path / 'results')


@pytest.fixture(autouse=True)
def _revision(monkeypatch):
  monkeypatch.setattr(grid, 'revision', lambda: stub_training.REVISION)


def _run(cells, places, stub, jobs=2):
  with mock.patch.object(grid, 'start', stub):
    return grid.run(cells, places, jobs, poll_seconds=0.02)


def _names(places):
  return sorted(path.stem for path in places.results.glob('*/*/*.json'))


def test_what_is_finished_is_skipped(tmp_path, places):
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


def test_a_failed_cell_does_not_stop_the_others(tmp_path, places, capsys):
  cells = [_cell('fedavg'), _cell('f3ast'), _cell('fedadam')]
  stub = stub_training.Stub(tmp_path, fail=['fedavg'])
  outcome = _run(cells, places, stub, jobs=1)
  assert len(outcome.failed) == 1
  assert outcome.failed[0].startswith(
    'paper/synthetic/scarce-fedavg-seed=0: exit code 3: error: no such luck.'
  )
  assert _names(places) == ['scarce-f3ast-seed=0', 'scarce-fedadam-seed=0']
  assert capsys.readouterr().err.count('started') == 3
  # The next call tries it again, and only it.
  stub = stub_training.Stub(tmp_path)
  assert _run(cells, places, stub) == ([], [])
  assert stub.calls.count('scarce-fedavg-seed=0') == 2
  assert len(stub.calls) == 4


def test_a_finished_run_without_result_is_taken_as_it_is(tmp_path, places):
  cell = _cell('f3ast')
  stub = stub_training.Stub(tmp_path)
  _run([cell], places, stub)
  results.path_of(places.results, cell.key).unlink()
  assert _run([cell], places, stub) == ([], [])
  assert _names(places) == ['scarce-f3ast-seed=0']
  assert len(stub.calls) == 1


def test_no_more_jobs_than_said(tmp_path, places):
  stub = stub_training.Stub(tmp_path)
  cells = [_cell('f3ast', seed) for seed in range(5)]
  assert _run(cells, places, stub, jobs=2) == ([], [])
  assert stub.most <= 2
  assert len(_names(places)) == 5


def test_cores_are_dealt_out_to_the_runs(monkeypatch):
  monkeypatch.setattr(os, 'sched_getaffinity', lambda pid: {7, 1, 2, 4, 9})
  assert grid.shares_of_cores(1) == [{1, 2, 4, 7, 9}]
  assert grid.shares_of_cores(2) == [{1, 4, 9}, {2, 7}]
  assert grid.shares_of_cores(6) == [{1, 2, 4, 7, 9}] * 6


def _waits_for_its_cores(tmp_path, num_cores):
  """Returns a stub whose runs end when they have so many cores."""
  stub = stub_training.Stub(tmp_path)

  def start(cell, places):
    process = stub(cell, places)
    process.wait()
    wait = (
      'import os, time\n'
      'end = time.monotonic() + 60\n'
      f'while len(os.sched_getaffinity(0)) != {num_cores}:\n'
      '  assert time.monotonic() < end\n'
      '  time.sleep(0.01)\n'
    )
    return subprocess.Popen([sys.executable, '-S', '-c', wait])

  return start


@pytest.mark.skipif(
  len(os.sched_getaffinity(0)) < 2, reason='There is one core only.'
)
def test_a_run_has_cores_of_its_own(tmp_path, places):
  cores = len(os.sched_getaffinity(0))
  cells = [_cell('f3ast', seed) for seed in range(cores + 2)]
  start = _waits_for_its_cores(tmp_path, num_cores=1)
  assert _run(cells, places, start, jobs=cores) == ([], [])
  # The one that is left has all of them.
  start = _waits_for_its_cores(tmp_path, num_cores=cores)
  longer = [*cells, _cell('f3ast', cores + 2)]
  assert _run(longer, places, start, jobs=cores) == ([], [])
  assert len(_names(places)) == cores + 3


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
  assert results.is_whole(places.folder(cell), 2)


def test_changed_code_where_it_is_allowed(tmp_path, places):
  places = places._replace(allow_changed_code=True)
  stub = stub_training.Stub(tmp_path, revision=stub_training.REVISION + '+')
  assert _run([_cell('f3ast')], places, stub) == ([], [])


def test_a_run_does_not_go_on_with_other_code(tmp_path, places, monkeypatch):
  cell = _cell('f3ast')
  _run([cell], places, stub_training.Stub(tmp_path, fail=['f3ast']))
  monkeypatch.setattr(grid, 'revision', lambda: 'd' * 40)
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


def test_a_result_of_other_settings_is_not_taken(tmp_path, places):
  _run([_cell('f3ast')], places, stub_training.Stub(tmp_path))
  longer = cells_lib.Cell(_cell('f3ast').key, 3)
  outcome = _run([longer], places, stub_training.Stub(tmp_path))
  assert 'made with rounds=2, and the grid has rounds=3' in outcome.failed[0]


def test_the_run_starts_the_program_of_its_task(tmp_path, monkeypatch):
  commands = []
  monkeypatch.setattr(
    subprocess, 'Popen', lambda command, **_: commands.append(command)
  )
  data_dir = pathlib.Path('/data')
  places = cells_lib.Places(tmp_path / 'r', tmp_path, data_dir=data_dir)
  shakespeare = design.Key('compact', 'shakespeare', 'scarce', 'f3ast')
  for cell in (
    cells_lib.Cell(shakespeare, 2, (('model', 'compact'),)), _cell('f3ast')
  ):
    grid.start(cell, places)
  first, second = commands
  assert first[1].endswith('die_with_parent.py')
  for part in (
    'experiments.shakespeare',
    '--model=compact',
    '--resume',
    '--data_dir=/data',
    f'--output_dir={places.folder(cells_lib.Cell(shakespeare, 2))}',
  ):
    assert part in first
  assert not any('data_dir' in part for part in second)


def test_a_run_ends_with_the_program_that_started_it(tmp_path):
  launcher = pathlib.Path(grid.__file__).with_name('die_with_parent.py')
  sleep = [sys.executable, '-S', '-c', 'import time; time.sleep(600)']
  program = (
    'import os, subprocess, sys, time\n'
    f'sleep = {sleep}\n'
    f'command = [sys.executable, {str(launcher)!r}, str(os.getpid())]\n'
    'print(subprocess.Popen([*command, *sleep]).pid, flush=True)\n'
    'time.sleep(600)\n'
  )
  parent = subprocess.Popen(
    [sys.executable, '-S', '-c', program], stdout=subprocess.PIPE, text=True
  )
  child = psutil.Process(int(parent.stdout.readline()))
  deadline = time.monotonic() + 60
  while 'die_with_parent' in ' '.join(child.cmdline()):  # It has not asked yet.
    assert time.monotonic() < deadline
    time.sleep(0.01)
  assert child.is_running()
  parent.kill()
  parent.communicate()
  # Whoever inherits it may be slow to take note of its end.
  with contextlib.suppress(psutil.NoSuchProcess):
    while child.status() != psutil.STATUS_ZOMBIE:
      assert time.monotonic() < deadline
      time.sleep(0.01)


def test_progress_bar_survives_an_empty_grid(places):
  assert grid.run([], places, 1) == ([], [])
  assert isinstance(frames.values([]), pd.DataFrame)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
