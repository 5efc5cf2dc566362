"""Tests of `training`: the pieces of a round, and short runs in process."""

import sys
import threading
import time

import numpy as np
import pandas as pd
import psutil
import pytest

from f3ast_tff import config as config_lib
from f3ast_tff import engine
from f3ast_tff import training
from f3ast_tff.datasets import synthetic
from f3ast_tff.models import softmax

_STEP_SIZES = {
  name: config_lib.LearningRates(0.002, rate, 0.001)
  for name, rate in (
    ('sgd', 1.0),
    ('momentum', 0.1),
    ('adam', 0.02),
    ('yogi', 0.02),
    ('adagrad', 0.02),
  )
}


def _config(**changes):
  changes = {'rounds': 4, 'eval_every': 2, 'clients_per_round': '3', **changes}
  return config_lib.Config(**changes).resolve(_STEP_SIZES)


@pytest.mark.parametrize('algorithm', config_lib.ALGORITHMS)
def test_every_algorithm_trains(algorithm, tmp_path):
  config = _config(
    algorithm=algorithm,
    avail='smartphones',
    local_epochs=2,
    rate_init='p',
    beta=1e-6,
  )
  task = engine.Task(synthetic.load(num_clients=8, seed=1), softmax.build())
  training.run(config, task, tmp_path)
  metrics = pd.read_csv(tmp_path / 'metrics.csv')
  rounds = pd.read_csv(tmp_path / 'rounds.csv')
  assert metrics['loss'].iloc[-1] < np.log(10)  # Better than zero weights.
  present = rounds[rounds['selected'] > 0]
  if algorithm in ('fedavg', 'fedadam', 'power_of_choice'):
    np.testing.assert_allclose(present['sum_of_weights'], 1.0, rtol=1e-6)
  else:  # With r(0) = p the weights p / r are 1 each at first: they sum to |S|.
    np.testing.assert_allclose(
      rounds['sum_of_weights'], rounds['selected'], rtol=1e-3
    )


@pytest.mark.parametrize('optimizer', config_lib.SERVER_OPTIMIZERS)
def test_every_server_optimizer_trains(optimizer, tmp_path):
  config = _config(server_optimizer=optimizer, avail='always', proximal=0.1)
  task = engine.Task(synthetic.load(num_clients=8, seed=1), softmax.build())
  training.run(config, task, tmp_path)
  metrics = pd.read_csv(tmp_path / 'metrics.csv')
  assert metrics['loss'].iloc[-1] < np.log(10)


@pytest.mark.parametrize('selection', ['uniform', 'fixed_policy'])
def test_other_selections_train(selection, tmp_path):
  config = _config(selection=selection, avail='home_devices')
  task = engine.Task(synthetic.load(num_clients=8, seed=1), softmax.build())
  training.run(config, task, tmp_path)
  metrics = pd.read_csv(tmp_path / 'metrics.csv')
  assert metrics['loss'].iloc[-1] < np.log(10)


def test_power_of_choice_takes_the_highest_losses(tmp_path):
  # One round from zero weights, at which every loss is ln 10: then a second
  # one, whose cohort must be the clients with the highest losses of all.
  dataset = synthetic.load(num_clients=8, seed=1)
  model = softmax.build()
  task = engine.Task(dataset, model)
  config = _config(algorithm='power_of_choice', avail='always', rounds=1)
  training.run(config, task, tmp_path / 'one')
  weights = np.load(tmp_path / 'one' / 'model.npz')
  kernel, bias = weights['trainable_0'], weights['trainable_1']
  losses = []
  for examples in dataset.train:
    logits = (examples['x'] @ kernel + bias).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    losses.append(-log_p[np.arange(len(log_p)), examples['y']].mean())
  config = _config(algorithm='power_of_choice', avail='always', rounds=2)
  training.run(config, task, tmp_path / 'two')
  rounds = pd.read_csv(tmp_path / 'two' / 'rounds.csv')
  chosen = set(map(int, rounds['clients'].iloc[1].split()))
  assert chosen == set(np.argsort(losses)[-3:])


def _kill_once_there(path, lines, times):
  """Kills the worker each time that the file has so many more lines."""
  this = psutil.Process()

  def watch():
    killed = 0
    while killed < times:
      time.sleep(0.005)
      if not path.exists() or path.read_text().count('\n') < lines:
        continue
      for child in this.children(recursive=True):
        if 'worker_binary' in child.name():
          child.kill()
          killed += 1
      time.sleep(0.5)

  thread = threading.Thread(target=watch, daemon=True)
  thread.start()
  return thread


def test_a_run_whose_worker_is_killed_ends_as_if_it_had_not_been(tmp_path):
  task = engine.Task(synthetic.load(num_clients=8, seed=1), softmax.build())
  config = _config(rounds=40, checkpoint_every=7, algorithm='f3ast_adam')
  training.run(config, task, tmp_path / 'whole')
  (tmp_path / 'killed').mkdir()
  killer = _kill_once_there(tmp_path / 'killed' / 'rounds.csv', 12, times=2)
  training.run(config, task, tmp_path / 'killed')
  killer.join(timeout=10)
  assert not killer.is_alive()  # It did kill.
  for name in ('rounds.csv', 'metrics.csv', 'clients.csv', 'model.npz'):
    assert (tmp_path / 'killed' / name).read_bytes() == (
      tmp_path / 'whole' / name
    ).read_bytes()


def test_more_clients_per_round_than_there_are(tmp_path):
  task = engine.Task(synthetic.load(num_clients=3, seed=1), softmax.build())
  config = _config(clients_per_round='1000000', avail='always', rounds=2)
  training.run(config, task, tmp_path)
  rounds = pd.read_csv(tmp_path / 'rounds.csv')
  assert rounds['selected'].tolist() == [3, 3]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
