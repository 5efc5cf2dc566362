"""Tests of `training`: the pieces of a round, and short runs in process."""

import dataclasses
import sys

import numpy as np
import pandas as pd
import pytest

from f3ast_tff.datasets import synthetic
from f3ast_tff.execution import server
from f3ast_tff.learning import engine
from f3ast_tff.models import softmax
from f3ast_tff.runs import checkpoint
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import divergence
from f3ast_tff.runs import loop
from f3ast_tff.runs import run_directory

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
  loop.run(config, task, tmp_path)
  metrics = pd.read_csv(tmp_path / 'metrics.csv')
  rounds = pd.read_csv(tmp_path / 'rounds.csv')
  assert metrics['loss'].iloc[-1] < np.log(10)  # Better than zero weights.
  present = rounds[rounds['selected'] > 0]
  if not algorithm.startswith('f3ast'):
    np.testing.assert_allclose(present['sum_of_weights'], 1.0, rtol=1e-6)
  else:  # With r(0) = p the weights p / r are 1 each at first: they sum to |S|.
    np.testing.assert_allclose(
      rounds['sum_of_weights'], rounds['selected'], rtol=1e-3
    )


@pytest.mark.parametrize('optimizer', config_lib.SERVER_OPTIMIZERS)
def test_every_server_optimizer_trains(optimizer, tmp_path):
  config = _config(server_optimizer=optimizer, avail='always', proximal=0.1)
  task = engine.Task(synthetic.load(num_clients=8, seed=1), softmax.build())
  loop.run(config, task, tmp_path)
  metrics = pd.read_csv(tmp_path / 'metrics.csv')
  # What each of them computes is in server_test.
  assert metrics['loss'].iloc[-1] < np.log(10)


def test_settings_that_do_not_fit_the_task_are_told_as_such(tmp_path):
  dataset = synthetic.load(num_clients=8, seed=1)
  empty = {name: field[:0] for name, field in dataset.train[0].items()}
  dataset = dataclasses.replace(dataset, train=[empty, *dataset.train[1:]])
  task = engine.Task(dataset, softmax.build())
  with pytest.raises(engine.SettingsError, match='client 0 has none'):
    loop.run(_config(avail='uneven'), task, tmp_path)


@pytest.mark.parametrize('selection', ['uniform', 'fixed_policy'])
def test_other_selections_train(selection, tmp_path):
  config = _config(selection=selection, avail='home_devices')
  task = engine.Task(synthetic.load(num_clients=8, seed=1), softmax.build())
  loop.run(config, task, tmp_path)
  metrics = pd.read_csv(tmp_path / 'metrics.csv')
  assert metrics['loss'].iloc[-1] < np.log(10)


def test_power_of_choice_takes_the_highest_losses(tmp_path):
  # One round from zero weights, at which every loss is ln 10: then a second
  # one, whose cohort must be the clients with the highest losses of all.
  dataset = synthetic.load(num_clients=8, seed=1)
  model = softmax.build()
  task = engine.Task(dataset, model)
  config = _config(algorithm='power_of_choice', avail='always', rounds=1)
  loop.run(config, task, tmp_path / 'one')
  weights = np.load(tmp_path / 'one' / 'model.npz')
  kernel, bias = weights['trainable_0'], weights['trainable_1']
  losses = []
  for examples in dataset.train:
    logits = (examples['x'] @ kernel + bias).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    losses.append(-log_p[np.arange(len(log_p)), examples['y']].mean())
  config = _config(algorithm='power_of_choice', avail='always', rounds=2)
  loop.run(config, task, tmp_path / 'two')
  rounds = pd.read_csv(tmp_path / 'two' / 'rounds.csv')
  chosen = set(map(int, rounds['clients'].iloc[1].split()))
  assert chosen == set(np.argsort(losses)[-3:])


def test_a_run_that_is_interrupted_goes_on_as_if_it_had_not_been(
  tmp_path, monkeypatch
):
  task = engine.Task(synthetic.load(num_clients=8, seed=1), softmax.build())
  # Adam, whose state has to come back, too; each time has a round to replay.
  config = _config(rounds=8, checkpoint_every=2, algorithm='f3ast_adam')
  loop.run(config, task, tmp_path / 'whole')
  left, play = [4, 7], server.Server.play

  def interrupted(self, round_num):
    played = play(self, round_num)
    if left and round_num == left[0]:
      left.pop(0)
      raise KeyboardInterrupt
    return played

  monkeypatch.setattr(server.Server, 'play', interrupted)
  while left:
    with pytest.raises(KeyboardInterrupt):
      loop.run(config, task, tmp_path / 'again')
  loop.run(config, task, tmp_path / 'again')
  for name in ('rounds.csv', 'metrics.csv', 'clients.csv', 'model.npz'):
    assert (tmp_path / 'again' / name).read_bytes() == (
      tmp_path / 'whole' / name
    ).read_bytes()


def test_a_round_that_cannot_be_computed_ends_a_run(tmp_path, monkeypatch):
  def fail(self, round_num):
    raise server.RoundError(f'Round {round_num} cannot be computed.')

  task = engine.Task(synthetic.load(num_clients=8, seed=1), softmax.build())
  monkeypatch.setattr(server.Server, 'play', fail)
  with pytest.raises(server.RoundError, match='Round 1'):
    loop.run(_config(), task, tmp_path)


def _softmax_gradient(examples):
  """The gradient of the mean loss at weights of zero, in plain NumPy."""
  x, y = examples['x'].astype(np.float64), examples['y']
  error = np.full((len(y), 10), 0.1)
  error[np.arange(len(y)), y] -= 1
  return x.T @ error / len(y), error.mean(axis=0)


def _bad_clients():
  """Clients: good, empty, NaN, one that fails, one example, infinite."""
  dataset = synthetic.load(num_clients=6, seed=1)
  train = [dict(examples) for examples in dataset.train]
  train[1] = {name: array[:0] for name, array in train[1].items()}
  train[2]['x'] = np.full_like(train[2]['x'], np.nan)
  train[3]['y'] = np.full_like(train[3]['y'], 77)
  train[4] = {name: array[:1] for name, array in train[4].items()}
  train[5]['x'] = np.full_like(train[5]['x'], np.inf)
  return dataclasses.replace(dataset, train=train)


def _softmax(xla):
  # With XLA a label that there is not makes a loss of NaN, else an error.
  return dataclasses.replace(softmax.build(), xla=xla)


@pytest.mark.parametrize('xla', [False, True])
def test_bad_clients_are_named_and_left_out_and_the_others_count_as_ever(
  xla, tmp_path, caplog
):
  dataset = _bad_clients()
  config = _config(
    avail='always',
    clients_per_round='6',
    rounds=1,
    batch_size=int(dataset.num_examples.max()),  # One step each.
  )
  loop.run(config, engine.Task(dataset, _softmax(xla)), tmp_path)
  (row,) = pd.read_csv(tmp_path / 'rounds.csv').to_dict('records')
  assert (row['selected'], row['left_out']) == (6, 4)
  # By hand: one step of clients 0 and 4, with weights p / r(1).
  p = dataset.num_examples / dataset.num_examples.sum()
  r = 0.999 * np.minimum(1, 6 * p) + 0.001
  kernel, bias = 0, 0
  for k in (0, 4):
    of_kernel, of_bias = _softmax_gradient(dataset.train[k])
    kernel = kernel - p[k] / r[k] * 0.002 * of_kernel
    bias = bias - p[k] / r[k] * 0.002 * of_bias
  model = np.load(tmp_path / 'model.npz')
  np.testing.assert_allclose(model['trainable_0'], kernel, atol=1e-7)
  np.testing.assert_allclose(model['trainable_1'], bias, atol=1e-7)
  np.testing.assert_allclose(model['rates'], r, rtol=1e-12)
  assert row['sum_of_weights'] == pytest.approx((p / r)[[0, 4]].sum(), 1e-6)
  log = '\n'.join(caplog.messages)
  assert 'Round 1 leaves out clients without examples: 1.' in log
  not_finite = '2, 3, 5' if xla else '2, 5'
  assert f'clients whose update is not finite: {not_finite}. ' in log
  assert ('clients whose training fails: 3. ' in log) == (not xla)


@pytest.mark.parametrize('xla', [False, True])
def test_power_of_choice_ranks_a_client_that_fails_below_all(xla, tmp_path):
  config = _config(
    algorithm='power_of_choice',
    avail='always',
    clients_per_round='1',
    rounds=3,
  )
  task = engine.Task(_bad_clients(), _softmax(xla))
  loop.run(config, task, tmp_path)
  rounds = pd.read_csv(tmp_path / 'rounds.csv')
  assert not rounds['clients'].isin([2, 3, 5]).any()


def test_a_run_that_diverges_stops_with_its_last_good_state(tmp_path):
  task = engine.Task(synthetic.load(num_clients=8, seed=1), softmax.build())
  config = _config(
    rounds=100,
    eval_every=100,
    checkpoint_every=1,
    client_learning_rate=1e38,
    avail='always',
  )
  with pytest.raises(divergence.DivergenceError) as caught:
    loop.run(config, task, tmp_path)
  message = str(caught.value)
  assert 'lower --client_learning_rate (it is 1e+38)' in message
  played = len(pd.read_csv(tmp_path / 'rounds.csv'))
  assert played <= 20
  for round_num in checkpoint.rounds(tmp_path / 'checkpoints'):
    path = tmp_path / 'checkpoints' / f'round_{round_num}.npz'
    with np.load(path) as arrays:
      for name in arrays.files:
        assert np.isfinite(arrays[name]).all()
  # And the user may insist.
  config = dataclasses.replace(config, rounds=played + 3)
  loop.run(config, task, tmp_path / 'on', stop_if_diverged=False)
  assert len(pd.read_csv(tmp_path / 'on' / 'rounds.csv')) == played + 3


def test_a_run_at_whose_clients_training_fails_stops(tmp_path, caplog):
  dataset = synthetic.load(num_clients=4, seed=1)
  train = [
    {**examples, 'y': np.full_like(examples['y'], 77)}
    for examples in dataset.train
  ]
  dataset = dataclasses.replace(dataset, train=train)
  config = _config(rounds=30, eval_every=30, avail='always')
  with pytest.raises(divergence.DivergenceError) as caught:
    loop.run(config, engine.Task(dataset, _softmax(xla=False)), tmp_path)
  message = str(caught.value)
  assert 'in round 10 (no client gave a finite update' in message
  assert any('whose training fails' in line for line in caplog.messages)
  assert 'look at their data' in message and 'lower --' not in message


def test_a_test_loss_that_is_not_finite_stops_a_run(tmp_path):
  dataset = synthetic.load(num_clients=8, seed=1)
  test = {**dataset.test, 'x': np.full_like(dataset.test['x'], np.nan)}
  dataset = dataclasses.replace(dataset, test=test)
  config = _config(rounds=10, eval_every=4, checkpoint_every=3)
  with pytest.raises(divergence.DivergenceError) as caught:
    loop.run(config, engine.Task(dataset, softmax.build()), tmp_path)
  message = str(caught.value)
  assert 'in round 4 (the test loss is nan)' in message
  assert 'The last good state, after round 3, is in' in message


def test_other_data_are_refused(tmp_path):
  config, model = _config(rounds=2), softmax.build()
  data = synthetic.load(num_clients=8, seed=1)
  loop.run(config, engine.Task(data, model), tmp_path)
  before = (tmp_path / 'rounds.csv').read_bytes()
  data.train[3]['x'][0, 0] += 1
  with pytest.raises(run_directory.RunDirectoryError, match='the data set is'):
    loop.run(config, engine.Task(data, model), tmp_path)
  assert (tmp_path / 'rounds.csv').read_bytes() == before


def test_more_clients_per_round_than_there_are(tmp_path):
  task = engine.Task(synthetic.load(num_clients=3, seed=1), softmax.build())
  config = _config(clients_per_round='1000000', avail='always', rounds=2)
  loop.run(config, task, tmp_path)
  rounds = pd.read_csv(tmp_path / 'rounds.csv')
  assert rounds['selected'].tolist() == [3, 3]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
