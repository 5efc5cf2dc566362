"""Tests of `experiments.sweep`: with a stub, and once at a tiny size."""

import os
import pathlib
import signal
import subprocess
import sys

import pandas as pd
import pytest

from experiments import sweep
from tests import programs
from tests import stub_training

_SWEEP = (
  '--task=synthetic', '--algorithm=fedavg,f3ast', '--beta=.25,.5', '--rounds=3'
)


@pytest.fixture
def call(tmp_path, capsys):
  """Runs the program in this process; by default runs pretend to train."""

  def call_(*arguments, folder=tmp_path, fail=(), start=None):
    start = start or stub_training.Stub(tmp_path, fail=fail)
    return stub_training.call(sweep, arguments, folder, capsys, start)

  return call_


def _only_folder(root):
  (folder,) = (root / 'runs').iterdir()
  return folder


def test_tables_by_hand(tmp_path, call):
  done = call(*_SWEEP, '--seeds=0..2', '--jobs=2')
  assert done.returncode == 0, done.stderr
  assert done.stderr.count('started  ') == done.stderr.count('finished ') == 12
  assert done.stderr.rstrip().endswith(', 0 left')
  folder = _only_folder(tmp_path)
  assert folder.name.startswith('sweep-synthetic-algorithm-beta-')
  text = (folder / 'table.md').read_text()
  assert text in done.stdout and str(folder) in done.stdout
  assert text.startswith(
    'synthetic, rounds=3: means over the last 1 of 3 rounds\n'
  )
  # The accuracy is beta + seed / 100, the loss is 1 minus that.
  assert '| fedavg, beta=0.5  | 0.510 ± 0.010 | 0.500 ± 0.000 | 0.490 ±' in text
  table = pd.read_csv(folder / 'table.csv')
  assert table['algorithm'].tolist() == ['fedavg', 'fedavg', 'f3ast', 'f3ast']
  assert table['beta'].tolist() == [0.25, 0.5] * 2
  assert table['runs'].tolist() == [3] * 4
  assert table['accuracy_mean'].tolist() == pytest.approx([0.26, 0.51] * 2)
  assert table['loss_std'].tolist() == pytest.approx([0.01] * 4)
  differences = pd.read_csv(folder / 'differences.csv')
  assert len(differences) == 3 * 3  # From the first combination, three metrics.
  first = differences[differences['metric'] == 'accuracy']
  assert first['beta'].tolist() == [0.5, 0.25, 0.5]
  assert first['mean'].tolist() == pytest.approx([0.25, 0, 0.25])
  assert first['seeds'].tolist() == [3] * 3
  runs = pd.read_csv(folder / 'runs.csv')
  assert runs['seed'].tolist() == [0, 1, 2] * 4
  assert runs['accuracy'].tolist() == pytest.approx(
    [0.25, 0.26, 0.27, 0.5, 0.51, 0.52] * 2
  )
  assert runs['finished'].tolist() == [1] * 12
  assert runs['command'][4] == (
    '.venv/bin/python -m experiments.synthetic --seed=1 --algorithm=fedavg '
    '--rounds=3 --beta=0.5 --parallel_clients=1'
  )
  for name in ('curves.png', 'curves.svg'):
    assert (folder / name).stat().st_size > 5000
  # More seeds are added to what is there; the same again runs nothing.
  done = call(*_SWEEP, '--seeds=0..3')
  assert done.stderr.count('started  ') == 4
  assert pd.read_csv(folder / 'table.csv')['runs'].tolist() == [4] * 4
  done = call(*_SWEEP, '--seeds=0..3')
  assert (done.returncode, done.stderr) == (0, '')
  assert 'All runs had finished before; nothing was run.' in done.stdout
  assert (folder / 'table.md').read_text() in done.stdout


def test_seeds_alone_are_a_sweep(tmp_path, call):
  done = call('--task=synthetic', '--rounds=2', '--beta=.5', '--seed=4,6')
  assert done.returncode == 0, done.stderr
  assert '| f3ast       | 0.550 ± 0.014 ' in done.stdout  # .54 and .56.
  assert 'Differences' not in done.stdout
  folder = _only_folder(tmp_path)
  assert sorted(p.name for p in (folder / 'runs').iterdir() if p.is_dir()) == [
    'seed=4', 'seed=6'
  ]
  lines = (folder / 'differences.csv').read_text().splitlines()
  assert lines == ['metric,seeds,mean,sd,p,p_adjusted']


def _tables(folder):
  """Returns the tables of a sweep."""
  return {path.name: path.read_text() for path in folder.glob('*.[cm][sd]*')}


def test_killed_and_called_again_it_continues(tmp_path, call):
  flags = [*_SWEEP, '--seeds=0..1', '--jobs=1']
  words = ['-m', 'tests.stub_training', 'experiments.sweep', *flags]
  killed = tmp_path / 'killed'
  killed.mkdir()
  process = subprocess.Popen(
    [sys.executable, *words],
    cwd=pathlib.Path(__file__).parents[2],
    env={**os.environ, 'BUILD_WORKING_DIRECTORY': str(killed)},
    stderr=subprocess.PIPE,
    text=True,
  )
  num_finished = 0
  for line in process.stderr:
    num_finished += line.startswith('finished')
    if num_finished == 3:
      process.send_signal(signal.SIGKILL)
      break
  process.communicate()
  assert process.returncode == -signal.SIGKILL
  assert not list(killed.rglob('table.*'))
  done = call(*flags, folder=killed)
  assert done.returncode == 0, done.stderr
  # Eight in all; a run may have finished after the last line that was read.
  assert done.stderr.count('started  ') in (4, 5)
  alone = tmp_path / 'alone'
  alone.mkdir()
  assert call(*flags, folder=alone).returncode == 0
  found, expected = (
    _tables(_only_folder(root)) for root in (killed, alone)
  )
  assert found == expected
  assert set(found) == {'table.md', 'table.csv', 'differences.csv', 'runs.csv'}


def test_runs_that_fail_are_missing_in_the_table(tmp_path, call):
  flags = [*_SWEEP, '--seeds=3', '--output_dir=here']
  done = call(*flags, fail=['fedavg'])
  assert done.returncode == 1
  assert '2 of 4 runs failed; the same command tries again' in done.stderr
  text = (tmp_path / 'here' / 'table.md').read_text()
  assert '2 of the runs have not finished: algorithm=fedavg-beta=0.25-' in text
  assert '| f3ast, beta=0.5  | 0.530 ' in text and '| fedavg' not in text
  table = pd.read_csv(tmp_path / 'here' / 'table.csv')
  assert table['runs'].tolist() == [0, 0, 1, 1]
  done = call(*flags)
  assert done.returncode == 0
  assert done.stderr.count('started  ') == 2
  # Another sweep does not overwrite it.
  error = call(*flags, '--avail=always')
  assert (error.returncode, error.stdout) == (2, '')
  assert error.stderr.count('\n') == 1
  assert 'holds another run (avail is \'home_devices\' there' in error.stderr
  done = call(*flags, fail=['fedavg'])
  assert done.returncode == 0  # And it is still there.


def test_a_sweep_becomes_longer(tmp_path, call):
  flags = ['--task=synthetic', '--beta=.25,.5', '--output_dir=here']
  assert call(*flags, '--rounds=3').returncode == 0
  done = call(*flags, '--rounds=6')
  assert done.returncode == 0, done.stderr
  assert done.stderr.count('started  ') == 2
  text = (tmp_path / 'here' / 'table.md').read_text()
  assert text.startswith('synthetic, rounds=6: means over the last 2 of 6')
  done = call(*flags, '--rounds=3')
  assert (done.returncode, done.stdout) == (2, '')
  assert 'rounds is 6 there and 3 here' in done.stderr


def test_dry_run(tmp_path):
  printed = programs.succeed(
    tmp_path,
    'experiments.sweep',
    '--task=cifar100',
    '--model=paper,compact',
    '--clients_per_round=10',
    '--clients_per_round', 'uniform:5,15',
    '--data_dir=images',
    '--dry_run',
  )
  lines = printed.splitlines()
  assert lines[0] == (
    'model=paper-clients_per_round=10-seed=0: to run, 0 of 1000 rounds done'
  )
  assert lines[7] == (
    '  .venv/bin/python -m experiments.cifar100 --seed=0 --model=compact '
    '--clients_per_round=uniform:5,15 --parallel_clients=1'
  )
  assert lines[1].endswith('--parallel_clients=2')  # Large models.
  assert lines[8].startswith('4 of 4 to run, in ')
  assert not list(tmp_path.iterdir())


def test_the_same_values_have_the_same_folder(call):
  folders = {
    call('--dry_run', *flags).stdout.split()[-1]
    for flags in (
      ('--task=synthetic', '--beta=.1,1', '--rounds=9'),
      ('--rounds=9', '--beta=0.1', '--beta=1.0', '--task=synthetic'),
      ('--task=synthetic', '--beta=.1,1', '--rounds=9', '--seeds=0..7'),
      (
        '--task=synthetic',
        '--beta=.1,1',
        '--rounds=9',
        '--on_divergence=continue',
      ),
    )
  }
  assert len(folders) == 1


@pytest.mark.parametrize(
  'arguments, message',
  [
    ((), 'name an experiment with --task: synthetic,'),
    (('--task=moon',), '--task=moon'),
    (('--task=synthetic', '--bta=1,2'), "Unknown command line flag 'bta'"),
    (('--task=synthetic', '--resume'), "Unknown command line flag 'resume'"),
    (('--task=synthetic', '--beta=.1,x'), 'flag --beta=x'),
    (('--task=synthetic', '--beta=.1,2'), 'beta must be in (0, 1]'),
    (('--task=synthetic', '--avail=always,never'), "it is 'never'"),
    (('--task=synthetic', '--tracker=diary'), 'tracker must be mlflow or'),
    (('--task=synthetic', '--on_divergence=stop,continue'), 'for all runs'),
    (('--task=synthetic', '--beta=.1,.1'), '--beta has 0.1 twice'),
    (('--task=synthetic', '--seeds=0..10000'), 'a sweep has 10,000 at most'),
    (('--task=synthetic', '--seeds=0', '--seed=1'), 'give one of them'),
    (('--task=synthetic', '--seeds=a'), 'flag --seed=a'),
    (('--task=synthetic', '--parallel_clients=0'), '--parallel_clients=0'),
    (('--task=synthetic', '--clients_per_round=5,all'), "'all'"),
    (('--task=synthetic', '--cluster=moon'), 'local:N'),
    (('--task=synthetic', 'f3ast'), "unexpected argument 'f3ast'"),
  ],
)
def test_usage_errors_are_one_sentence(tmp_path, call, arguments, message):
  done = call(*arguments)
  assert (done.returncode, done.stdout) == (2, '')
  assert done.stderr.startswith('error: ') and done.stderr.count('\n') == 1
  assert message in done.stderr
  assert not list(tmp_path.iterdir())


def test_one_place_for_data(tmp_path):
  assert '--data_dir is the same for all runs' in programs.one_error(
    tmp_path,
    'experiments.sweep',
    '--task=cifar100',
    '--data_dir=a,b',
    '--data_dir=c',
  )


def test_help_teaches(call):
  printed = call('--help').stdout
  assert '--beta=.001,.01 --seeds=0..4' in printed
  assert '--clients_per_round=5,10 --clients_per_round=uniform:5,15' in printed
  assert '--num_clients' not in printed
  printed = call('--task=synthetic', '--help').stdout
  heads = [line for line in printed.splitlines() if line.startswith('  --')]
  names = [head.split(':')[0].strip(' -') for head in heads]
  assert len(names) == len(set(names))
  assert {'num_clients', 'beta', 'on_divergence', 'output_dir'} <= set(names)
  assert '[no]resume' not in names
  assert all(len(line) <= 80 for line in printed.splitlines())


@pytest.mark.slow
def test_real_runs_have_the_settings_that_were_checked(tmp_path, call):
  flags = [
    '--task=synthetic',
    '--clients_per_round=2',
    '--clients_per_round=uniform:1,3',
    '--num_clients=9',
    '--rounds=1',
    '--output_dir=real',
  ]
  done = call(*flags, start=stub_training.train)
  assert done.returncode == 0, done.stderr
  assert '| clients_per_round=uniform:1,3 | ' in done.stdout
  # Otherwise it would be another run.
  assert 'nothing was run' in call(*flags).stdout


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
