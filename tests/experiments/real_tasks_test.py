"""Tests of `experiments.cifar100` and `shakespeare` on their command lines."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

# A proxy that nobody answers at: no network, on any machine.
_OFFLINE = dict.fromkeys(
  ('http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY'),
  'http://127.0.0.1:9',
)


def _run(experiment, *flags):
  return subprocess.run(
    [sys.executable, '-m', f'experiments.{experiment}', *flags],
    capture_output=True,
    text=True,
    timeout=300,
    env={**os.environ, **_OFFLINE},
  )


@pytest.mark.parametrize('experiment', ['cifar100', 'shakespeare'])
def test_the_sample_runs_and_is_loudly_named(experiment, tmp_path):
  folder = tmp_path / 'run'
  done = _run(
    experiment,
    '--data_source=sample',
    '--model=compact',
    '--avail=scarce',
    '--rounds=3',
    '--eval_every=2',
    '--eval_examples=50',
    f'--output_dir={folder}',
  )
  assert done.returncode == 0, done.stderr
  assert 'SAMPLE' in done.stdout
  settings = json.loads((folder / 'config.json').read_text())['settings']
  assert settings['data_source'] == 'sample'
  metrics = pd.read_csv(folder / 'metrics.csv')
  assert metrics['round'].tolist() == [2, 3]
  # The last test is on all examples, the one before on a subset.
  assert metrics['test_examples'].iloc[0] == min(
    50, metrics['test_examples'].iloc[1]
  )
  assert metrics['loss'].gt(0).all()


@pytest.mark.parametrize('experiment', ['cifar100', 'shakespeare'])
@pytest.mark.parametrize('state', ['missing', 'truncated'])
def test_data_that_is_not_there_is_one_sentence(experiment, state, tmp_path):
  data, path = tmp_path / 'data', tmp_path / 'data' / f'{experiment}.sqlite'
  data.mkdir()
  if state == 'truncated':
    path.write_bytes(b'SQLite format 3\0' + bytes(5000))
  done = _run(
    experiment, f'--data_dir={data}', f'--output_dir={tmp_path / "run"}'
  )
  assert (done.returncode, done.stdout) == (2, '')
  assert done.stderr.startswith('error: ') and done.stderr.count('\n') == 1
  assert str(path if state == 'truncated' else data) in done.stderr
  if state == 'missing':
    assert '--data_source=sample' in done.stderr
    assert not path.exists()
  else:
    assert 'delete' in done.stderr


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
