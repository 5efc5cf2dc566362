"""Tests of `cluster.connection`: what a cluster may be called."""

import importlib.util
import subprocess
import sys

import pytest

from f3ast_tff.execution.cluster import connection


@pytest.mark.parametrize(
  'where, expected', [('auto', None), ('local:1', 1), ('local:3', 3)]
)
def test_a_cluster_of_this_machine_says_how_many_workers(where, expected):
  assert connection.check(where) == expected


@pytest.mark.parametrize(
  'where',
  [
    '',
    'three',
    '3',
    'local',
    'local:',
    'local:0',
    'local:-1',
    'local:x',
    'local:2:2',
    'auto:2',
    'AUTO',
    'ray://x',
    '127.0.0.1:6379',
  ],
)
def test_another_text_is_refused_with_what_is_possible(where):
  with pytest.raises(connection.UsageError) as error:
    connection.check(where)
  assert str(error.value).startswith('cluster must be auto (')
  assert str(error.value).endswith(f'but it is {where!r}.')


def test_where_ray_is_missing_the_message_says_how_to_get_it(monkeypatch):
  find = importlib.util.find_spec
  monkeypatch.setattr(
    importlib.util,
    'find_spec',
    lambda name: None if name == 'ray' else find(name),
  )
  for where in ('auto', 'local:2'):
    with pytest.raises(connection.UsageError, match='pip install ray=='):
      connection.check(where)
  # What is wrong whether Ray is there or not comes first.
  with pytest.raises(connection.UsageError, match='but it is'):
    connection.check('three')


def test_to_check_takes_neither_ray_nor_tensorflow():
  script = (
    'import sys\n'
    'from f3ast_tff.execution.cluster import connection\n'
    'connection.check("local:2")\n'
    'print({"ray", "tensorflow", "numpy"} & set(sys.modules))\n'
  )
  output = subprocess.check_output(
    [sys.executable, '-c', script], text=True, timeout=60
  )
  assert output == 'set()\n'


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
