"""Tests of `engine`: cores and shards of a run."""

import dataclasses
import functools
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from f3ast_tff import selection
from f3ast_tff.datasets import federated
from f3ast_tff.datasets import synthetic
from f3ast_tff.learning import engine
from f3ast_tff.learning import shards
from f3ast_tff.models import softmax
from f3ast_tff.runs import config as config_lib

_STEP_SIZES = {
  name: config_lib.LearningRates(0.05, 0.1, 0.001)
  for name in config_lib.SERVER_OPTIMIZERS
}
_DATA = synthetic.load(num_clients=8, seed=1)
_MODEL = softmax.build()


def _config(**changes):
  changes = {'clients_per_round': '3', 'parallel_clients': 2, **changes}
  return config_lib.Config(**changes).resolve(_STEP_SIZES)


def _build(xla=True, **changes):
  model = dataclasses.replace(_MODEL, xla=xla)
  return engine.build(_config(**changes), engine.Task(_DATA, model))


def _cohort(*clients):
  return selection.Cohort(np.array(clients, int), np.ones(len(clients)))


def _asked(built, clients, round_num):
  return list(map(built.asked.fill, built.parts_asked(clients, round_num)))


def test_cores_are_shared_among_the_clients_that_train_at_a_time():
  cores = config_lib.num_cores()
  assert _config(parallel_clients=0).parallel_clients == cores
  assert _config(parallel_clients=1).threads_per_client == cores
  assert _config(parallel_clients=2 * cores).threads_per_client == 1


@pytest.mark.parametrize('xla', [False, True])
def test_shards_are_as_many_as_clients_train_at_a_time(xla):
  built = _build(
    xla, parallel_clients=3, avail='always', clients_per_round='8'
  )
  made = built.shards(_cohort(*range(8)), 1)
  assert len(made) == 3
  clients = np.concatenate([shard.clients[:, 0] for shard in made])
  assert sorted(clients[clients != shards.NOBODY]) == list(range(8))


def test_with_xla_all_cohorts_have_one_shape_and_else_what_they_need():
  def shapes(built):
    return {
      tuple(np.shape(leaf) for leaf in shard[1:])
      for clients in ((), (0,), (1, 5), (2, 3, 4), (0, 6, 7))
      for shard in built.shards(_cohort(*clients), 1)
    }

  # The three with the most examples, were they all in one shard.
  batches = sorted(-(-_DATA.num_examples // 20))[-3:]
  assert shapes(_build()) == {((3, 3), (3,), (sum(batches), 20))}
  assert len(shapes(_build(xla=False))) > 3
  # By steps all clients need the same.
  assert shapes(_build(local_steps=4)) == {((3, 3), (3,), (12, 20))}


@pytest.mark.parametrize('protocol', ['paper', 'losses_of_training'])
@pytest.mark.parametrize('xla', [False, True])
def test_candidates_fit_in_whoever_they_are(protocol, xla):
  built = _build(
    xla, algorithm='power_of_choice', protocol=protocol, num_candidates=5
  )
  assert built.ask is not None
  largest = np.argsort(_DATA.num_examples)[-5:]
  shapes = set()
  for clients in (largest, np.array([0]), np.arange(5)):
    made = _asked(built, clients, 1)
    assert len(made) == 2
    shapes |= {shard.batches.shape for shard in made}
    rows = sum((shard.batches != shards.NO_ROW).sum() for shard in made)
    assert rows == _DATA.num_examples[clients].sum()
  assert (len(shapes) == 1) == xla


def test_who_is_asked_would_train_on_the_same_batches():
  built = _build(algorithm='power_of_choice', protocol='losses_of_training')
  asked = _asked(built, np.array([2, 4]), 3)
  trained = built.shards(_cohort(2, 4), 3)
  for one, other in zip(asked, trained):
    np.testing.assert_array_equal(one.clients, other.clients)
    np.testing.assert_array_equal(one.batches, other.batches)


def test_a_policy_that_needs_no_losses_has_nobody_asked():
  built = _build()
  assert built.ask is None and built.asked is None
  assert list(built.makers) == ['train']


def _load(seed=1):
  return synthetic.load(num_clients=8, seed=seed)


def test_a_data_set_is_loaded_again_only_if_it_is_the_same():
  fingerprint = federated.fingerprint(_DATA)
  loaded = engine.load_again(_load, fingerprint)
  np.testing.assert_array_equal(loaded.sizes, _DATA.num_examples)
  for name, field in loaded.fields.items():
    np.testing.assert_array_equal(
      field, np.concatenate([part[name] for part in _DATA.train])
    )
  other = functools.partial(_load, seed=2)
  found = federated.fingerprint(other())
  with pytest.raises(ValueError, match=f'another one .*{found}'):
    engine.load_again(other, fingerprint)
  with pytest.raises(ValueError, match='does not say how to load'):
    engine.load_again(None, fingerprint)


@pytest.mark.parametrize('protocol', ['paper', 'losses_of_training'])
def test_another_machine_fills_the_same_shards(protocol):
  settings = {'algorithm': 'power_of_choice', 'protocol': protocol}
  here = _build(**settings)
  driver = engine.build(
    _config(**settings), engine.Task(_DATA, _MODEL), trains_here=False
  )
  makers, data = pickle.loads(
    pickle.dumps((driver.makers, engine.client_examples(_DATA)))
  )
  there = engine.fillers(makers, True, data)
  parts = driver.shards.parts(_cohort(1, 4, 6), 2)
  _assert_equal(
    map(there['train'], parts), here.shards(_cohort(1, 4, 6), 2)
  )
  clients = np.array([0, 5, 7])
  parts = driver.parts_asked(clients, 2)
  _assert_equal(map(there['ask'], parts), _asked(here, clients, 2))


def _assert_equal(some_shards, others):
  some_shards, others = list(some_shards), list(others)
  assert len(some_shards) == len(others) == 2
  for one, other in zip(some_shards, others):
    for name in ('x', 'y'):
      np.testing.assert_array_equal(one.examples[name], other.examples[name])
    for leaf, other_leaf in zip(one[1:], other[1:]):
      np.testing.assert_array_equal(leaf, other_leaf)


# XLA leaves a file for each module that it compiles.
_PLAY = """
import pathlib
import sys
from f3ast_tff.execution import server as server_lib
from tests import engine_test

for is_one_size in (True, False):
  built = engine_test._build(clients_per_round='uniform:1,5', avail='always')
  if not is_one_size:
    built.shards._filled_up_to = None
  server = server_lib.Server(built)
  sizes = {server.play(t).cohort.clients.size for t in range(1, 9)}
  files = pathlib.Path(sys.argv[1]).glob(
    '*contribute_all*before_optimizations.txt'
  )
  print(len(sizes), len(list(files)))
"""


def test_xla_compiles_the_work_of_clients_once_for_all_cohorts(tmp_path):
  flags = f'--xla_dump_to={tmp_path} --xla_dump_hlo_as_text'
  done = subprocess.run(
    [sys.executable, '-c', _PLAY, str(tmp_path)],
    env={**os.environ, 'XLA_FLAGS': flags},
    stdout=subprocess.PIPE,
    text=True,
    check=True,
    timeout=300,
  )
  num_sizes, once, num_sizes_again, more = map(int, done.stdout.split())
  assert num_sizes == num_sizes_again > 2  # Cohorts differ.
  assert once == 1
  assert more - once > 4  # Shards of what each needs would be compiled anew.


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
