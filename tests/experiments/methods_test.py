"""Parts of methods, protocols and groups through the real command line.

Each run is tiny. Every method trains in `loop_test`.
"""

import hashlib
import json
import sys

import numpy as np
import pandas as pd
import pytest

from tests import programs

_TINY = (
  'experiments.synthetic',
  '--num_clients=12',
  '--rounds=3',
  '--clients_per_round=4',
  '--eval_every=3',
  '--output_dir=run',
)


@pytest.mark.parametrize(
  'flags',
  [
    (
      '--selection=fixed_policy',
      '--avail=smartphones',
      '--server_optimizer=yogi',
      '--proximal=0.5',
    ),
    pytest.param(
      ('--algorithm=power_of_choice', '--protocol=released'),
      marks=pytest.mark.slow,
    ),
    ('--method=scaffold', '--rate_step=annealed:10', '--sum_cap=1'),
    pytest.param(
      ('--algorithm=fedadam', '--protocol=released', '--avail=smartphones'),
      marks=pytest.mark.slow,
    ),
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
    ('--method=afl:inf', 'method must be afl:NUMBER'),
    ('--rate_step=annealed:inf', 'step of the rates must be constant'),
    ('--proximal=-1', 'proximal must be at least 0'),
    ('--num_candidates=0', 'num_candidates must be at least 1'),
  ],
)
def test_wrong_flags_end_with_one_sentence(flag, message, tmp_path):
  assert message in programs.one_error(tmp_path, *_TINY, flag)
  assert not (tmp_path / 'run').exists()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
