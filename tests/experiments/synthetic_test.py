"""Tests of `experiments.synthetic` through its real command line."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import psutil
import pytest

from experiments import cli
from f3ast_tff.datasets import federated
from f3ast_tff.datasets import synthetic as data
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import run_directory
from tests import command_lines
from tests import programs

_TINY = ('--num_clients=20', '--rounds=40', '--eval_every=6')
_EXACT_FILES = ('metrics.csv', 'rounds.csv', 'clients.csv', 'model.npz')


def _start(*flags, **kwargs):
  """Starts it as a shell does."""
  return subprocess.Popen(
    [sys.executable, '-m', 'experiments.synthetic', *flags],
    text=True,
    **{'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, **kwargs},
  )


def _run(*flags):
  """Runs it in a fork of a process that has loaded TensorFlow."""
  return programs.run('.', 'experiments.synthetic', *flags)


def _one_error(*flags):
  """Runs what must end with one sentence; returns the sentence."""
  code, output, errors = _run(*flags)
  assert code == 2 and output in ('', programs.LOADING), errors
  assert errors.count('\n') == 1, errors
  return errors


def _contents(folder):
  return {name: (folder / name).read_bytes() for name in _EXACT_FILES}


@pytest.fixture(scope='module')
def reference(tmp_path_factory):
  """A run that was never interrupted, and what it printed."""
  folder = tmp_path_factory.mktemp('reference') / 'run'
  process = _start(*_TINY, f'--output_dir={folder}')
  output, errors = process.communicate(timeout=300)
  assert process.returncode == 0, errors
  return folder, output, errors


def test_a_run_leaves_its_files_and_a_summary(reference):
  folder, output, errors = reference
  assert errors == ''  # TensorFlow's noise is off, and no progress bar.
  lines = re.findall(
    r'^round (\d+) of 40: accuracy 0\.\d{3}(, about \d+ s left)?$',
    output,
    re.MULTILINE,
  )
  assert [int(t) for t, _ in lines] == [6, 12, 18, 24, 30, 36, 40]
  assert [bool(left) for _, left in lines] == [True] * 6 + [False]
  assert re.search(r'test accuracy +0\.\d+', output)
  metrics = pd.read_csv(folder / 'metrics.csv')
  assert metrics['round'].tolist() == [6, 12, 18, 24, 30, 36, 40]
  for column in ('accuracy', 'user_accuracy'):
    assert metrics[column].between(0, 1).all()
  assert metrics['accuracy'].iloc[-1] > metrics['accuracy'].iloc[0]
  rounds = pd.read_csv(folder / 'rounds.csv')
  assert rounds['round'].tolist() == list(range(1, 41))
  clients = pd.read_csv(folder / 'clients.csv')
  assert clients['times_selected'].sum() == rounds['selected'].sum()
  assert (clients['times_selected'] <= clients['times_available']).all()
  config = json.loads((folder / 'config.json').read_text())
  assert config['settings']['rounds'] == 40
  assert config['settings']['alpha'] == 1.0
  assert config['settings']['client_learning_rate'] == 0.01
  assert config['versions']['tensorflow-federated'] == '0.87.0'
  data = f'{len(clients)} clients, sha256 [0-9a-f]{{16}}; unknown'
  assert re.fullmatch(data, config['data'])
  assert list((folder / 'tensorboard').glob('events*'))
  assert (folder / 'summary.png').stat().st_size > 10000


def test_rates_and_weights_replay_from_the_files(reference):
  """Recomputes r and the weights from who was selected, in plain NumPy."""
  folder, _, _ = reference
  clients = pd.read_csv(folder / 'clients.csv')
  p = clients['p'].to_numpy()
  r = np.minimum(1, 10 * p)
  for _, row in pd.read_csv(folder / 'rounds.csv').iterrows():
    selected = np.isin(np.arange(20), [int(k) for k in row['clients'].split()])
    r = 0.999 * r + 0.001 * selected
    expected = (p / r)[selected].sum()
    assert row['sum_of_weights'] == pytest.approx(expected, rel=1e-6)
    assert row['variance_bound'] == pytest.approx((p**2 / r).sum(), rel=1e-12)
  np.testing.assert_allclose(clients['rate'], r, rtol=1e-12)


def test_same_seed_same_files_other_seed_other_files(reference, tmp_path):
  folder, _, _ = reference
  assert _run(*_TINY, f'--output_dir={tmp_path / "same"}')[0] == 0
  assert _contents(tmp_path / 'same') == _contents(folder)
  other = tmp_path / 'other'
  assert _run(*_TINY, '--seed=1', f'--output_dir={other}')[0] == 0
  for name in _EXACT_FILES:
    assert (other / name).read_bytes() != (folder / name).read_bytes()


def test_another_run_is_never_overwritten(reference):
  folder, _, _ = reference
  before = _contents(folder)
  for flags, message in (
    ((), 'already holds this run; give --resume'),
    (('--beta=0.5',), 'beta is 0.001 there and 0.5 here'),
    (('--beta=0.5', '--resume'), 'beta is 0.001 there and 0.5 here'),
    (('--alpha=0', '--resume'), 'alpha is 1.0 there and 0.0 here'),
    (('--rounds=39', '--resume'), 'holds 40 rounds of this run already, but'),
  ):
    assert message in _one_error(*_TINY, *flags, f'--output_dir={folder}')
  assert _contents(folder) == before


def test_a_server_rate_file_belongs_to_the_run(reference, tmp_path):
  rates = tmp_path / 'rates.csv'
  shutil.copy(reference[0] / 'rounds.csv', rates)
  folder = tmp_path / 'run'
  flags = (
    *_TINY,
    '--checkpoint_every=30',
    '--algorithm=fedavg',
    f'--server_rate_file={rates}',
    f'--output_dir={folder}',
  )
  code, _, errors = _run(*flags)
  assert code == 0, errors
  before = _contents(folder)
  # The weights of FedAvg sum to 1; here, to what the other run's sum to.
  sums = [
    pd.read_csv(path / 'rounds.csv')['sum_of_weights']
    for path in (folder, reference[0])
  ]
  np.testing.assert_allclose(*sums, rtol=1e-6)
  settings = json.loads((folder / 'config.json').read_text())['settings']
  assert settings['server_rate_file'] == str(rates)
  digest = hashlib.sha256(rates.read_bytes()).hexdigest()
  assert settings['server_rate_sha256'] == digest
  # It continues from a checkpoint to the same files, and with no other content.
  newest = folder / 'checkpoints' / 'round_40.npz'
  newest.write_bytes(b'damaged')
  code, output, errors = _run(*flags, '--resume')
  assert code == 0 and 'Continuing after round 30.\n' in output
  assert errors.startswith(f'warning: {newest} is damaged (')
  assert errors.endswith('). The checkpoint before it is taken.\n')
  assert errors.count('\n') == 1
  assert _contents(folder) == before
  table = pd.read_csv(rates)
  table.loc[9, 'sum_of_weights'] += 0.5
  table.to_csv(rates, index=False)
  assert f"server_rate_sha256 is '{digest}' there and" in _one_error(
    *flags, '--resume'
  )
  assert _contents(folder) == before
  # Nor with one that does not have all rounds.
  table[:39].to_csv(rates, index=False)
  assert 'has no round 40 of 40' in _one_error(*flags, '--resume')


def test_a_trace_belongs_to_the_run(tmp_path):
  trace = tmp_path / 'trace.csv'
  trace.write_text('client,start,end\nx,0,9\n')
  config = config_lib.Config(avail=f'trace:{trace}')
  settings = cli._settings('task', config, {})
  digest = hashlib.sha256(trace.read_bytes()).hexdigest()
  assert settings['trace_sha256'] == digest
  # Another content is another run, under the same name.
  with run_directory.claim(tmp_path / 'run', settings, False):
    (tmp_path / 'run' / 'rounds.csv').touch()
  trace.write_text('client,start,end\nx,0,8\n')
  other = cli._settings('task', config, {})
  with pytest.raises(run_directory.RunDirectoryError, match='trace_sha256 is'):
    with run_directory.claim(tmp_path / 'run', other, True):
      pass
  assert 'trace_sha256' not in cli._settings('task', config_lib.Config(), {})


def test_a_damaged_config_and_another_version_are_refused(reference, tmp_path):
  folder = tmp_path / 'run'
  shutil.copytree(reference[0], folder)
  before = _contents(folder)
  path = folder / 'config.json'
  text = path.read_text()
  for damaged, message in (
    (text[:-9], 'is not the config.json of a run'),
    (
      re.sub('"f3ast-tff": "[^"]*"', '"f3ast-tff": "0.0.1"', text),
      "f3ast-tff is '0.0.1' there and",
    ),
  ):
    path.write_text(damaged)
    assert message in _one_error(
      *_TINY, '--resume', f'--output_dir={folder}'
    )
    assert path.read_text() == damaged
  assert _contents(folder) == before


def test_a_flag_file_that_is_no_text_is_one_sentence(tmp_path):
  (tmp_path / 'x.flags').write_bytes(b'--seed=1\n\x80\xff')
  assert 'is not a text file' in _one_error(
    f'--flagfile={tmp_path / "x.flags"}'
  )


@pytest.mark.parametrize('make', ['file', 'foreign'])
def test_a_folder_that_is_not_ours_is_left_alone(make, tmp_path):
  path = tmp_path / 'precious'
  if make == 'file':
    path.write_text('mine')
  else:
    path.mkdir()
    (path / 'thesis.tex').write_text('mine')
  _one_error(f'--output_dir={path}')
  kept = path if make == 'file' else path / 'thesis.tex'
  assert kept.read_text() == 'mine'


def test_help_names_the_flags_quickly():
  environment = dict(os.environ, PYTHONPROFILEIMPORTTIME='1')
  process = _start('--help', env=environment)
  output, errors = process.communicate(timeout=60)
  for flag in ('--avail', '--alpha', '--output_dir', '--[no]resume'):
    assert flag in output
  assert 'tensorflow' not in errors  # Not imported, so the answer is quick.


def test_an_environment_without_tff_is_one_sentence(tmp_path):
  broken = tmp_path / 'path' / 'tensorflow_federated'
  broken.mkdir(parents=True)
  (broken / '__init__.py').write_text('raise ImportError("no such luck")')
  environment = dict(os.environ, PYTHONPATH=str(broken.parent))
  process = _start(f'--output_dir={tmp_path / "run"}', env=environment)
  output, errors = process.communicate(timeout=120)
  assert (process.returncode, output) == (2, programs.LOADING)
  assert 'cannot be imported (no such luck); run "make setup"' in errors
  assert errors.count('\n') == 1


def test_a_run_is_one_process_and_ends_when_it_is_told_to(tmp_path):
  folder, log = tmp_path / 'run', tmp_path / 'log'
  scratch = tmp_path / 'scratch'
  scratch.mkdir()
  with open(log, 'w') as file:
    process = _start(
      '--num_clients=20',
      '--rounds=1000000',
      '--checkpoint_every=1',
      f'--output_dir={folder}',
      '--verbosity=1',
      stderr=file,
      env={**os.environ, 'TMPDIR': str(scratch)},
    )
  deadline = time.monotonic() + 120
  while not (folder / 'metrics.csv').exists():
    assert process.poll() is None and time.monotonic() < deadline
    time.sleep(0.05)
  running = psutil.Process(process.pid)
  assert running.children(recursive=True) == []
  assert running.net_connections(kind='inet') == []
  assert (folder / 'temporary').is_dir()
  process.send_signal(signal.SIGTERM)
  process.communicate(timeout=30)
  assert process.returncode == 128 + signal.SIGTERM
  errors = log.read_text()
  # TensorFlow's log; compare test_a_run_leaves_its_files.
  assert 'tensorflow' in errors
  assert f'error: interrupted; --resume continues {folder}.' in errors
  assert not (folder / 'temporary').exists() and not list(scratch.iterdir())
  # What it leaves is whole, and can be continued.
  flags = '--num_clients=20', '--rounds=1000000', '--checkpoint_every=1'
  code, _, errors = _run(*flags, f'--output_dir={folder}')
  assert code == 2 and 'already holds this run; give --resume' in errors


def test_empty_rounds_are_recorded(tmp_path):
  folder = tmp_path / 'run'
  code, _, errors = _run(
    *_TINY, '--clients_per_round=schedule:3,0', f'--output_dir={folder}'
  )
  assert code == 0, errors
  rounds = pd.read_csv(folder / 'rounds.csv')
  assert rounds['empty'].tolist() == [0, 1] * 20
  assert rounds['k'].tolist() == rounds['selected'].tolist() == [3, 0] * 20
  assert (pathlib.Path(folder) / 'summary.png').exists()


@pytest.mark.parametrize(
  'flag, code, words',
  [
    (
      '--avail=arrivals:1000000,0', 2,
      'No client is available up to round 2, the last one (--rounds), when '
      'clients_per_round is above 0, so nobody would ever train; give more',
    ),
    (
      '--client_learning_rate=1e30', 1,
      'above 1e+10); lower --client_learning_rate (it is 1e+30) or',
    ),
  ],
  ids=['nobody', 'diverges'],
)
def test_a_run_of_no_use_ends_with_one_sentence(flag, code, words, tmp_path):
  ended, _, errors = _run(
    '--num_clients=20', '--rounds=2', flag, f'--output_dir={tmp_path / "run"}'
  )
  assert ended == code and errors.startswith('error: '), errors
  assert errors.count('\n') == 1 and words in errors, errors
  assert not (tmp_path / 'run' / 'temporary').exists()


def test_alpha_is_both_parameters(tmp_path):
  program = tmp_path / 'program.py'
  program.write_text(
    'from absl import flags\n'
    'from experiments import cli, synthetic\n'
    'from f3ast_tff.datasets import federated\n'
    'cli.parse_flags(["program", "--alpha=0", "--num_clients=3"])\n'
    'task = synthetic._build_task(cli.config_from_flags())\n'
    'print(federated.fingerprint(task.dataset))\n'
  )
  done = command_lines.run(str(program), tensorflow=True)
  assert done.returncode == 0, done.stderr
  prints = [
    federated.fingerprint(data.load(0.0, beta, num_clients=3))
    for beta in (0.0, 1.0)
  ]
  assert done.stdout.strip() == prints[0] != prints[1]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
