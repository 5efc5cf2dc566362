"""Tests of `run_tables`."""

import sys

import pandas as pd
import pytest

from f3ast_tff.runs import run_directory
from f3ast_tff.runs import run_tables

_COLUMNS = ('round', 'loss')


def test_a_sound_table(tmp_path):
  path = tmp_path / 'metrics.csv'
  path.write_text('round,loss,name\n1,0.5,a\n3,nan,b\n')
  table = run_tables.read(path, _COLUMNS)
  assert table['round'].tolist() == [1, 3]
  assert table['loss'].iloc[0] == 0.5 and table['loss'].isna().iloc[1]


@pytest.mark.parametrize(
  'content, reason',
  [
    (None, 'No such file'),
    (b'', 'No columns'),
    (b'round,loss\n', 'no rows'),
    (b'round\n1\n', 'no column loss'),
    (b'round,loss\n1,x\n', 'column loss has values'),
    (b'round,loss\n1.5,1\n', 'column round has values'),
    (b'round,loss\n2,1\n2,1\n', 'do not ascend'),
    (b'round,loss\n1,1,1\n', 'Length of header'),
    (b'round,loss\n1,1\n2,1,1,1\n', 'Expected 2 fields'),
    (b'round,loss\n\x80,1\n', "can't decode"),
  ],
)
def test_what_is_wrong_with_a_table_is_said(content, reason, tmp_path):
  path = tmp_path / 'metrics.csv'
  if content is not None:
    path.write_bytes(content)
  with pytest.raises(run_directory.RunDirectoryError) as caught:
    run_tables.read(path, _COLUMNS)
  assert reason in str(caught.value) and '\n' not in str(caught.value)


def test_the_weights_of_recent_rounds():
  metrics = pd.DataFrame({'round': [2, 9]})
  rounds = pd.DataFrame({
    'round': range(1, 10),
    'sum_of_weights': [1.0, 2.0, 9.0, 9.0, 9.0, 9.0, 2.0, 3.0, 6.0],
  })
  table = run_tables.with_recent_weights(metrics, rounds)
  # The last third, as of all other metrics.
  assert table['sum_of_weights'].tolist() == [1.5, 11 / 3]
  with pytest.raises(run_directory.RunDirectoryError, match='does not have'):
    run_tables.with_recent_weights(metrics, rounds[:8])


@pytest.mark.parametrize(
  'num_rounds, first', [(1, 1), (2, 2), (60, 41), (300, 201), (500, 401)]
)
def test_the_last_100_rounds_or_the_last_third(num_rounds, first):
  rounds = pd.DataFrame({'round': range(1, num_rounds + 1)})
  late = run_tables.last_rounds(rounds)['round']
  assert (late.min(), late.max()) == (first, num_rounds)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
