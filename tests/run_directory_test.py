"""Tests of `run_directory`."""

import json
import sys

import pytest

from f3ast_tff import run_directory

_SETTINGS = {'seed': 0, 'beta': 0.001}


def _claim(folder, settings=None, resume=False):
  with run_directory.claim(folder, settings or _SETTINGS, resume):
    pass


def test_config_is_written_and_read_back(tmp_path):
  _claim(tmp_path / 'run')
  config = run_directory.read_config(tmp_path / 'run')
  assert config['settings'] == _SETTINGS
  assert set(config) == {'settings', 'versions', 'revision'}


def test_a_run_that_ended_before_its_first_round_can_start_over(tmp_path):
  _claim(tmp_path)
  _claim(tmp_path, {'seed': 1})
  assert run_directory.read_config(tmp_path)['settings'] == {'seed': 1}


def test_a_run_with_rows_needs_resume_and_the_same_settings(tmp_path):
  _claim(tmp_path)
  (tmp_path / 'rounds.csv').write_text('round\n1\n')
  with pytest.raises(run_directory.RunDirectoryError, match='--resume'):
    _claim(tmp_path)
  _claim(tmp_path, resume=True)
  with pytest.raises(run_directory.RunDirectoryError, match='seed is 0 there'):
    _claim(tmp_path, {**_SETTINGS, 'seed': 1}, resume=True)


def test_two_runs_cannot_share_a_folder(tmp_path):
  with run_directory.claim(tmp_path, _SETTINGS, False):
    with pytest.raises(run_directory.RunDirectoryError, match='in use'):
      _claim(tmp_path)


@pytest.mark.parametrize('text', ['', '{', '[]', '{"settings": 3}', '\0'])
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
    ('round,x\n1,a\n2,b\n3,c\n', 'round,x\n1,a\n2,b\n'),
    ('round,x\n1,a\n2,b\n3', 'round,x\n1,a\n2,b\n'),
    ('round,x\n1,a\n2,', 'round,x\n1,a\n'),
  ],
)
def test_rows_beyond_a_round_and_torn_ones_go(text, expected, tmp_path):
  path = tmp_path / 'rows.csv'
  path.write_text(text)
  run_directory.keep_rounds(path, 2)
  assert path.read_text() == expected


@pytest.mark.parametrize(
  'text', ['', 'rou', 'round,x\n', 'round,x\n1,', 'round,x\n5,a\n']
)
def test_a_file_without_a_whole_row_goes(text, tmp_path):
  path = tmp_path / 'rows.csv'
  run_directory.keep_rounds(path, 2)  # Absent is fine.
  path.write_text(text)
  run_directory.keep_rounds(path, 2)
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


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
