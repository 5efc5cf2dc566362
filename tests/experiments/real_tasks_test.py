"""Tests of `experiments.cifar100` and `shakespeare` on their command lines."""

import json
import sys

import pandas as pd
import pytest

from tests import programs

# A proxy that nobody answers at: no network, on any machine.
_OFFLINE = dict.fromkeys(
  ('http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY'),
  'http://127.0.0.1:9',
)


@pytest.mark.parametrize('experiment', ['cifar100', 'shakespeare'])
def test_the_sample_runs_and_is_loudly_named(experiment, tmp_path):
  folder = tmp_path / 'run'
  printed = programs.succeed(
    tmp_path,
    f'experiments.{experiment}',
    '--data_source=sample',
    '--model=compact',
    '--avail=scarce',
    '--rounds=3',
    '--eval_every=2',
    '--eval_examples=50',
    '--output_dir=run',
    **_OFFLINE,
  )
  assert 'SAMPLE' in printed
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
def test_data_that_are_not_there_are_named(experiment, state, tmp_path):
  data, path = tmp_path / 'data', tmp_path / 'data' / f'{experiment}.sqlite'
  data.mkdir()
  if state == 'truncated':
    path.write_bytes(b'SQLite format 3\0' + bytes(5000))
  program = f'experiments.{experiment}'
  command = program, f'--data_dir={data}', '--output_dir=run'
  if state == 'missing':
    done = programs.run(tmp_path, *command, **_OFFLINE)
    assert done.returncode == 2
    error, *ways = done.stderr.splitlines()
    assert error.startswith(f'error: {path} is not there')
    assert 3 < len(ways) < 8 and '--data_source=sample' in ways[-1]
    assert all(way.startswith('  - ') and len(way) < 200 for way in ways)
    assert not path.exists()
  else:
    error = programs.one_error(tmp_path, *command, **_OFFLINE)
    assert str(path) in error and 'delete' in error


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
