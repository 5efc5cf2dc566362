"""Tests of `client_vectors`: runs in memory and in files are the same."""

import collections
import dataclasses
import signal
import subprocess
import sys
import types

import numpy as np
import pytest

from f3ast_tff.runs import checkpoint
from f3ast_tff.runs import client_vectors
from f3ast_tff.runs import loop
from f3ast_tff.runs import task as task_lib
from tests import command_lines
from tests import slow

_FILES = ('rounds.csv', 'metrics.csv', 'clients.csv', 'model.npz')
_SAME = {'rounds': 6, 'checkpoint_every': 2, 'client_learning_rate': 0.002}


def _assert_same(one, other):
  for name in _FILES:
    assert (one / name).read_bytes() == (other / name).read_bytes(), name


@pytest.mark.parametrize(
  'algorithm', slow.but(['scaffold'], ['scaffold', 'mifa', 'fedawe'])
)
def test_memory_and_files_give_the_same(
  algorithm, task, make_config, tmp_path, capsys
):
  for place in ('memory', 'files'):
    config = make_config(algorithm=algorithm, vectors_in=place, **_SAME)
    loop.run(config, task, tmp_path / place)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert '8 x 610 numbers, 19.5 kB in ' + {
      'memory': 'memory, up to 117.1 kB with copies.', 'files': 'vectors/.'
    }[place] in ' '.join(lines)
  _assert_same(tmp_path / 'memory', tmp_path / 'files')
  assert list((tmp_path / 'files' / 'vectors').glob('*.npy'))


def test_an_update_that_is_not_finite_changes_no_vector(
  task, make_config, tmp_path
):
  train = [dict(examples) for examples in task.dataset.train]
  train[2]['x'] = np.full_like(train[2]['x'], np.nan)
  bad = task._replace(dataset=dataclasses.replace(task.dataset, train=train))
  for place in ('memory', 'files'):
    config = make_config(
      algorithm='mifa',
      vectors_in=place,
      avail='always',
      **{**_SAME, 'clients_per_round': '8'},
    )
    loop.run(config, bad, tmp_path / place)
  _assert_same(tmp_path / 'memory', tmp_path / 'files')
  files = tmp_path / 'files' / 'vectors'
  assert not list(files.glob('client_2_*'))
  found = collections.Counter(p.name.split('_')[1] for p in files.iterdir())
  assert len(found) == 7
  path = tmp_path / 'memory' / 'checkpoints' / 'round_6.npz'
  with np.load(path) as arrays:
    (table,) = (a for a in arrays.values() if a.shape == (8, 610))
  assert np.isfinite(table).all()
  assert not table[2].any() and table[[0, 1, 3, 4, 5, 6, 7]].any(axis=1).all()


@pytest.mark.parametrize(
  'num_clients, said',
  [
    (100, '100 x 1,000 numbers, 400.0 kB in memory, up to 2.4 MB with copies.'),
    (25_000, '25,000 x 1,000 numbers, 100.0 MB in memory, up to 600.0 MB'),
    (25_001, '25,001 x 1,000 numbers, 100.0 MB in vectors/.'),
    (500_000, '500,000 x 1,000 numbers, 2.0 GB in vectors/.'),
  ],
)
def test_large_vectors_are_in_files(
  num_clients, said, make_config, tmp_path, capsys, monkeypatch
):
  usage = collections.namedtuple('usage', 'free')
  monkeypatch.setattr(
    client_vectors.shutil, 'disk_usage', lambda folder: usage(10**12)
  )
  # Of a task, its number of clients and the size of its model are looked at.
  task = types.SimpleNamespace(
    dataset=types.SimpleNamespace(train=range(num_clients)),
    model=types.SimpleNamespace(
      functional=types.SimpleNamespace(
        initial_weights=((np.zeros([10, 99]), np.zeros(10)), ())
      )
    ),
  )
  config = make_config(algorithm='mifa', **_SAME)
  found = client_vectors.begin(config, task, tmp_path)
  printed = ' '.join(capsys.readouterr().out.split())
  assert said in printed
  assert (found == tmp_path / 'vectors') == ('in vectors/' in printed)


def test_no_room_is_one_sentence(task, make_config, tmp_path, monkeypatch):
  usage = collections.namedtuple('usage', 'free')
  monkeypatch.setattr(
    client_vectors.shutil, 'disk_usage', lambda folder: usage(1000)
  )
  config = make_config(algorithm='mifa', vectors_in='files', **_SAME)
  with pytest.raises(task_lib.SettingsError, match='where 1.0 kB are free'):
    loop.run(config, task, tmp_path)


# Dies after the last round: before its checkpoint, which no file of that round
# is in then, or after it, when files of before are there that none needs.
_DIES = """
import os, signal, sys
from f3ast_tff.runs import checkpoint
save, is_after = checkpoint.save, sys.argv.pop(1) == 'after'
def die_in_round_6(folder, round_num, *arguments):
  if round_num < 6 or is_after:
    save(folder, round_num, *arguments)
  if round_num == 6:
    os.kill(os.getpid(), signal.SIGKILL)
checkpoint.save = die_in_round_6
from experiments import synthetic
synthetic.main()
"""


# `python -m tests.faults --every_method` kills such runs at other moments.
@pytest.mark.slow
@pytest.mark.parametrize(
  'when, saved', [('before', [2, 4]), ('after', [4, 6])]
)
def test_a_killed_run_resumes_exactly(when, saved, tmp_path):
  flags = (
    '--num_clients=8',
    '--rounds=6',
    '--checkpoint_every=2',
    '--algorithm=scaffold',
    '--vectors_in=files',
  )
  killed, whole = tmp_path / 'killed', tmp_path / 'whole'
  done = subprocess.run(
    [sys.executable, '-c', _DIES, when, *flags, f'--output_dir={killed}']
  )
  assert done.returncode == -signal.SIGKILL
  assert checkpoint.rounds(killed / 'checkpoints') == saved
  assert list((killed / 'vectors').glob('*_round_6.npy'))
  for folder in (killed, whole):
    done = command_lines.run(
      'experiments.synthetic',
      *flags,
      '--resume',
      f'--output_dir={folder}',
      tensorflow=True,
    )
    assert done.returncode == 0, done.stderr
  _assert_same(killed, whole)
  there, expected = (
    sorted(path.name for path in (folder / 'vectors').iterdir())
    for folder in (killed, whole)
  )
  assert there == expected


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
