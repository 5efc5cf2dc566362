"""Tests of `summary`: the picture of a run, and what it prints at its end."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from f3ast_tff.runs import summary


def _write(folder, accuracies, num_clients=20, **settings):
  """Writes the files of a run of 60 rounds that summaries are made from."""
  rounds = np.arange(1, 61)
  tests = {'round': np.linspace(0, 60, len(accuracies) + 1)[1:].astype(int)}
  for number, name in enumerate(
    ('accuracy', 'user_accuracy', 'loss', 'user_loss')
  ):
    tests[name] = np.array(accuracies) / 2**number
  clients = np.arange(num_clients)
  share = clients / num_clients
  for name, columns in {
    'metrics': tests,
    'clients': {
      'client': clients,
      'examples': clients,
      'p': share,
      'times_available': (60 * (1 - share)).astype(int),
      'times_selected': (60 * share).astype(int),
      'rate': share,
    },
    'rounds': {
      'round': rounds,
      'available': 9.0,
      'selected': 5.0,
      'empty': 1 * (rounds == 7),
      'left_out': 2 * (rounds == 9),
      'sum_of_weights': np.where(rounds > 40, 0.75, 0.0),
    },
    'timing': {'round': rounds, 'train_seconds': rounds / 1000},
  }.items():
    pd.DataFrame(columns).to_csv(folder / f'{name}.csv', index=False)
  (folder / 'config.json').write_text(
    json.dumps({
      'settings': {
        'algorithm': 'f3ast',
        'avail': 'home_devices',
        'clients_per_round': '10',
        'parallel_clients': 2,
        'rounds': 60,
        'seed': 0,
        **settings,
      }
    })
  )


_LONG = {
  'selection': 'proportional_with_replacement',
  'server_optimizer': 'adagrad',
  'proximal': 0.12345,
  'clients_per_round': 'markov:10,2,0.1,0.3',
  'avail': 'home_devices',
  'seed': 123456,
}


@pytest.mark.parametrize('accuracies', [[0.9], [1.0] * 9, [0.0] * 9, [0, 1, 0]])
@pytest.mark.parametrize(
  'num_clients, settings', [(1, {}), (20, _LONG), (3400, {})]
)
def test_nothing_in_the_picture_lies_on_something_else(
  tmp_path, accuracies, num_clients, settings
):
  _write(tmp_path, accuracies, num_clients, **settings)
  summary.draw(tmp_path, 'Synthetic(1,1)')  # Saving checks it.
  assert (tmp_path / 'summary.png').read_bytes()[:4] == b'\x89PNG'


def test_the_text_by_hand(tmp_path):
  _write(tmp_path, [0.1, 0.2, 0.3, 0.4, 0.6, 0.8])
  lines = summary.text(tmp_path, 'a data set', 12.3).splitlines()
  assert lines[0] == 'f3ast on a data set, home_devices, seed 0: 60 rounds'
  # The last third has the tests of rounds 50 and 60.
  assert lines[2].split() == ['test', 'accuracy', '0.8000', '0.7000']
  assert lines[3].split() == ['test', 'loss', '0.2000', '0.1750']
  assert lines[6].split() == ['sum', 'of', 'weights', '0.7500']
  # The median of 1 to 60 ms is 30.5, which rounds to the even number.
  assert lines[7:] == [
    '  per round: 9.0 available, 5.0 selected, 30 ms',
    '  1 empty round, 2 updates left out',
    '  trained for 12 s, 2 clients at a time (--parallel_clients)',
    f'  files in {tmp_path}',
  ]


def test_who_delivers_is_in_the_text_where_not_all_do(tmp_path):
  _write(tmp_path, [0.1, 0.2])
  table = pd.read_csv(tmp_path / 'rounds.csv')
  table['delivered'] = [4, 3] * (len(table) // 2)
  table.to_csv(tmp_path / 'rounds.csv', index=False)
  lines = summary.text(tmp_path, 'a data set', 1.0).splitlines()
  assert '5.0 selected, 3.5 delivered, ' in lines[7]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
