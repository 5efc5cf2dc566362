"""Tests of `experiments.reproduce` at a tiny size."""

import os
import pathlib
import subprocess
import sys

import pytest

_ROOT = pathlib.Path(__file__).parents[2]


def _reproduce(folder, *flags):
  return subprocess.run(
    [
      sys.executable,
      '-m',
      'experiments.reproduce',
      '--rounds=2',
      '--seeds=1',
      *flags,
    ],
    cwd=_ROOT,
    env={**os.environ, 'BUILD_WORKING_DIRECTORY': str(folder)},
    capture_output=True,
    text=True,
    timeout=300,
  )


def test_table_picture_and_a_second_call_from_scratch(tmp_path):
  for _ in range(2):
    done = _reproduce(tmp_path)
    assert done.returncode == 0, done.stderr
    assert '| F3AST+Adam' in done.stdout
    assert 'F3AST - FedAvg, test accuracy by seed' in done.stdout
    assert done.stderr.count('started') == 4  # It trained all four.
  output = tmp_path / 'runs' / 'reproduce-2rounds-1seeds'
  for name in ('table.md', 'curves.png', 'curves.svg'):
    assert (output / name).stat().st_size > 0
  previous = output.with_name(output.name + '-previous')
  assert (previous / 'table.md').read_text() == (
    output / 'table.md'
  ).read_text()


def test_a_failed_run_is_named(tmp_path):
  output = tmp_path / 'runs' / 'reproduce-2rounds-1seeds'
  (output / 'fedavg-seed0').mkdir(parents=True)
  (output / 'fedavg-seed0' / 'thesis.tex').write_text('mine')
  done = _reproduce(tmp_path)
  assert done.returncode == 1
  assert 'error: fedavg-seed0: exit code 2' in done.stderr
  assert (output / 'f3ast-seed0' / 'metrics.csv').exists()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
