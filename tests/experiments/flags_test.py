"""Tests that every flagfile is read by its experiment and says what it should.

The numbers here are Reddi et al.'s, typed a second time as powers of ten.
"""

import json
import pathlib
import subprocess
import sys

import pytest

_FOLDER = pathlib.Path(__file__).parents[2] / 'experiments' / 'flags'

# (client, server, epsilon), log10.
_RATES = {
  ('cifar100', 'sgd'): (-1, 0.5, None),
  ('cifar100', 'adam'): (-1.5, 0, -1),
  ('shakespeare', 'sgd'): (0, 0, None),
  ('shakespeare', 'adam'): (0, -2, -3),
  ('synthetic', 'sgd'): (-2, 0, None),
}
_ROUNDS = {'cifar100': 1000, 'shakespeare': 500, 'synthetic': 500}
_BATCH = {'cifar100': 20, 'shakespeare': 4, 'synthetic': 20}
_ALGORITHMS = (
  'fedavg', 'f3ast', 'power_of_choice', 'fedadam', 'f3ast_adam'
)
_AVAILS = ('always', 'scarce', 'home_devices', 'smartphones', 'uneven')

# Reads each file by the experiment's own flags; prints the settings by file.
_READER = """
import dataclasses, json, sys
from absl import flags
from experiments import cli, {experiment}

settings = {{}}
for path in sys.argv[1:]:
  flags.FLAGS.unparse_flags()
  for name in flags.FLAGS:
    flags.FLAGS[name].unparse()
  cli.parse_flags(['program', '--flagfile=' + path])
  config = dataclasses.asdict(cli.config_from_flags())
  settings[path] = {{**config, **{experiment}._task_settings()}}
print(json.dumps(settings))
"""


def _read(experiment):
  files = sorted(map(str, _FOLDER.glob(f'{experiment}-*.flags')))
  done = subprocess.run(
    [sys.executable, '-c', _READER.format(experiment=experiment), *files],
    capture_output=True,
    text=True,
    timeout=120,
  )
  assert done.returncode == 0, done.stderr
  return {
    pathlib.Path(path).stem: settings
    for path, settings in json.loads(done.stdout).items()
  }


@pytest.mark.parametrize('experiment', ['cifar100', 'shakespeare', 'synthetic'])
def test_every_file_says_what_its_name_and_its_source_say(experiment):
  cells = _read(experiment)
  if experiment == 'synthetic':
    assert set(cells) == {
      f'synthetic-{algorithm}-alpha{alpha}'
      for algorithm in ('fedavg', 'f3ast')
      for alpha in ('0', '0.5', '1')
    }
  else:
    assert set(cells) == {
      f'{experiment}-{algorithm}-{avail}'
      for algorithm in _ALGORITHMS
      for avail in _AVAILS
    }
  for name, settings in cells.items():
    _, algorithm, last = name.split('-')
    assert settings['algorithm'] == algorithm
    if experiment == 'synthetic':
      assert settings['avail'] == 'smartphones'
      assert settings['alpha'] == float(last.removeprefix('alpha'))
    else:
      assert settings['avail'] == last
      assert settings['model'] == 'paper'
      assert settings['data_source'] == 'tff'
      assert settings['eval_examples'] == 0  # All of them, as in the report.
    optimizer = 'adam' if algorithm.endswith('adam') else 'sgd'
    powers = _RATES[experiment, optimizer]
    for field, power in zip(
      ('client_learning_rate', 'server_learning_rate', 'server_epsilon'), powers
    ):
      if power is not None:
        assert settings[field] == pytest.approx(10.0**power, rel=1e-12)
    assert settings['rounds'] == _ROUNDS[experiment]
    assert settings['batch_size'] == _BATCH[experiment]
    assert (settings['clients_per_round'], settings['beta']) == ('10', 0.001)
    assert settings['protocol'] == 'paper' and settings['num_candidates'] == 30


def test_every_file_names_its_source_and_its_command():
  for path in _FOLDER.iterdir():
    text = path.read_text()
    assert 'of the paper' in text and 'et al.' in text
    assert f'--flagfile=experiments/flags/{path.name}' in text


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
