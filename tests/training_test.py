"""Tests of `training`: the pieces of a round, and short runs in process."""

import sys

import numpy as np
import pandas as pd
import pytest

from f3ast_tff import config as config_lib
from f3ast_tff import packing
from f3ast_tff import rates
from f3ast_tff import selection
from f3ast_tff import training
from f3ast_tff.datasets import federated
from f3ast_tff.datasets import synthetic
from f3ast_tff.models import softmax

_RATES = config_lib.LearningRates(0.05, 1.0, 0.001)


def _config(**changes):
  changes = {'rounds': 4, 'eval_every': 2, 'clients_per_round': '3', **changes}
  return config_lib.Config(**changes).with_learning_rates(_RATES)


@pytest.mark.parametrize(
  'avail, expected',
  [('smartphones', rates.POSITIVE), ('scarce', rates.UNCORRELATED)],
)
def test_auto_takes_the_form_of_h_that_fits_the_availability(avail, expected):
  p = np.full(5, 0.2)
  environment = training.build_environment(_config(avail=avail), p)
  assert environment.correlation == expected
  forced = _config(avail=avail, correlation='positive')
  assert training.build_environment(forced, p).correlation == rates.POSITIVE


def _dataset(augment=None):
  examples = {
    'x': np.arange(12, dtype=np.float32).reshape(6, 2),
    'y': np.arange(6, dtype=np.int32),
  }
  return federated.FederatedDataset(
    'test', [examples, examples], examples, np.zeros(6, int), augment
  )


def _pack(config, dataset, round_num=1, clients=(0,)):
  packer = training._Packer(config, dataset, num_places=3)
  cohort = selection.Cohort(np.array(clients), np.full(len(clients), 0.5))
  return packer, packer(cohort, round_num)


def _records(packer, packed):
  rows = np.ascontiguousarray(packed[1:])
  return rows.view(packer.layout.dtype)[:, 0]


def test_packer_shuffles_by_seed_round_and_client_and_fills_places():
  config = _config(batch_size=4)
  packer, (first, *absent) = _pack(config, _dataset())
  records = _records(packer, first)[:6]
  assert sorted(records['y']) == [0, 1, 2, 3, 4, 5]
  np.testing.assert_array_equal(records['x'][:, 0], 2 * records['y'])
  assert len(absent) == 2
  for place in absent:
    np.testing.assert_array_equal(place, packing.absent(packer.layout, 4))
  again = _pack(config, _dataset())[1][0]
  np.testing.assert_array_equal(first, again)
  for other in (
    _pack(config, _dataset(), round_num=2)[1][0],
    _pack(config, _dataset(), clients=(1,))[1][0],
    _pack(_config(batch_size=4, seed=1), _dataset())[1][0],
  ):
    assert (first[1:] != other[1:]).any()


def test_packer_augments_anew_in_every_epoch_round_and_client():
  def augment(examples, rng):
    noise = rng.integers(1 << 40)
    return {**examples, 'x': np.full((6, 1), noise, np.int64)}

  config = _config(batch_size=4, local_epochs=2)
  dataset = _dataset(augment)
  packer, (packed, *_) = _pack(config, dataset)
  records = _records(packer, packed)[:12]
  # Two passes, one after the other, each with its own draw.
  assert sorted(records['y'][:6]) == sorted(records['y'][6:]) == list(range(6))
  epochs = [set(records['x'][:6, 0]), set(records['x'][6:, 0])]
  assert [len(epoch) for epoch in epochs] == [1, 1] and epochs[0] != epochs[1]
  np.testing.assert_array_equal(packed, _pack(config, dataset)[1][0])
  other_round = _records(*_unpack(_pack(config, dataset, round_num=2)))
  assert set(other_round['x'][:6, 0]) != epochs[0]


def _unpack(result):
  packer, (packed, *_) = result
  return packer, packed


@pytest.mark.parametrize('algorithm', config_lib.ALGORITHMS)
def test_every_algorithm_trains(algorithm, tmp_path):
  config = _config(
    algorithm=algorithm,
    avail='smartphones',
    local_epochs=2,
    rate_init='p',
    beta=1e-6,
    client_learning_rate=0.002,
    server_learning_rate=0.02 if algorithm.endswith('adam') else 1.0,
  )
  task = training.Task(synthetic.load(num_clients=8, seed=1), softmax.build())
  training.run(config, task, tmp_path)
  metrics = pd.read_csv(tmp_path / 'metrics.csv')
  rounds = pd.read_csv(tmp_path / 'rounds.csv')
  assert metrics['loss'].iloc[-1] < np.log(10)  # Better than zero weights.
  present = rounds[rounds['selected'] > 0]
  if algorithm in ('fedavg', 'fedadam'):
    np.testing.assert_allclose(present['sum_of_weights'], 1.0, rtol=1e-6)
  else:  # With r(0) = p the weights p / r are 1 each at first: they sum to |S|.
    np.testing.assert_allclose(
      rounds['sum_of_weights'], rounds['selected'], rtol=1e-3
    )


def test_more_clients_per_round_than_there_are(tmp_path):
  task = training.Task(synthetic.load(num_clients=3, seed=1), softmax.build())
  config = _config(clients_per_round='1000000', avail='always', rounds=2)
  training.run(config, task, tmp_path)
  rounds = pd.read_csv(tmp_path / 'rounds.csv')
  assert rounds['selected'].tolist() == [3, 3]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
