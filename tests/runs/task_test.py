"""Tests of `task`: the training of settings, its cores and shards."""

import dataclasses
import functools
import pickle
import sys

import numpy as np
import pytest

from f3ast_tff import selection
from f3ast_tff.datasets import federated
from f3ast_tff.datasets import synthetic
from f3ast_tff.learning import shards
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import task as task_lib
from tests import command_lines


@pytest.fixture(name='build')
def _build(task, make_config):
  """Builds the training of settings; changes are keyword arguments."""

  def build(xla=True, **changes):
    model = dataclasses.replace(task.model, xla=xla)
    return task_lib.build(make_config(**changes), task._replace(model=model))

  return build


def _cohort(*clients):
  return selection.Cohort(np.array(clients, int), np.ones(len(clients)))


def _queried(training, clients, round_num):
  losses = training.losses
  return list(map(losses.fill, losses.parts(np.array(clients), round_num)))


def test_cores_are_shared_among_the_clients_that_train_at_a_time(make_config):
  cores = config_lib.num_cores()
  assert make_config(parallel_clients=0).parallel_clients == cores
  assert make_config(parallel_clients=1).threads_per_client == cores
  assert make_config(parallel_clients=2 * cores).threads_per_client == 1


@pytest.mark.parametrize('xla', [False, True])
def test_shards_are_as_many_as_clients_train_at_a_time(xla, build):
  training = build(
    xla, parallel_clients=3, avail='always', clients_per_round='8'
  )
  made = training.inputs(_cohort(*range(8)), 1)
  assert len(made) == 3
  clients = np.concatenate([shard.clients[:, 0] for shard in made])
  assert sorted(clients[clients != shards.NOBODY]) == list(range(8))


def test_with_xla_all_cohorts_have_one_shape_and_else_what_they_need(
  build, task
):
  def shapes(training):
    return {
      tuple(np.shape(leaf) for leaf in shard[1:4])
      for clients in ((), (0,), (1, 5), (2, 3, 4), (0, 6, 7))
      for shard in training.inputs(_cohort(*clients), 1)
    }

  # The three with the most examples, were they all in one shard.
  batches = sorted(-(-task.dataset.num_examples // 20))[-3:]
  assert shapes(build()) == {((3, 3), (3,), (sum(batches), 20))}
  assert len(shapes(build(xla=False))) > 3
  # By steps all clients need the same.
  assert shapes(build(local_steps=4)) == {((3, 3), (3,), (12, 20))}


@pytest.mark.parametrize('protocol', ['paper', 'losses_of_training'])
@pytest.mark.parametrize('xla', [False, True])
def test_candidates_fit_in_whoever_they_are(protocol, xla, build, task):
  training = build(
    xla, algorithm='power_of_choice', protocol=protocol, num_candidates=5
  )
  num_examples = task.dataset.num_examples
  shapes = set()
  for clients in (np.argsort(num_examples)[-5:], [0], np.arange(5)):
    made = _queried(training, clients, 1)
    assert len(made) == 2
    shapes |= {shard.batches.shape for shard in made}
    rows = sum((shard.batches != shards.NO_ROW).sum() for shard in made)
    assert rows == num_examples[clients].sum()
  assert (len(shapes) == 1) == xla


def test_who_is_queried_would_train_on_the_same_batches(build):
  training = build(algorithm='power_of_choice', protocol='losses_of_training')
  queried = _queried(training, [2, 4], 3)
  for one, other in zip(queried, training.inputs(_cohort(2, 4), 3)):
    np.testing.assert_array_equal(one.clients, other.clients)
    np.testing.assert_array_equal(one.batches, other.batches)


def test_settings_that_do_not_fit_the_task_are_told_as_such(task, make_config):
  dataset = task.dataset
  empty = {name: field[:0] for name, field in dataset.train[0].items()}
  dataset = dataclasses.replace(dataset, train=[empty, *dataset.train[1:]])
  with pytest.raises(task_lib.SettingsError, match='client 0 has none'):
    task_lib.build(
      make_config(avail='uneven'), task._replace(dataset=dataset)
    )


def _load(seed=1):
  return synthetic.load(num_clients=8, seed=seed)


def test_a_data_set_is_loaded_again_only_if_it_is_the_same(task):
  dataset = task.dataset
  fingerprint = federated.fingerprint(dataset)
  loaded = task_lib.load_again(_load, fingerprint)
  np.testing.assert_array_equal(loaded.sizes, dataset.num_examples)
  for name, field in loaded.fields.items():
    np.testing.assert_array_equal(
      field, np.concatenate([part[name] for part in dataset.train])
    )
  other = functools.partial(_load, seed=2)
  found = federated.fingerprint(other())
  with pytest.raises(ValueError, match=f'another one .*{found}'):
    task_lib.load_again(other, fingerprint)
  with pytest.raises(ValueError, match='does not say how to load'):
    task_lib.load_again(None, fingerprint)


@pytest.mark.parametrize('protocol', ['paper', 'losses_of_training'])
def test_another_machine_fills_the_same_shards(protocol, build, task):
  training = build(algorithm='power_of_choice', protocol=protocol)
  makers, data = pickle.loads(
    pickle.dumps((training.makers, task_lib.client_examples(task.dataset)))
  )
  there = task_lib.fillers(makers, data)
  cohort, clients = _cohort(1, 4, 6), np.array([0, 5, 7])
  parts = training.cohort_data.parts(cohort, 2)
  _assert_equal(map(there['train'], parts), training.inputs(cohort, 2))
  parts = training.losses.parts(clients, 2)
  _assert_equal(map(there['losses'], parts), _queried(training, clients, 2))


def _assert_equal(some_shards, others):
  some_shards, others = list(some_shards), list(others)
  assert len(some_shards) == len(others) == 2
  for one, other in zip(some_shards, others):
    for name in ('x', 'y'):
      np.testing.assert_array_equal(one.examples[name], other.examples[name])
    for leaf, other_leaf in zip(one[1:], other[1:]):
      np.testing.assert_array_equal(leaf, other_leaf)


# XLA leaves a file for each module that it compiles.
_RUN = """
import pathlib
import sys

import f3ast_tff
from f3ast_tff import communication
from f3ast_tff.datasets import synthetic
from f3ast_tff.models import softmax
import tensorflow_federated as tff

clients = f3ast_tff.ClientArrays(
  synthetic.load(num_clients=8, seed=1).train, batch_size=20
)
constraint = communication.parse('uniform:1,5', 0)
training = f3ast_tff.build_training(
  softmax.build(),
  clients,
  f3ast_tff.build_selector(clients.p, 'always', constraint),
  client_optimizer=tff.learning.optimizers.build_sgdm(0.1),
  num_shards=2,
)
rounds = f3ast_tff.Rounds(training)
for _ in range(2):
  sizes = {rounds.run(t).cohort.clients.size for t in range(1, 6)}
  files = pathlib.Path(sys.argv[1]).glob(
    '*contribute_all*before_optimizations.txt'
  )
  print(len(sizes), len(list(files)))
  training.cohort_data._filled_up_to = None
"""


def test_xla_compiles_the_work_of_clients_once_for_all_cohorts(tmp_path):
  flags = f'--xla_dump_to={tmp_path} --xla_dump_hlo_as_text'
  program = tmp_path / 'program.py'
  program.write_text(_RUN)
  done = command_lines.run(
    str(program), str(tmp_path), tensorflow=True, XLA_FLAGS=flags
  )
  assert done.returncode == 0, done.stderr
  num_sizes, once, num_sizes_again, more = map(int, done.stdout.split())
  assert num_sizes == num_sizes_again > 2  # Cohorts differ.
  assert once == 1
  assert more - once > 2  # Shards of what each needs would be compiled anew.


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
