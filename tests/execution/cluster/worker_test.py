"""Tests of `cluster.worker`, in this process and without Ray."""

import os
import pickle
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff.execution import executor
from f3ast_tff.execution.cluster import worker as worker_lib

_VERSIONS = {'numpy': '1.2.3'}


@pytest.fixture(scope='module', name='work')
def _work():
  """A client adds x s, unless x is 1000 or more."""

  @tff.tensorflow.computation(np.int64, np.int64)
  def multiply(x, s):
    with tf.control_dependencies([tf.debugging.assert_less(x, np.int64(1000))]):
      return x * s

  @tff.tensorflow.computation(np.int64, np.int64)
  def add(s, total):
    return s + total

  @tff.federated_computation(
    tff.types.FederatedType(np.int64, tff.SERVER),
    tff.types.FederatedType(np.int64, tff.CLIENTS),
  )
  def round_(state, clients):
    s = tff.federated_broadcast(state)
    total = tff.federated_sum(tff.federated_map(multiply, (clients, s)))
    return tff.federated_map(add, (state, total)), total

  works = []

  def keep(work):
    works.append(work)
    return executor.Threads(work, 1)

  executor.Executor(round_, 1, keep)
  return works[0]


def _fill(data):
  return {'train': lambda place: data[place]}


def _job(work, load):
  return worker_lib.Job({'train': work}, _fill, load, lambda: _VERSIONS)


def _add(worker, s, *places):
  (total,) = worker.add('train', places, [np.int64(s)])
  assert isinstance(total, (np.ndarray, np.integer))  # Quick to send.
  return total


def test_a_worker_that_loads_its_data_adds_by_hand(work):
  worker = worker_lib.Worker({}, 2)
  opened = worker.open(_job(pickle.loads(pickle.dumps(work)), lambda: [5, 7]))
  assert opened == (_VERSIONS, worker_lib.cpu(), None, os.getpid())
  # More calls than it has threads, lest one is not given back.
  assert [_add(worker, 3, place) for place in (0, 1, 1, 0)] == [15, 21, 21, 15]
  assert _add(worker, -1, 1) == -7
  # A sum of several clients, and of none.
  assert (_add(worker, 3, 0, 1, 1), _add(worker, 3)) == (57, 0)
  assert worker.ping() is None


@pytest.mark.parametrize(
  'error, why', [(OSError('no such file'), 'no such file'), (KeyError(), 'Key')]
)
def test_a_worker_without_data_says_why_and_takes_what_is_sent(
  error, why, work
):
  def load():
    raise error

  worker = worker_lib.Worker({}, 1)
  opened = worker.open(_job(work, load))
  assert opened.why_no_data.startswith(why)
  worker.take([4])
  assert _add(worker, 10, 0) == 40


def test_a_client_that_fails_is_told_and_the_next_one_trains(work):
  worker = worker_lib.Worker({}, 1)
  worker.open(_job(work, lambda: [1000, 2]))
  for _ in range(3):
    failure = worker.add('train', [1, 0], [np.int64(3)])
    assert isinstance(failure, worker_lib.Failure)
    assert 'assert' in failure.message.lower()
    assert _add(worker, 3, 1) == 6


def test_the_environment_is_that_of_the_run(monkeypatch):
  monkeypatch.setenv('TF_OF_A_TEST', 'before')
  worker_lib.Worker({'TF_OF_A_TEST': 'after'}, 1)
  assert os.environ['TF_OF_A_TEST'] == 'after'


def test_the_kind_of_cpu_is_one_of_those_that_decide_last_bits():
  known = 'avx512_bf16', 'avx512f', 'fma', 'avx2', 'avx', 'none of AVX'
  assert worker_lib.cpu() in known


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
