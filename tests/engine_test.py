"""Tests of `engine`: cores and arrays of a run."""

import sys

import numpy as np
import pytest

from f3ast_tff import config as config_lib
from f3ast_tff import engine
from f3ast_tff import selection
from f3ast_tff.datasets import synthetic
from f3ast_tff.models import softmax

_STEP_SIZES = {
  name: config_lib.LearningRates(0.05, 0.1, 0.001)
  for name in config_lib.SERVER_OPTIMIZERS
}
_DATA = synthetic.load(num_clients=8, seed=1)
_MODEL = softmax.build()


def _config(**changes):
  changes = {'clients_per_round': '3', 'parallel_clients': 2, **changes}
  return config_lib.Config(**changes).resolve(_STEP_SIZES)


def _num_clients(array):
  return int(np.frombuffer(array[0, :4].tobytes(), '<i4')[0])


def test_cores_are_shared_among_the_clients_that_train_at_a_time():
  cores = config_lib.num_cores()
  assert _config(parallel_clients=0).parallel_clients == cores
  assert engine.threads(_config(parallel_clients=1)) == cores
  assert engine.threads(_config(parallel_clients=2 * cores)) == 1


def test_arrays_are_as_many_as_clients_train_at_a_time():
  built = engine.build(
    _config(parallel_clients=3, avail='always'), engine.Task(_DATA, _MODEL)
  )
  cohort = selection.Cohort(np.arange(8), np.full(8, 1 / 8))
  arrays = built.packer(cohort, 1)
  assert len(arrays) == 3
  assert sum(map(_num_clients, arrays)) == 8


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
