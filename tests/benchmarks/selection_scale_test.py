"""Tests of `benchmarks.selection_scale` on few clients."""

import os
import subprocess
import sys

import pandas as pd
import pytest


def _run(folder, *arguments):
  return subprocess.run(
    [sys.executable, '-m', 'benchmarks.selection_scale', *arguments],
    env={**os.environ, 'BUILD_WORKING_DIRECTORY': str(folder)},
    capture_output=True,
    text=True,
    timeout=120,
  )


def test_curves_of_few_clients(tmp_path):
  done = _run(
    tmp_path, '--least=2', '--most=4', '--repeats=3', '--output_dir=scale'
  )
  assert done.returncode == 0, done.stderr
  assert (tmp_path / 'scale' / 'selection_scale.png').stat().st_size > 0
  table = pd.read_csv(tmp_path / 'scale' / 'selection_scale.csv')
  cases = table[['num_clients', 'cohort']].drop_duplicates()
  assert cases.to_numpy().tolist() == [
    [100, 10], [1000, 10], [10000, 10], [10000, 1000]
  ]
  assert (table.groupby(['num_clients', 'cohort']).size() == 2 * 5).all()
  assert (table['quartile_1_ms'] <= table['median_ms']).all()
  assert (table['median_ms'] <= table['quartile_3_ms']).all()
  # What a step holds is the same at all sizes but for small things.
  large = table[(table['num_clients'] == 10**4) & (table['part'] == 'step')]
  assert large['peak_vectors'].between(1, 10).all()


def test_bad_input_is_one_sentence(tmp_path):
  for arguments, message in (
    (('--most=1',), 'no size'),
    (('--repeats=0',), 'repeats'),
  ):
    done = _run(tmp_path, *arguments)
    assert done.returncode == 2 and message in done.stderr
    assert done.stderr.count('\n') == 1, done.stderr


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
