"""Tests of `runner` with a stub in place of the training."""

import contextlib
import os
import pathlib
import subprocess
import sys
import time
from unittest import mock

import psutil
import pytest

from experiments.grid import cell as cells_lib
from experiments.grid import runner
from experiments.grid import runs
from tests import stub_training


def _cell(method, seed=0, rounds=2, task='synthetic', **flags):
  flags |= {'algorithm': method, 'seed': seed, 'rounds': rounds}
  settings = {'parallel_clients': 1, **flags, 'server_learning_rate': 1.0}
  return runs.Run(f'{method}-seed={seed}', task, flags, settings)


@pytest.fixture
def places(tmp_path):
  return runs.Runs(tmp_path / 'runs')


def _run(cells, places, stub, jobs=2):
  with mock.patch.object(runner, 'start', stub):
    return runner.run(cells, places, jobs, poll_seconds=0.02)


def _names(places):
  whole = [path.parent for path in places.runs.glob('*/model.npz')]
  return sorted(path.name for path in whole)


def test_what_is_finished_is_skipped(tmp_path, places, capsys):
  cells = [_cell('fedavg'), _cell('f3ast'), _cell('f3ast', 1)]
  stub = stub_training.Stub(tmp_path)
  assert _run(cells[:2], places, stub) == ([], [])
  printed = capsys.readouterr().err
  assert printed.count('started  ') == printed.count('finished ') == 2
  assert printed.index(', 1 left\n') < printed.index(', 0 left\n')
  assert _run(cells, places, stub) == ([], [])
  assert capsys.readouterr().err.splitlines() == [
    'started  f3ast-seed=1', 'finished f3ast-seed=1, 0 left'
  ]
  names = ['f3ast-seed=0', 'f3ast-seed=1', 'fedavg-seed=0']
  assert stub.calls == _names(places) == names


def test_a_failed_cell_does_not_stop_the_others(tmp_path, places, capsys):
  cells = [_cell('fedavg'), _cell('f3ast'), _cell('fedadam')]
  stub = stub_training.Stub(tmp_path, fail=['fedavg'])
  outcome = _run(cells, places, stub, jobs=1)
  assert len(outcome.failed) == 1
  assert outcome.failed[0].startswith(
    'fedavg-seed=0: exit code 3: error: no such luck.'
  )
  assert _names(places) == ['f3ast-seed=0', 'fedadam-seed=0']
  printed = capsys.readouterr().err
  assert printed.count('started') == 3
  assert 'failed   fedavg-seed=0, 2 left' in printed
  # The next call tries it again, and only it.
  stub = stub_training.Stub(tmp_path)
  assert _run(cells, places, stub) == ([], [])
  assert stub.calls.count('fedavg-seed=0') == 2
  assert len(stub.calls) == 4


def test_another_run_is_not_taken(tmp_path, places):
  _run([_cell('f3ast')], places, stub_training.Stub(tmp_path))
  outcome = _run([_cell('f3ast', beta=0.5)], places, None)
  assert 'holds another run (beta is None there and 0.5 here)' in (
    outcome.failed[0]
  )
  config = places.folder(_cell('f3ast')) / 'config.json'
  config.write_text(config.read_text().replace('"numpy": "', '"numpy": "0'))
  outcome = _run([_cell('f3ast')], places, None)
  assert 'holds a run of another version' in outcome.failed[0]


def test_a_run_is_whole_with_its_last_test_and_its_model(tmp_path, places):
  cell = _cell('f3ast', rounds=3)
  _run([cell], places, stub_training.Stub(tmp_path))
  folder = places.folder(cell)
  assert cells_lib.is_whole(folder, 3) and places.is_finished(cell)
  assert not cells_lib.is_whole(folder, 2)
  assert not cells_lib.is_whole(folder, 30)
  assert not cells_lib.is_whole(tmp_path, 3)
  (folder / 'model.npz').unlink()
  assert not cells_lib.is_whole(folder, 3) and not places.is_finished(cell)


def test_no_more_jobs_than_said(tmp_path, places):
  stub = stub_training.Stub(tmp_path)
  cells = [_cell('f3ast', seed) for seed in range(5)]
  assert _run(cells, places, stub, jobs=2) == ([], [])
  assert stub.most <= 2
  assert len(_names(places)) == 5


def test_cores_are_dealt_out_to_the_runs(monkeypatch):
  monkeypatch.setattr(os, 'sched_getaffinity', lambda pid: {7, 1, 2, 4, 9})
  assert runner.shares_of_cores(1) == [{1, 2, 4, 7, 9}]
  assert runner.shares_of_cores(2) == [{1, 4, 9}, {2, 7}]
  assert runner.shares_of_cores(6) == [{1, 2, 4, 7, 9}] * 6


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


def test_the_run_starts_the_program_of_its_task(tmp_path, monkeypatch):
  commands = []
  monkeypatch.setattr(
    subprocess, 'Popen', lambda command, **_: commands.append(command)
  )
  places = runs.Runs(tmp_path / 'r', pathlib.Path('/data'))
  shakespeare = _cell('f3ast', task='shakespeare', model='compact')
  for cell in (shakespeare, _cell('f3ast')):
    runner.start(cell, places)
  first, second = commands
  assert first[1].endswith('die_with_parent.py')
  for part in (
    'experiments.shakespeare',
    '--model=compact',
    '--resume',
    '--data_dir=/data',
    f'--output_dir={places.folder(shakespeare)}',
  ):
    assert part in first
  assert not any('data_dir' in part for part in second)


def test_the_command_can_be_pasted_into_a_shell():
  cell = _cell('f3ast', clients_per_round='uniform:5,15', data_dir='a b')
  assert cells_lib.command(cell) == (
    '.venv/bin/python -m experiments.synthetic '
    "--clients_per_round=uniform:5,15 '--data_dir=a b' --algorithm=f3ast "
    '--seed=0 --rounds=2'
  )


def test_a_run_ends_with_the_program_that_started_it(tmp_path):
  launcher = pathlib.Path(runner.__file__).with_name('die_with_parent.py')
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
  assert runner.run([], places, 1) == ([], [])


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
