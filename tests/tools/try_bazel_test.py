"""Tests of tools/try_bazel.py: what it does where there is no Bazel."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

_PATH = pathlib.Path(__file__).parents[2] / 'tools' / 'try_bazel.py'
_SPEC = importlib.util.spec_from_file_location('try_bazel', _PATH)
try_bazel = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(try_bazel)


class _Machine:
  """A machine with some programs; writes down what is run on it."""

  def __init__(self, monkeypatch, programs, user, failing=()):
    self.programs, self.failing = set(programs), failing
    self.commands = []
    monkeypatch.setattr(try_bazel.os, 'geteuid', lambda: user)
    monkeypatch.setattr(try_bazel.shutil, 'which', self._which)
    monkeypatch.setattr(try_bazel.subprocess, 'run', self._run)

  def _which(self, name):
    return name if name in self.programs else None

  def _run(self, command, **unused):
    line = ' '.join(command)
    self.commands.append(line)
    code = 7 if any(part in line for part in self.failing) else 0
    if code == 0 and line.endswith('install -q -y --no-install-recommends '
                                   'bazel-bootstrap'):
      self.programs.add('bazel')
    return subprocess.CompletedProcess(command, code, 'some lines\nthe last\n')


def test_with_bazel_it_builds_tests_and_runs(monkeypatch):
  machine = _Machine(monkeypatch, ['bazel'], 1000)
  assert try_bazel.main() == 0
  verbs = [command.split()[1] for command in machine.commands]
  assert verbs == ['build', 'test', 'run', 'shutdown']
  run = machine.commands[2]
  assert '//experiments:cifar100 -- --avail=scarce ' in run
  assert '--data_source=sample' in run and '--rounds=2' in run


@pytest.mark.parametrize('verb', ['build', 'test', 'run'])
def test_the_first_step_that_fails_ends_it(verb, monkeypatch):
  machine = _Machine(monkeypatch, ['bazel'], 0, failing=[f'bazel {verb}'])
  assert try_bazel.main() == 7
  assert machine.commands[-2].split()[1] == verb
  assert machine.commands[-1] == 'bazel shutdown'


@pytest.mark.parametrize(
  'user, programs, prefix',
  [(0, ['apt-get'], ''), (1000, ['apt-get', 'sudo'], 'sudo -n ')],
)
def test_debians_bazel_is_installed_where_that_is_allowed(
  user, programs, prefix, monkeypatch
):
  machine = _Machine(monkeypatch, programs, user)
  assert try_bazel.main() == 0
  installs = [c for c in machine.commands if 'apt-get install' in c]
  assert len(installs) == 1 and installs[0].startswith(f'{prefix}env ')


@pytest.mark.parametrize(
  'user, programs, failing, sentence',
  [
    (1000, ['apt-get'], [], 'this user may not install it'),
    (1000, ['apt-get', 'sudo'], ['sudo -n true'], 'may not install it'),
    (0, [], [], 'this is no Debian'),
    (0, ['apt-get'], ['apt-get install'], 'could not install bazel-bootstrap'),
  ],
)
def test_otherwise_it_says_so_in_one_sentence(
  user, programs, failing, sentence, monkeypatch, capsys
):
  _Machine(monkeypatch, programs, user, failing)
  assert try_bazel.main() == 2
  errors = capsys.readouterr().err
  assert sentence in errors and errors.count('\n') == 1


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
