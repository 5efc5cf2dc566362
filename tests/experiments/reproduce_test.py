"""Tests of `experiments.reproduce`: with a stub, and once at a tiny size."""

import shutil
import sys

import pytest

from tests import programs

_COMMAND = (
  'tests.stub_training', 'experiments.reproduce', '--rounds=2', '--seeds=1'
)


def _reproduce(folder, **environment):
  """Runs it; see `stub_training` for the environment."""
  return programs.run(folder, *_COMMAND, **environment)


@pytest.mark.slow
def test_five_runs_give_a_table_a_picture_and_a_report(tmp_path):
  done = _reproduce(tmp_path, TRAIN='yes')
  assert done.returncode == 0, done.stderr
  assert '| F3AST+Adam' in done.stdout
  assert '| PoC' in done.stdout
  assert 'F3AST - FedAvg, test accuracy by seed' in done.stdout
  assert done.stderr.count('started') == 5  # It trained all five.
  output = tmp_path / 'runs' / 'reproduce-2rounds-1seeds'
  for name in ('table.md', 'curves.png', 'curves.svg', 'report/report.html'):
    assert (output / name).stat().st_size > 0


@pytest.mark.slow
def test_interrupted_continues_and_finished_starts_from_scratch(tmp_path):
  output = tmp_path / 'runs' / 'reproduce-2rounds-1seeds'
  done = _reproduce(tmp_path, FAIL='fedavg')
  assert done.returncode == 1
  assert (
    'error: paper/synthetic/home_devices-fedavg-seed=0: exit code 3' in
    done.stderr
  )
  assert done.stderr.count('started') == 5  # One did not stop the others.
  assert not (output / 'table.md').exists()
  done = _reproduce(tmp_path)
  assert done.returncode == 0, done.stderr
  assert done.stderr.count('started') == 1  # The others were done.
  assert (output / 'table.md').exists()
  done = _reproduce(tmp_path)
  assert done.stderr.count('started') == 5
  previous = output.with_name(output.name + '-previous')
  assert (previous / 'table.md').read_text() == (
    output / 'table.md'
  ).read_text()
  # Runs that somebody has removed are missed in one sentence.
  (output / 'table.md').unlink()
  shutil.rmtree(output / 'runs')
  done = _reproduce(tmp_path)
  assert done.returncode == 2
  assert done.stderr.startswith('error: ') and done.stderr.count('\n') == 1
  assert 'config.json' in done.stderr


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
