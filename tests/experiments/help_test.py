"""Tests of the experiments' `--help`."""

import dataclasses
import functools
import subprocess
import sys

import pytest

from experiments import help as help_lib
from f3ast_tff import availability
from f3ast_tff import rates
from f3ast_tff.runs import config as config_lib
from tests import command_lines
from tests import trials

_OWN = {
  'cifar100': ('data_source', 'data_dir', 'model'),
  'shakespeare': ('data_source', 'data_dir', 'model'),
  'synthetic': ('alpha', 'num_clients'),
}
_ROUNDS = {'cifar100': 1000, 'shakespeare': 500, 'synthetic': 500}


@functools.cache
def _run(experiment, flag):
  # Without TensorFlow, whose packages have flags of their own.
  return command_lines.run(f'experiments.{experiment}', flag)


def _entries(lines):
  """Returns the first lines of flags by name, in their order."""
  heads = [line.strip() for line in lines if line.startswith('  --')]
  return {head.split(':')[0].removeprefix('--'): head for head in heads}


@pytest.mark.parametrize('experiment', list(_OWN))
def test_help_has_every_flag_once_in_its_group(experiment):
  done = _run(experiment, '--help')
  assert (done.returncode, done.stderr) == (0, '')
  lines = done.stdout.splitlines()
  assert all(len(line) <= 80 for line in lines)
  names = {field.name for field in dataclasses.fields(config_lib.Config)}
  names |= {*_OWN[experiment], 'output_dir', '[no]resume', 'on_divergence'}
  names = {n.replace('delivery_in', '[no]delivery_in') for n in names}
  names |= {'cluster', 'tracker', 'add'}
  heads = [line for line in lines if line.startswith('  --')]
  entries = _entries(lines)
  assert set(entries) == names and len(heads) == len(names)
  titles = [
    line[:-1] for line in lines if line.endswith(':') and line[0] != ' '
  ]
  assert titles == [title for title, _ in help_lib.GROUPS]  # No flag is left.


@pytest.mark.parametrize('experiment', list(_OWN))
def test_help_shows_defaults_choices_and_one_example(experiment):
  output = _run(experiment, '--help').stdout
  entries = _entries(output.splitlines())
  assert entries['avail'] == '--avail: default home_devices'
  text = ' '.join(output.split())
  assert f'The availability model: {", ".join(availability.usages())}.' in text
  choices = ', '.join(rates.INITIAL_RATES)
  assert entries['rate_init'] == f'--rate_init: {choices}'
  divergence = '--on_divergence: stop (default), continue'
  assert entries['on_divergence'] == divergence
  rounds = f'an integer, default {_ROUNDS[experiment]}'
  assert entries['rounds'] == f'--rounds: {rounds}'
  assert entries['client_learning_rate'] == '--client_learning_rate: a number'
  assert entries['[no]resume'] == '--[no]resume: default false'
  assert entries['cluster'] == '--cluster'
  assert output.count('For example:') == 1
  assert f'For example: python -m experiments.{experiment} --' in output
  assert '|' not in output  # absl's own list of choices.


def test_the_long_help_of_absl_is_there():
  output = _run('synthetic', '--helpfull').stdout
  assert 'absl.logging' in output and '--avail' in output


def test_help_is_asked_for_before_two_dashes_only():
  assert help_lib.is_asked_for(['program', '--seed=1', '--help'])
  assert help_lib.is_asked_for(['program', '-h'])
  assert not help_lib.is_asked_for(['--help'])  # The program's own name.
  assert not help_lib.is_asked_for(['program', '--', '--help'])


def test_a_flag_of_no_group_comes_last():
  groups = list(help_lib.grouped(['new', 'seed', 'avail']))
  assert [names for _, names in groups] == [['avail'], ['seed'], ['new']]


@pytest.mark.parametrize(
  'program, own',
  [
    ('compare FOLDER ...', ['output', 'title']),
    ('region', [
      'beta', 'rounds', 'seed', 'p', 'picture_dir', 'starts', 'output_dir'
    ]),
    ('reproduce', ['cluster', 'rounds', 'seeds', 'jobs']),
    ('availability', ['output_dir', 'task', 'seed']),
    ('misplaced', ['output_dir', 'avail', 'rounds', 'seeds']),
  ],
)
def test_other_programs_have_their_own_flags_only(program, own):
  name = program.partition(' ')[0]
  done = _run(name, '--help')
  assert (done.returncode, done.stderr) == (0, '')
  assert f'Usage: python -m experiments.{program} [' in done.stdout
  assert '\n  --resume' not in done.stdout
  entries = set(_entries(done.stdout.splitlines()))
  of_others = {'add', '[no]resume', 'tracker', 'picture_dir'} - set(own)
  assert entries >= set(own) and not entries & of_others
  # A flag of runs would be taken and then do nothing.
  done = command_lines.run(f'experiments.{name}', '--resume')
  assert done.returncode == 2 and "flag 'resume'" in done.stderr


@pytest.mark.parametrize(
  'program', ['synthetic', 'sweep', 'compare', 'benchmark', 'paper']
)
def test_who_reads_only_the_beginning_sees_no_traceback(program):
  process = subprocess.Popen(
    [sys.executable, '-m', f'experiments.{program}', '--help'],
    cwd=trials.ROOT,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )
  process.stdout.close()  # As `head` does, and sooner.
  assert (process.stderr.read(), process.wait()) == ('', 0)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
