"""Tests of finding, downloading and checking TFF's data files.

Files are small but of TFF's schema, and the network is played by a replacement
for `urllib.request.urlopen`, which is what TFF downloads with.
"""

import contextlib
import io
import lzma
import os
import pathlib
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from f3ast_tff.datasets import tff_cache
from tests import tff_file

EXPECTED = tff_cache.Expected(
  train_clients=3, train_examples=12, test_clients=2, test_examples=8
)
REAL = {
  'cifar100': tff_cache.Expected(500, 50_000, 100, 10_000),
  'shakespeare': tff_cache.Expected(715, 16_068, 715, 2_356),
}


def _write(
  path,
  train_clients=3,
  test_clients=2,
  per_client=4,
  change='',
  example=bytes(3000),
):
  examples = [
    (split, str(client), example)
    for split, number in (('train', train_clients), ('test', test_clients))
    for client in range(number)
    for _ in range(per_client)
  ]
  tff_file.write(path, examples, change)


@pytest.fixture(name='hosted')
def _hosted(tmp_path_factory):
  """The bytes of a complete file, as they would be on TFF's server."""
  path = tmp_path_factory.mktemp('hosted') / 'file'
  _write(path)
  return path.read_bytes()


def _serve(monkeypatch, answer):
  """Lets every download get `answer`: bytes, or an exception to raise."""

  def urlopen(url):
    assert url.startswith('https://')
    if isinstance(answer, BaseException):
      raise answer
    response = io.BytesIO(answer)
    response.headers = {'content-length': str(len(answer))}
    return response

  monkeypatch.setattr(urllib.request, 'urlopen', urlopen)


def _offline(monkeypatch):
  failure = socket.gaierror(-2, 'Name or service not known')
  _serve(monkeypatch, urllib.error.URLError(failure))


def _check_message(info, *parts):
  """One sentence on one line with these parts."""
  message = str(info.value)
  for part in parts:
    assert part in message
  assert '\n' not in message
  assert message.endswith('.')
  assert '. ' not in message


@pytest.mark.parametrize('name', tff_cache.NAMES)
def test_a_complete_file_is_found_without_a_network(
  name, tmp_path, monkeypatch
):
  _offline(monkeypatch)
  path = tmp_path / f'{name}.sqlite'
  _write(path)
  before = path.stat()
  assert tff_cache.fetch(name, tmp_path, EXPECTED) == path
  assert path.stat().st_mtime_ns == before.st_mtime_ns
  assert list(tmp_path.iterdir()) == [path]


def test_what_only_reading_finds_is_one_sentence(tmp_path):
  # Large examples go on in further pages, which counting does not look at.
  path = tmp_path / 'cifar100.sqlite'
  _write(path, example=b'\xab' * 20_000)
  content = bytearray(path.read_bytes())
  pages = [
    start
    for start in range(0, len(content), 4096)
    if content[start + 4 : start + 4096] == b'\xab' * 4092
  ]
  content[pages[0] : pages[0] + 4] = b'\x7f' * 4  # The number of the next one.
  path.write_bytes(content)
  tff_cache.check(path, EXPECTED)
  with pytest.raises(tff_cache.DataError) as info:
    with tff_cache.reading(path) as database:
      database.execute('SELECT * FROM examples').fetchall()
  _check_message(info, str(path), 'is damaged', 'delete it')


def test_the_default_folder_is_that_of_tff(tmp_path, monkeypatch):
  monkeypatch.setenv('HOME', str(tmp_path))
  (tmp_path / '.tff').mkdir()
  _write(tmp_path / '.tff' / 'cifar100.sqlite')
  path = tff_cache.fetch('cifar100', None, EXPECTED)

  import tensorflow_federated as tff

  _offline(monkeypatch)  # TFF must find the file too.
  train, _ = tff.simulation.datasets.cifar100.load_data(cache_dir=None)
  assert path == tmp_path / '.tff' / 'cifar100.sqlite'
  assert train.client_ids == ['0', '1', '2']


def test_a_name_with_special_characters_is_opened(tmp_path):
  strange = tmp_path / 'what? 100% #1'
  strange.mkdir()
  _write(strange / 'cifar100.sqlite')
  tff_cache.fetch('cifar100', str(strange), EXPECTED)


def test_finding_a_file_does_not_import_tensorflow(tmp_path):
  _write(tmp_path / 'cifar100.sqlite')
  program = (
    'import sys\n'
    'from f3ast_tff.datasets import tff_cache\n'
    'expected = tff_cache.Expected(3, 12, 2, 8)\n'
    f'tff_cache.fetch("cifar100", {str(tmp_path)!r}, expected)\n'
    'assert not [m for m in sys.modules if m.startswith("tensorflow")]\n'
  )
  root = pathlib.Path(__file__).parents[2]
  subprocess.run([sys.executable, '-c', program], check=True, cwd=root)


def _truncate(path):
  os.truncate(path, path.stat().st_size - 4096)


def _truncate_to_nothing(path):
  os.truncate(path, 0)


def _overwrite(path):
  path.write_bytes(b'<html>Sign in to this network</html>' * 100)


def _rewrite(**options):
  def rewrite(path):
    path.unlink()
    _write(path, **options)

  return rewrite


@pytest.mark.parametrize(
  ('damage', 'wrong'),
  [
    (_truncate, 'is incomplete or not a database of TFF'),
    (_truncate_to_nothing, 'has no table client_metadata and no table exam'),
    (_overwrite, 'is incomplete or not a database of TFF'),
    (_rewrite(change='DROP TABLE examples'), 'has no table examples'),
    (
      _rewrite(
        change='ALTER TABLE examples RENAME serialized_example_proto TO other'
      ),
      'is incomplete or not a database of TFF',
    ),
    (_rewrite(train_clients=2), 'has 2 instead of 3 train clients'),
    (_rewrite(test_clients=0), 'has 0 instead of 2 test clients'),
    (_rewrite(per_client=5), 'has 15 instead of 12 train examples'),
    (
      _rewrite(change='DELETE FROM examples WHERE split_name = "test"'),
      'has 0 instead of 8 test examples',
    ),
  ],
)
def test_a_damaged_file_is_named_and_kept(damage, wrong, tmp_path, monkeypatch):
  _offline(monkeypatch)
  path = tmp_path / 'cifar100.sqlite'
  _write(path)
  damage(path)
  content = path.read_bytes()
  with pytest.raises(tff_cache.DataError) as info:
    tff_cache.fetch('cifar100', tmp_path, EXPECTED)
  _check_message(
    info, f'{path} {wrong}', 'delete it so that it is downloaded again'
  )
  assert path.read_bytes() == content


def test_a_folder_in_place_of_the_file_is_named(tmp_path):
  (tmp_path / 'cifar100.sqlite').mkdir()
  with pytest.raises(tff_cache.DataError) as info:
    tff_cache.fetch('cifar100', tmp_path, EXPECTED)
  _check_message(info, 'cannot be read (Is a directory)', '--data_dir')


@pytest.mark.parametrize('name', tff_cache.NAMES)
def test_without_file_and_network_the_ways_out_are_named(
  name, tmp_path, monkeypatch
):
  _offline(monkeypatch)
  with pytest.raises(tff_cache.DataError) as info:
    tff_cache.fetch(name, tmp_path, EXPECTED)
  what, *ways = str(info.value).splitlines()
  path = tmp_path / f'{name}.sqlite'
  assert what.startswith(f'{path} is not there and downloading it failed')
  assert 'Name or service not known' in what and what.endswith('of these:')
  expected = [
    'on a machine with a network',
    f'copy {name}.sqlite from such a machine to {tmp_path}',
    '--data_dir',
    *(['--data_source=official', '--data_source=tfds'] * (name == 'cifar100')),
    '--data_source=sample',
  ]
  assert len(ways) == len(expected)
  for way, part in zip(ways, expected):
    assert way.startswith('  - ') and part in way
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('name', tff_cache.NAMES)
def test_a_download_appears_complete_and_quietly(
  name, hosted, tmp_path, monkeypatch, capfd
):
  _serve(monkeypatch, lzma.compress(hosted))
  import tensorflow_federated  # noqa: F401  (TensorFlow logs when imported.)

  capfd.readouterr()
  path = tff_cache.fetch(name, tmp_path / 'new', EXPECTED)
  assert path.read_bytes() == hosted
  assert list((tmp_path / 'new').iterdir()) == [path]
  assert capfd.readouterr() == ('', '')
  assert socket.getdefaulttimeout() is None


def test_a_download_shows_progress_on_a_terminal(
  hosted, tmp_path, monkeypatch
):
  _serve(monkeypatch, lzma.compress(hosted))
  terminal = io.StringIO()
  terminal.isatty = lambda: True
  with contextlib.redirect_stderr(terminal):
    tff_cache.fetch('cifar100', tmp_path, EXPECTED)
  assert 'Downloading cifar100.sqlite.lzma: 100%' in terminal.getvalue()


def test_a_download_that_breaks_off_leaves_nothing(
  hosted, tmp_path, monkeypatch
):
  whole = lzma.compress(hosted)
  for answer in (
    whole[: len(whole) // 2],  # TFF writes what it got and goes on.
    b'<html>Sign in to this network</html>',
    lzma.compress(hosted[:8192]),
    lzma.compress(b''),
  ):
    _serve(monkeypatch, answer)
    with pytest.raises(tff_cache.DataError) as info:
      tff_cache.fetch('cifar100', tmp_path, EXPECTED)
    _check_message(info, str(tmp_path / 'cifar100.sqlite'), 'try again')
    assert not list(tmp_path.iterdir())


def test_a_download_of_something_else_leaves_nothing(tmp_path, monkeypatch):
  _write(tmp_path / 'other', train_clients=1)
  other = (tmp_path / 'other').read_bytes()
  (tmp_path / 'other').unlink()
  _serve(monkeypatch, lzma.compress(other))
  with pytest.raises(tff_cache.DataError) as info:
    tff_cache.fetch('cifar100', tmp_path, EXPECTED)
  _check_message(info, 'has 1 instead of 3 train clients', 'try again')
  assert not list(tmp_path.iterdir())


def test_an_interrupted_download_leaves_nothing(tmp_path, monkeypatch):
  _serve(monkeypatch, KeyboardInterrupt())
  with pytest.raises(KeyboardInterrupt):
    tff_cache.fetch('cifar100', tmp_path, EXPECTED)
  assert not list(tmp_path.iterdir())
  assert socket.getdefaulttimeout() is None


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
  (tmp_path / 'file').touch()
  with pytest.raises(tff_cache.DataError) as info:
    tff_cache.fetch('cifar100', tmp_path / 'file', EXPECTED)
  place = tmp_path / 'file'
  _check_message(info, f'{place} cannot be written to', '--data_dir')


def test_an_unknown_name_is_refused(tmp_path):
  with pytest.raises(ValueError, match='one of cifar100, shakespeare'):
    tff_cache.fetch('emnist', tmp_path, EXPECTED)


@pytest.mark.skipif(
  'F3AST_DATA_DIR' not in os.environ,
  reason='F3AST_DATA_DIR names no folder with the real data',
)
@pytest.mark.parametrize('name', tff_cache.NAMES)
def test_the_real_file_is_complete(name):
  tff_cache.fetch(name, os.environ['F3AST_DATA_DIR'], REAL[name])


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
