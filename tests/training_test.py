"""Tests of `training`: the pieces of a round, and short runs in process."""

import sys

import numpy as np
import pandas as pd
import pytest

from f3ast_tff import config as config_lib
from f3ast_tff import rates
from f3ast_tff import training
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
