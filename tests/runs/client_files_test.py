"""Tests of `client_files`."""

import hashlib
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff.runs import client_files
from f3ast_tff.runs import config as config_lib


def _write(folder, text):
  path = folder / 'clients.csv'
  path.write_bytes(text if isinstance(text, bytes) else text.encode())
  return str(path)


@pytest.mark.parametrize(
  'text',
  [
    'client,group\n0,a\n1,b c\n2,a\n',
    # In any order, among other columns, with other ends of lines.
    'group,size,client\r\na,1,2\r\nb c,2,1\r\na,3,0\r\n',
    'client,group\n"0","a"\n1,b c\n2,a',
    '\ufeffclient,group\n0,a\n1,b c\n2,a\n',  # As spreadsheets begin it.
  ],
)
def test_groups_by_hand(text, tmp_path):
  path = _write(tmp_path, text)
  assert client_files.read('groups', path, 3) == ['a', 'b c', 'a']


def test_numbers_by_hand(tmp_path):
  path = _write(tmp_path, 'client,share\n1,2.5\n0,1e-3\n')
  found = client_files.numbers('target', path, 2)
  np.testing.assert_array_equal(found, [0.001, 2.5])
  path = _write(tmp_path, 'client,share\n1,2.5\n0,half\n')
  with pytest.raises(ValueError, match="'half' for client 0, which is no num"):
    client_files.numbers('target', path, 2)


@pytest.mark.parametrize(
  'text, reason',
  [
    ('client,group\n0,a\n2,b\n', 'does not have client 1'),
    ('client,group\n0,a\n1,b\n', 'does not have client 2'),
    ('client,group\n0,a\n1,b\n2,c\n1,b\n', 'has client 1 twice'),
    ('client,group\n0,a\n1,\n2,c\n', 'has no group for client 1'),
    ('client,group\n0,a\n1\n2,c\n', 'has no group for client 1'),
    ('client,group\n3,a\n', "has a client '3' and there are 0 to 2"),
    ('client,group\n-1,a\n', "has a client '-1'"),
    ('client,group\n00,a\n', "has a client '00'"),
    ('client,group\nbob,a\n', "has a client 'bob'"),
    ('client,share\n0,a\n', 'has no such columns'),
    ('', 'has no such columns'),
    (b'client,group\n0,\xff\n', 'cannot be read'),
  ],
)
def test_what_is_wrong_is_named_in_one_sentence(text, reason, tmp_path):
  path = _write(tmp_path, text)
  with pytest.raises(ValueError) as error:
    client_files.read('groups', path, 3)
  message = str(error.value)
  assert reason in message and repr(path) in message and '\n' not in message
  assert message.startswith('The file of groups must be a CSV file')


@hypothesis.given(st.binary(max_size=60) | st.text(max_size=60))
@hypothesis.settings(
  suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
def test_any_content_is_read_or_refused(tmp_path, content):
  if isinstance(content, str):
    content = ('client,share\n0,' + content).encode(errors='replace')
  path = _write(tmp_path, content)
  try:
    (found,) = client_files.read('target', path, 1)
  except ValueError as error:
    assert '\n' not in str(error)
  else:
    assert found


def test_the_digests_of_what_the_settings_name(tmp_path):
  assert client_files.digests(config_lib.Config()) == {}
  path = _write(tmp_path, 'client,group\n0,a\n')
  other = tmp_path / 'shares.csv'
  other.write_text('client,share\n0,1\n')
  config = config_lib.Config(
    groups=f'file:{path}', group_quota='..2', target=f'file:{other}'
  )
  assert client_files.digests(config) == {
    'groups_sha256': hashlib.sha256(b'client,group\n0,a\n').hexdigest(),
    'target_sha256': hashlib.sha256(b'client,share\n0,1\n').hexdigest(),
  }
  config = config_lib.Config(target='file:absent.csv')
  with pytest.raises(ValueError, match="'absent.csv' is not a file"):
    client_files.digests(config)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
