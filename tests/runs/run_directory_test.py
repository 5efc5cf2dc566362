"""Tests of `run_directory`."""

import json
import os
import subprocess
import sys

import pytest

from f3ast_tff.runs import run_directory

_SETTINGS = {'seed': 0, 'beta': 0.001}


def _claim(folder, settings=None, resume=False):
  with run_directory.claim(folder, settings or _SETTINGS, resume):
    pass


def test_config_is_written_and_read_back(tmp_path):
  _claim(tmp_path / 'run')
  config = run_directory.read_config(tmp_path / 'run')
  assert config['settings'] == _SETTINGS
  assert set(config) == {'settings', 'versions', 'revision'}


def _git(folder, *arguments):
  """Calls git as somebody, wherever the test runs."""
  who = ['-c', 'user.name=a', '-c', 'user.email=a@b', '-c', 'commit.gpgsign=0']
  return subprocess.run(
    ['git', *who, *arguments],
    cwd=folder,
    check=True,
    capture_output=True,
    text=True,
  ).stdout.strip()


def test_the_revision_is_that_of_the_code(tmp_path, monkeypatch):
  module = tmp_path / 'f3ast_tff' / 'runs' / 'run_directory.py'
  module.parent.mkdir(parents=True)
  module.touch()
  program = tmp_path / 'experiments/cifar100.py'
  program.parent.mkdir()
  program.touch()
  monkeypatch.setattr(run_directory, '__file__', str(module))
  _git(tmp_path, 'init')
  (tmp_path / 'README.md').touch()
  _git(tmp_path, 'add', 'README.md')
  _git(tmp_path, 'commit', '-m', 'of something else')
  assert run_directory.revision() == ''  # Git does not know the package.
  _git(tmp_path, 'add', '.')
  _git(tmp_path, 'commit', '-m', 'code')
  code = _git(tmp_path, 'rev-parse', 'HEAD')
  assert run_directory.revision() == code
  (tmp_path / 'README.md').write_text('text')
  assert run_directory.revision() == code
  _git(tmp_path, 'commit', '-a', '-m', 'text')
  assert run_directory.revision() == code
  for changed in (module, program):
    changed.write_text('pass')
    assert run_directory.revision() == code + '+'
    _git(tmp_path, 'checkout', str(changed))
  program.write_text('pass')
  _git(tmp_path, 'commit', '-a', '-m', 'other code')
  assert run_directory.revision() == _git(tmp_path, 'rev-parse', 'HEAD')


def test_a_run_that_ended_before_its_first_round_can_start_over(tmp_path):
  _claim(tmp_path)
  _claim(tmp_path, {'seed': 1})
  assert run_directory.read_config(tmp_path)['settings'] == {'seed': 1}


def test_settings_that_a_run_from_before_them_does_not_name():
  here = {
    'seed': 0,
    'local_steps': 0,
    'server_rate_file': '',
    'target': 'data',
    'groups': '',
    'group_quota': '',
  }
  assert run_directory.differences({'seed': 0}, here) == []
  assert run_directory.differences({'seed': 0}, {**here, 'local_steps': 5}) == [
    'local_steps is 0 there and 5 here'
  ]
  # Others were always there.
  assert run_directory.differences({}, {'seed': 0}) == [
    'seed is None there and 0 here'
  ]
  assert run_directory.differences({}, {}) == []


def test_a_run_with_rows_needs_resume_and_the_same_settings(tmp_path):
  _claim(tmp_path)
  (tmp_path / 'rounds.csv').write_text('round\n1\n')
  with pytest.raises(run_directory.RunDirectoryError, match='--resume'):
    _claim(tmp_path)
  _claim(tmp_path, resume=True)
  with pytest.raises(run_directory.RunDirectoryError, match='seed is 0 there'):
    _claim(tmp_path, {**_SETTINGS, 'seed': 1}, resume=True)


def test_a_run_can_be_given_more_rounds_but_not_fewer_than_it_has(tmp_path):
  def claim(rounds, resume=True):
    _claim(tmp_path, {'rounds': rounds, 'seed': 0}, resume)

  claim(3)
  (tmp_path / 'rounds.csv').write_text('round\n1\n2\n3\n')
  with pytest.raises(run_directory.RunDirectoryError, match='give --resume'):
    claim(5, resume=False)
  with pytest.raises(run_directory.RunDirectoryError) as caught:
    claim(2)
  assert 'holds 3 rounds of this run already, but --rounds is 2' in str(
    caught.value
  )
  before = run_directory.read_config(tmp_path)
  assert before['settings'] == {'rounds': 3, 'seed': 0}
  for rounds in (5, 3, 4):  # Two have not been run, and can be left again.
    claim(rounds)
    assert run_directory.read_config(tmp_path) == {
      **before, 'settings': {'rounds': rounds, 'seed': 0}
    }
  with pytest.raises(run_directory.RunDirectoryError, match='seed is 0 there'):
    _claim(tmp_path, {'rounds': 9, 'seed': 1}, True)


@pytest.mark.parametrize('name', ['f3ast-tff', 'tensorflow-federated'])
def test_a_run_of_another_version_is_refused(name, tmp_path):
  _claim(tmp_path)
  (tmp_path / 'rounds.csv').write_text('round\n1\n')
  path = tmp_path / 'config.json'
  config = json.loads(path.read_text())
  ours, config['versions'][name] = config['versions'][name], '0.0.1'
  path.write_text(json.dumps(config))
  with pytest.raises(run_directory.RunDirectoryError) as caught:
    _claim(tmp_path, resume=True)
  assert f"{name} is '0.0.1' there and {ours!r} here" in str(caught.value)
  config['versions'] = {**config['versions'], name: ours, 'python': '3.99'}
  path.write_text(json.dumps(config))
  _claim(tmp_path, resume=True)  # Python's version makes no difference.


def test_the_config_names_the_data_once_they_are_known(tmp_path):
  run_directory.record_data(tmp_path, 'x', '')  # Nothing is there to add to.
  assert not list(tmp_path.iterdir())
  _claim(tmp_path)
  before = run_directory.read_config(tmp_path)
  for origin, data in (('', 'unknown'), ('of theirs', 'of theirs')):
    run_directory.record_data(tmp_path, '3 clients', origin)
    assert run_directory.read_config(tmp_path) == {
      **before, 'data': f'3 clients; {data}'
    }


def test_two_runs_cannot_share_a_folder(tmp_path):
  with run_directory.claim(tmp_path, _SETTINGS, False):
    with pytest.raises(run_directory.RunDirectoryError, match='in use'):
      _claim(tmp_path)


@pytest.mark.parametrize(
  'text',
  [
    '',
    '{',
    '[]',
    '3',
    '{"settings": 3}',
    '{"settings": {}, "versions": 3}',
    '\0',
    '[' * 100_000,
  ],
)
def test_a_broken_config_is_named(text, tmp_path):
  (tmp_path / 'config.json').write_text(text)
  (tmp_path / 'rounds.csv').write_text('round\n')
  with pytest.raises(run_directory.RunDirectoryError, match='config.json'):
    _claim(tmp_path, resume=True)
  assert (tmp_path / 'config.json').read_text() == text


def test_rows_round_trip_exactly(tmp_path):
  path = tmp_path / 'rows.csv'
  run_directory.append_row(path, {'round': 1, 'loss': 0.1 + 0.2})
  run_directory.append_row(path, {'round': 2, 'loss': 1 / 3})
  header, first, second = path.read_text().splitlines()
  assert header == 'round,loss'
  assert float(first.split(',')[1]) == 0.1 + 0.2
  assert float(second.split(',')[1]) == 1 / 3


@pytest.mark.parametrize(
  'text, expected',
  [
    ('round,s\n1,.5\n2,.5\n3,.5\n', 'round,s\n1,.5\n2,.5\n'),
    ('round,s\n1,.5\n2,.5\n3', 'round,s\n1,.5\n2,.5\n'),
    ('round,s\n1,.5\n2,', 'round,s\n1,.5\n'),
    ('round,s\n1,.5\n2,\x80\n', 'round,s\n1,.5\n'),
    ('round,s\n1,.5\n' + '9' * 5000 + ',1\n', 'round,s\n1,.5\n'),
  ],
)
def test_rows_beyond_a_round_and_torn_ones_go(text, expected, tmp_path):
  path = tmp_path / 'rows.csv'
  path.write_bytes(text.encode('latin-1'))
  run_directory.keep_rounds(path, ('round', 's'), 2)
  assert path.read_text() == expected


@pytest.mark.parametrize(
  'text',
  ['', 'rou', 'round,s\n', 'round,s\n1,', 'round,s\n5,1\n', 'round,x\n1,1\n'],
)
def test_a_file_without_a_whole_row_goes(text, tmp_path):
  path = tmp_path / 'rows.csv'
  run_directory.keep_rounds(path, ('round', 's'), 2)  # Absent is fine.
  path.write_text(text)
  run_directory.keep_rounds(path, ('round', 's'), 2)
  assert not path.exists()


def test_a_kill_while_writing_the_config_does_no_harm(tmp_path):
  (tmp_path / 'config.json.tmp').write_text('{"settings')
  _claim(tmp_path)
  assert run_directory.read_config(tmp_path)['settings'] == _SETTINGS


def test_write_atomically_leaves_no_temporary_file(tmp_path):
  path = tmp_path / 'a.json'
  run_directory.write_atomically(path, json.dumps([1]))
  run_directory.write_atomically(path, json.dumps([2]))
  assert path.read_text() == '[2]'
  assert [f.name for f in tmp_path.iterdir()] == ['a.json']


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
  tmp_path, monkeypatch
):
  path = tmp_path / 'a.json'
  path.write_text('old')

  def fail(descriptor):
    raise OSError(28, 'No space left on device')

  monkeypatch.setattr(run_directory.os, 'fsync', fail)
  with pytest.raises(OSError, match='No space'):
    run_directory.write_atomically(path, 'new')
  assert path.read_text() == 'old'
  assert [f.name for f in tmp_path.iterdir()] == ['a.json']
  with pytest.raises(run_directory.RunDirectoryError, match='No space left'):
    _claim(tmp_path / 'run')


@pytest.mark.parametrize('umask', [0o022, 0o077])
def test_files_are_nobody_s_to_write_but_the_owner_s(umask, tmp_path):
  before = os.umask(umask)
  try:
    _claim(tmp_path / 'run')
    run_directory.append_row(tmp_path / 'run' / 'rows.csv', {'round': 1})
  finally:
    os.umask(before)
  for path in (tmp_path / 'run', *(tmp_path / 'run').iterdir()):
    everyone = 0o777 if path.is_dir() else 0o666
    assert path.stat().st_mode & 0o777 == everyone & ~umask


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
