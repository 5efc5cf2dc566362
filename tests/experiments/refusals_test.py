"""Tests of what the programs refuse, by their command lines."""

import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

from tests import command_lines

_ROOT = pathlib.Path(__file__).parents[2]

# Flags of `experiments.synthetic`, and words of the sentence that they end in.
_FLAGS = [
  ('--num_clients=0', '--num_clients=0'),
  ('--num_clients=1000000000000', 'an integer in the range [1, 100000]'),
  ('--beta=0', 'beta must be in (0, 1]'),
  ('--beta=1.5', 'beta must be in (0, 1]'),
  ('--beta=nan', 'beta must be a finite number'),
  ('--clients_per_round=-1', 'must be a whole number from 0'),
  ('--clients_per_round=1000000000000', 'whole number from 0 to 2147483647'),
  ('--clients_per_round=0', 'nobody would ever train'),
  (
    '--clients_per_round=schedule:0,0,10 --rounds=2',
    'clients_per_round is 0 up to round 2, the last one (--rounds)',
  ),
  ('--clients_per_round=ten', 'must read like 10'),
  ('--avail=sometimes', 'one of always, scarce, home_devices, smartphones'),
  ('--algorithm=sgd', 'fedavg|f3ast|power_of_choice|fedadam|f3ast_adam'),
  ('--client_learning_rate=nan', 'client_learning_rate must be a finite'),
  ('--server_learning_rate=-1', 'server_learning_rate must be above 0'),
  ('--rounds=0', 'rounds must be at least 1'),
  (
    '--rounds=10000000000000000000',
    'rounds must be at most 1000000000, but it is 10000000000000000000.',
  ),
  ('--batch_size=1000001', 'batch_size must be at most 1000000'),
  ('--local_epochs=1001', 'local_epochs must be at most 1000'),
  ('--local_steps=100001', 'local_steps must be at most 100000'),
  ('--local_steps=-1', 'local_steps must be at least 0'),
  ('--num_candidates=2147483648', 'num_candidates must be at most 2147483647'),
  ('--parallel_clients=10001', 'parallel_clients must be at most 10000'),
  ('--eval_every=1000000001', 'eval_every must be at most 1000000000'),
  ('--eval_examples=1000000001', 'eval_examples must be at most 1000000000'),
  ('--checkpoint_every=1000000001', 'checkpoint_every must be at most'),
  ('--seed=4294967296', 'seed must be at most 4294967295'),
  ('--seed=-1', 'seed must be at least 0'),
  ('--server_rate_file=absent.csv', "but 'absent.csv' is not a file"),
  ('--avail=trace:absent.json', 'The trace absent.json is not a file'),
  ('--avail=trace', 'must read like trace:FILE'),
  ('--trace_state=wifi+', 'trace_state must read like ready'),
  ('--round_seconds=0', 'round_seconds must be at least 1'),
  ('--round_seconds=1000000001', 'round_seconds must be at most 1000000000'),
  ('--trace_start=1000000001', 'trace_start must be at most 1000000000'),
  ('--trace_start=-1', 'trace_start must be at least 0'),
  ('--rate_init=equal', 'kp|p|uniform|tie'),
  # Texts without a default stay texts, however they look.
  ('--algorithm=fedavg -method=0', 'method must be one of none, fedau'),
  ('-rate_step=0', 'constant, corrected or annealed:T0'),
  ('--no_such_flag=1', 'no_such_flag'),
  ('--alpha=much', 'flag --alpha=much: it must be a number; see --help.'),
  ('--rounds=1e3', 'flag --rounds=1e3: it must be a whole number; see'),
  ('--resume=maybe', 'flag --resume=maybe: it must be true or false; see'),
  ('--flagfile=absent', 'error: Unable to open flagfile: [Errno 2] No such'),
  ('stray', "unexpected argument 'stray'"),
  ('--cluster=local:x', "(N workers on this machine), but it is 'local:x'"),
  ('--workers=alpha:1', 'workers'),
  ('--tracker=tensorboard', 'tracker must be mlflow or wandb, or several'),
]
_OTHERS = [
  ('experiments.cifar100 --data_source=internet', 'tff|official|tfds|sample'),
  ('experiments.shakespeare --model=large', 'paper|compact'),
  ('experiments.shakespeare --num_clients=3', "flag 'num_clients'"),
  ('experiments.compare', 'name the folders of the runs to compare'),
  ('experiments.compare no/such/folder', 'is not the config.json of a run'),
  ('experiments.compare x --picture=y', "flag 'picture'"),
]


@pytest.fixture(name='ended', scope='module')
def _ended(tmp_path_factory):
  """How all of the command lines ended, and where runs would have been."""
  folder = tmp_path_factory.mktemp('refused')
  program, place = 'experiments.synthetic', f'--output_dir={folder / "run"}'
  lines = {flags: [program, *flags.split(' '), place] for flags, _ in _FLAGS}
  lines |= {line: line.split(' ') for line, _ in _OTHERS}
  return folder, {
    line: command_lines.run(*words) for line, words in lines.items()
  }


@pytest.mark.parametrize('line, words', [*_FLAGS, *_OTHERS])
def test_a_refusal_is_one_sentence_and_exit_code_2(line, words, ended):
  folder, by_line = ended
  code, output, errors = by_line[line]
  assert (code, output) == (2, ''), errors
  assert errors.startswith('error: ') and errors.count('\n') == 1, errors
  assert words in errors
  assert not list(folder.iterdir())


def test_a_program_that_is_not_refused_goes_on(tmp_path):
  # Else the test above could pass for another reason.
  ended = command_lines.run(
    'experiments.synthetic', f'--output_dir={tmp_path}/run'
  )
  assert ended.returncode == 2 and 'cannot be imported' in ended.stderr
  assert (tmp_path / 'run' / 'config.json').exists()


def _python(*arguments, **kwargs):
  return subprocess.run(
    [sys.executable, *arguments],
    capture_output=True,
    text=True,
    timeout=120,
    **kwargs,
  )


@pytest.mark.parametrize('program', ['synthetic', 'compare'])
def test_a_program_that_is_called_as_a_file_says_how_to_call_it(
  program, tmp_path
):
  path = _ROOT / 'experiments' / f'{program}.py'
  # The environment of `make setup` finds the package wherever one stands; here
  # there are its packages, but not what leads to that.
  packages = sysconfig.get_paths()['purelib']
  environment = {**os.environ, 'PYTHONPATH': packages}
  done = _python('-S', str(path), '--seed=1', cwd=tmp_path, env=environment)
  assert (done.returncode, done.stdout) == (2, '')
  assert done.stderr == (
    f'error: programs are called as modules, from {_ROOT}: python -m '
    f'experiments.{program} --seed=1\n'
  )


def test_a_python_without_packages_is_one_sentence():
  # As of the system, where one forgets the environment.
  done = _python('-S', '-m', 'experiments.synthetic', cwd=_ROOT)
  assert (done.returncode, done.stdout) == (2, '')
  assert done.stderr == (
    f'error: {sys.executable} has none of the packages that programs need; '
    'run "make setup" and use .venv/bin/python.\n'
  )


def test_a_file_whose_package_python_can_find_is_as_good(monkeypatch):
  # As Bazel calls it.
  monkeypatch.setenv('PYTHONPATH', str(_ROOT))
  done = _python(str(_ROOT / 'experiments' / 'synthetic.py'), '--rounds=0')
  assert done.stderr == 'error: rounds must be at least 1, but it is 0.\n'


def test_without_docstrings_there_is_help_but_no_training(tmp_path):
  program = '-OO', '-m', 'experiments.synthetic'
  done = _python(*program, '--help', cwd=_ROOT)
  assert done.returncode == 0 and '--avail' in done.stdout
  done = _python(*program, f'--output_dir={tmp_path}/run', cwd=_ROOT)
  assert done.returncode == 2
  assert done.stderr == (
    'error: TensorFlow needs docstrings, which -OO drops; leave it out.\n'
  )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
