"""Every method under every availability model, through the real command line.

Each run is tiny. What is checked is what holds for any run: who took part was
there, as many as were allowed, and with the weights of the method.
"""

import hashlib
import json
import os
import sys

import numpy as np
import pandas as pd
import pytest

from f3ast_tff import availability
from f3ast_tff import methods
from tests import programs

_TINY = (
  'experiments.synthetic',
  '--num_clients=12',
  '--rounds=3',
  '--clients_per_round=4',
  '--eval_every=3',
  '--output_dir=run',
)


# Each method under one model at least and each model with one method; all
# pairs, which take minutes, with F3AST_ALL_PAIRS=1.
_PAIRS = [
  (algorithm, avail)
  for i, algorithm in enumerate(methods.ALGORITHMS)
  for j, avail in enumerate(availability.PAPER)
  if j == i % len(availability.PAPER)
  or i == j % len(methods.ALGORITHMS)
  or os.environ.get('F3AST_ALL_PAIRS')
]


@pytest.mark.parametrize('algorithm, avail', _PAIRS)
def test_methods_under_availability_models(algorithm, avail, tmp_path):
  done = programs.run(
    tmp_path, *_TINY, f'--algorithm={algorithm}', f'--avail={avail}'
  )
  assert (done.returncode, done.stderr) == (0, '')
  clients = pd.read_csv(tmp_path / 'run' / 'clients.csv')
  rounds = pd.read_csv(
    tmp_path / 'run' / 'rounds.csv', keep_default_na=False
  )
  model = availability.parse(avail, clients['p'].to_numpy(), 0)
  for t, row in enumerate(rounds.itertuples(), 1):
    chosen = [int(k) for k in row.clients.split()]
    assert model(t)[chosen].all()
    assert row.available == model(t).sum() and row.k == 4
    most = min(4, row.available)
    if algorithm.endswith('with_replacement'):
      assert min(1, most) <= len(chosen) == row.selected <= most
    else:
      assert len(chosen) == row.selected == most
    if not algorithm.startswith('f3ast') and chosen:
      assert row.sum_of_weights == pytest.approx(1.0)
  np.testing.assert_array_equal(
    clients['times_available'], sum(model(t).astype(int) for t in (1, 2, 3))
  )
  metrics = pd.read_csv(tmp_path / 'run' / 'metrics.csv')
  assert np.isfinite(metrics['loss']).all()


@pytest.mark.parametrize(
  'flags',
  [
    ('--selection=fixed_policy', '--avail=smartphones'),
    ('--selection=uniform', '--server_optimizer=yogi', '--proximal=0.5'),
    ('--algorithm=power_of_choice', '--protocol=released'),
    ('--algorithm=fedadam', '--protocol=released', '--avail=smartphones'),
  ],
)
def test_parts_and_protocols_on_the_command_line(flags, tmp_path):
  done = programs.run(tmp_path, *_TINY, *flags)
  assert (done.returncode, done.stderr) == (0, '')
  if 'fixed_policy' in flags[0]:
    policy = pd.read_csv(tmp_path / 'run' / 'fixed_policy.csv')
    np.testing.assert_allclose(
      policy['realised'], policy['target'], atol=0.01
    )


def test_groups_quotas_and_a_target_on_the_command_line(tmp_path):
  table = 'client,group\n' + ''.join(f'{k},{"ab"[k % 2]}\n' for k in range(12))
  (tmp_path / 'groups.csv').write_text(table)
  done = programs.run(
    tmp_path,
    *_TINY,
    '--groups=file:groups.csv',
    '--group_quota=a:3..3/b:4..',
    '--target=groups',
    '--avail=always',
  )
  assert (done.returncode, done.stderr) == (0, '')
  config = json.loads((tmp_path / 'run' / 'config.json').read_text())
  assert config['settings']['groups'] == f'file:{tmp_path / "groups.csv"}'
  assert config['settings']['groups_sha256'] == (
    hashlib.sha256(table.encode()).hexdigest()
  )
  clients = pd.read_csv(tmp_path / 'run' / 'clients.csv')
  data = clients['examples'].groupby(clients['client'] % 2).transform('sum')
  np.testing.assert_allclose(clients['p'], clients['examples'] / data / 2)
  rounds = pd.read_csv(tmp_path / 'run' / 'rounds.csv')
  of_first = [
    sum(int(k) % 2 == 0 for k in names.split()) for names in rounds['clients']
  ]
  assert of_first == [3, 0, 3] and rounds['selected'].tolist() == [4, 4, 4]


@pytest.mark.parametrize(
  'flag, message',
  [
    ('--selection=best', 'fixed_policy'),
    ('--protocol=almost', 'protocol must be paper, released'),
    ('--target=fair', "target is 'fair', but it must be data, uniform"),
    ('--target=file:absent.csv', "absent.csv' is not a file"),
    ('--group_quota=..3', 'group_quota or target=groups, but there is no gro'),
    ('--proximal=-1', 'proximal must be at least 0'),
    ('--num_candidates=0', 'num_candidates must be at least 1'),
  ],
)
def test_wrong_flags_end_with_one_sentence(flag, message, tmp_path):
  assert message in programs.one_error(tmp_path, *_TINY, flag)
  assert not (tmp_path / 'run').exists()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
