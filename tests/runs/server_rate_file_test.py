"""Tests of `server_rate_file`."""

import hashlib
import pathlib
import re
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import server_rate_file


def _write(folder, text):
  path = folder / 'rates.csv'
  path.write_bytes(text if isinstance(text, bytes) else text.encode())
  return str(path)


@pytest.mark.parametrize(
  'text, expected',
  [
    ('round,factor\n1,2\n2,0.5\n3,0\n', [2, 0.5, 0]),
    # As spreadsheets begin it.
    ('\ufeffround,factor\n1,2\n2,0.5\n3,0\n', [2, 0.5, 0]),
    # As a run writes it; rounds beyond the last do not matter.
    (
      'round,available,sum_of_weights,clients\n1,9,1.25,4 7\n2,0,0.0,\n'
      '3,5,1e-3,5\n4,5,nan,5\n',
      [1.25, 0, 0.001],
    ),
    # In any order; a factor goes before a sum of weights.
    (
      'sum_of_weights,round,factor\r\n7,3,3\r\n8,1,1\r\n9,2,2\r\n',
      [1, 2, 3],
    ),
  ],
)
def test_files_by_hand(text, expected, tmp_path):
  path = _write(tmp_path, text)
  found = server_rate_file.read(path, 3)
  np.testing.assert_array_equal(found.factors, expected)
  assert found.sha256 == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
  'text, reason',
  [
    ('round,factor\n1,1\n3,1\n', 'has no round 2 of 3'),
    ('round,factor\n1,1\n2,1\n', 'has no round 3 of 3'),
    ('round,factor\n1,1\n2,nan\n3,1\n', "has 'nan' in round 2"),
    ('round,factor\n1,1\n2,\n3,1\n', "has '' in round 2"),
    ('round,factor\n1,1\n2\n3,1\n', 'has None in round 2'),
    ('round,factor\n1,-0.5\n2,1\n3,1\n', "has '-0.5' in round 1"),
    ('round,factor\n1,inf\n2,1\n3,1\n', "has 'inf' in round 1"),
    ('round,factor\n1,one\n2,1\n3,1\n', "has 'one' in round 1"),
    ('round,factor\n1,1\n2,1\n3,1\n2,1\n', 'has round 2 twice'),
    ('round,factor\n0,1\n', "has '0' for a round"),
    ('round,factor\n1.5,1\n', "has '1.5' for a round"),
    ('round,factor\nnan,1\n', "has 'nan' for a round"),
    ('round,accuracy\n1,1\n', 'has no such columns'),
    ('t,factor\n1,1\n', 'has no such columns'),
    ('', 'has no such columns'),
    (b'round,factor\n1,\xff\n', 'cannot be read'),
  ],
)
def test_what_is_wrong_is_named_in_one_sentence(text, reason, tmp_path):
  path = _write(tmp_path, text)
  with pytest.raises(ValueError) as error:
    server_rate_file.read(path, 3)
  message = str(error.value)
  assert reason in message and repr(path) in message
  assert message.startswith('server_rate_file must be a CSV file')
  assert '\n' not in message


def test_what_is_no_file_is_named(tmp_path):
  for name in ('absent.csv', '', 'new\nline'):
    with pytest.raises(ValueError, match='is not a file') as error:
      server_rate_file.read(str(tmp_path / name), 3)
    assert '\n' not in str(error.value)


@hypothesis.given(st.binary(max_size=60) | st.text(max_size=60))
@hypothesis.settings(
  suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
def test_any_content_is_read_or_refused(tmp_path, content):
  if isinstance(content, str):
    content = ('round,factor\n1,' + content).encode(errors='replace')
  path = _write(tmp_path, content)
  try:
    found = server_rate_file.read(path, 1)
  except ValueError as error:
    assert '\n' not in str(error)
  else:
    assert found.factors.shape == (1,) and 0 <= found.factors[0] < np.inf


def test_settings_name_the_file_and_the_rounds(tmp_path):
  path = _write(tmp_path, 'round,factor\n1,4\n2,5\n')
  assert server_rate_file.of(config_lib.Config()) is None
  config = config_lib.Config(rounds=1, server_rate_file=path)
  found = server_rate_file.of(config)
  np.testing.assert_array_equal(found.factors, [4])
  with pytest.raises(ValueError, match='has no round 3 of 3'):
    server_rate_file.of(config_lib.Config(rounds=3, server_rate_file=path))


def test_the_schedule_of_the_page(tmp_path, capsys):
  page = (pathlib.Path(__file__).parents[2] / 'docs/methods.md').read_text()
  (program,) = re.findall(r'python -c "(.*)" > schedule.csv', page)
  exec(program)
  path = _write(tmp_path, capsys.readouterr().out)
  found = server_rate_file.read(path, 500).factors
  np.testing.assert_allclose(found[[0, 9, 89]], [1.1**-0.5, 0.5**0.5, 0.1**0.5])


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
