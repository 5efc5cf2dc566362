"""Tests of the program `experiments.paper`, without training."""

import pathlib
import subprocess
import sys

import pytest

from experiments.paper import all_cells
from experiments.paper import cell as cells_lib
from experiments.paper import design
from experiments.paper import grid_report
from experiments.paper import results
from tests import fake_results
from tests import programs

_ROOT = pathlib.Path(__file__).parents[2]


def _paper(folder, *arguments, stub=False):
  modules = ['tests.stub_training'] if stub else []
  return programs.run(folder, *modules, 'experiments.paper', *arguments)


def _some_results(folder, **changes):
  """Writes results of a few cells of the grid."""
  for cell in all_cells.main_grid(500, range(2), ['home_devices']):
    accuracy = 0.5 + 0.01 * len(cell.key.method) + 0.1 * cell.key.seed
    result = fake_results.result(cell.key, accuracy, rounds=500)
    results.write(folder, result | changes)


def _one_error(done, exit_code):
  assert done.returncode == exit_code, done.stderr
  lines = done.stderr.splitlines()
  assert len(lines) == 1 and lines[0].startswith('error: ')
  return lines[0]


def test_report_and_check(tmp_path):
  _some_results(tmp_path / 'results' / 'cells')
  # The test of our own results draws the pictures, and compares them.
  done = _paper(tmp_path, '--report_only', stub=True)
  assert done.returncode == 0, done.stderr
  report = tmp_path / 'docs' / 'paper'
  assert (report / 'report.html').stat().st_size > 10_000
  # A number of a table, and a number behind a figure.
  for name in ('accuracy-paper.tex', 'figure-curves-loss-paper.csv'):
    text = (report / name).read_text()
    changed = text[::-1].replace('1', '2', 1)[::-1]
    assert changed != text
    (report / name).write_text(changed)
  message = _one_error(_paper(tmp_path, '--check', stub=True), 1)
  assert str(report / 'accuracy-paper.tex') in message
  assert str(report / 'figure-curves-loss-paper.csv') in message
  # And these two only: all else is the same again.
  assert message.count('is not what the results give') == 2
  (tmp_path / 'file').touch()
  message = _one_error(
    _paper(tmp_path, '--report_only', '--report_dir=file', stub=True), 2
  )
  assert 'cannot write the report to' in message and 'exists' in message


_FEW = '--only=*home_devices-f3ast-seed=0,*home_devices-fedavg-matched-seed=0'


def test_a_grid_is_run_and_its_report_made(tmp_path):
  done = _paper(tmp_path, _FEW, '--preset=compact', '--jobs=1', stub=True)
  assert done.returncode == 0, done.stderr
  assert (tmp_path / 'docs' / 'paper' / 'report.html').exists()
  found = results.read_all(tmp_path / 'results' / 'cells')
  assert len(found) == 4  # Two of Synthetic, CIFAR-100, Shakespeare.


@pytest.mark.slow
def test_from_scratch_leaves_results_alone(tmp_path):
  flags = [_FEW, '--from_scratch', '--rounds=2']
  done = _paper(tmp_path, *flags, stub=True)
  assert done.returncode == 0, done.stderr
  scratch = tmp_path / 'runs' / 'paper'
  assert (scratch / 'report' / 'report.html').exists()
  assert (scratch / 'finished').exists()
  assert not (tmp_path / 'results').exists()
  assert not (tmp_path / 'docs').exists()
  # The next call would begin from scratch once more.
  done = _paper(tmp_path, *flags, '--dry_run')
  assert done.returncode == 0, done.stderr
  num_cells = done.stdout.count('seed=0: ')
  assert f'{num_cells} cells, {num_cells} to run' in done.stdout
  assert (scratch / 'finished').exists()


@pytest.mark.slow
def test_cells_that_cannot_run_are_no_success(tmp_path):
  flags = ['--only=fedavg-matched-seed=0', '--from_scratch', '--rounds=2']
  done = _paper(tmp_path, *flags, stub=True)
  assert done.returncode == 1
  assert 'waits for the result of' in done.stderr
  assert 'which is not among the cells' in done.stderr
  assert not (tmp_path / 'runs' / 'paper' / 'finished').exists()


@pytest.mark.parametrize(
  'arguments, message',
  [
    (['--cluster=moon'], 'auto (the Ray cluster'),
    (['--only=nothing'], 'fits --only=nothing'),
    (['--rounds=5'], '--from_scratch'),
    (['--check', '--dry_run'], 'one of --check'),
    (['--preset=huge'], 'preset'),
    (['--data_dir', 'x', 'y'], "unexpected argument 'y'"),
  ],
)
def test_usage_errors_are_one_sentence(tmp_path, arguments, message):
  assert message in _one_error(_paper(tmp_path, *arguments), 2)


@pytest.mark.parametrize(
  'changes, message',
  [
    ({'revision': ''}, 'without a git revision'),
    ({'revision': fake_results.REVISION + '+'}, 'uncommitted changes'),
  ],
)
def test_no_report_of_what_is_no_result(tmp_path, changes, message):
  _some_results(tmp_path / 'results' / 'cells', **changes)
  error = _one_error(_paper(tmp_path, '--report_only'), 2)
  assert message in error and 'seed=0.json' in error


def test_strange_results_are_named(tmp_path):
  key = design.Key('paper', 'synthetic', 'always', 'f3ast', 'beta=1')
  results.write(tmp_path / 'results' / 'cells', fake_results.result(key))
  error = _one_error(_paper(tmp_path, '--check'), 2)
  assert 'beta=1-seed=0.json is not of a cell of the grid' in error


def test_the_report_is_what_the_results_give():
  # As --check does, but in this process: saving a figure checks its layout.
  places = cells_lib.Places(
    _ROOT / 'runs' / 'cells', _ROOT / 'results' / 'cells'
  )
  cells = all_cells.cells('all')
  grid_report.check(places, cells, _ROOT / 'docs' / 'paper')


# A commit that was lost after the run; `docs/reproduction.md` says what was
# repeated.
_LOST = {'d1f1d4cbbe4ad8f22ad2739875009756cb0acea2'}


def test_results_are_of_code_that_is_in_the_history():
  git = ['git', '-C', str(_ROOT)]
  shallow = subprocess.run(
    [*git, 'rev-parse', '--is-shallow-repository'],
    capture_output=True,
    text=True,
  )
  if shallow.stdout.strip() != 'false':
    pytest.skip('needs a git clone with its whole history')
  history = subprocess.run(
    [*git, 'rev-list', 'HEAD'], capture_output=True, text=True, check=True
  )
  found = results.read_all(_ROOT / 'results' / 'cells')
  revisions = {result['revision'] for result in found}
  assert revisions - set(history.stdout.split()) == _LOST


def test_dry_run(tmp_path):
  _some_results(tmp_path / 'results' / 'cells')
  done = _paper(
    tmp_path, '--dry_run', '--only=*home_devices-f3ast-seed=*', '--jobs=2'
  )
  assert done.returncode == 0, done.stderr
  lines = done.stdout.splitlines()
  assert lines[0] == 'paper/synthetic/home_devices-f3ast-seed=0: finished'
  assert lines[1].startswith('  .venv/bin/python -m experiments.synthetic ')
  # Five seeds of Synthetic and of CIFAR-100, compact; three of Shakespeare.
  assert lines[-1].startswith('13 cells, 11 to run')
  assert not (tmp_path / 'runs').exists()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
