"""Tests of `server`: the rounds of a run."""

import sys

import numpy as np
import pytest
from scipy import special
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import randomness
from f3ast_tff import selection
from f3ast_tff.datasets import synthetic
from f3ast_tff.execution import server as server_lib
from f3ast_tff.learning import client_optimizers
from f3ast_tff.learning import engine
from f3ast_tff.learning import process as process_lib
from f3ast_tff.learning import shard_training
from f3ast_tff.learning import examples as examples_lib
from f3ast_tff.learning import shards
from f3ast_tff.models import softmax
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import environment

_STEP_SIZES = {
  name: config_lib.LearningRates(0.05, 0.1, 0.001)
  for name in config_lib.SERVER_OPTIMIZERS
}
_DATA = synthetic.load(num_clients=8, seed=1)
_MODEL = softmax.build()


def _config(**changes):
  changes = {'clients_per_round': '3', 'parallel_clients': 2, **changes}
  return config_lib.Config(**changes).resolve(_STEP_SIZES)


def _server(**changes):
  built = engine.build(_config(**changes), engine.Task(_DATA, _MODEL))
  return built, server_lib.Server(built)


_OPTIMIZERS = tff.learning.optimizers
_SGD = _OPTIMIZERS.build_sgdm


@pytest.mark.parametrize(
  'settings, client_optimizer, server_optimizer',
  [
    ({}, _SGD(0.05), _SGD(0.1)),
    (
      {'algorithm': 'f3ast_adam'},
      _SGD(0.05),
      _OPTIMIZERS.build_adam(0.1, 0.9, 0.999, 0.001),
    ),
    ({'server_optimizer': 'momentum'}, _SGD(0.05), _SGD(0.1, momentum=0.9)),
    (
      {'server_optimizer': 'yogi'},
      _SGD(0.05),
      _OPTIMIZERS.build_yogi(0.1, 0.9, 0.999, 0.001, 0.0),
    ),
    (
      {'server_optimizer': 'adagrad', 'server_epsilon': 0.5},
      _SGD(0.05),
      _OPTIMIZERS.build_adagrad(
        0.1, epsilon=0.5, initial_preconditioner_value=0.0
      ),
    ),
    ({'proximal': 5.0}, client_optimizers.proximal(_SGD(0.05), 5.0), _SGD(0.1)),
    (
      {'algorithm': 'power_of_choice', 'protocol': 'losses_of_training'},
      client_optimizers.clipped(_SGD(0.05), 1.0),
      _SGD(0.1),
    ),
  ],
  ids=lambda value: '-'.join(map(str, value.values())) or 'f3ast'
  if isinstance(value, dict)
  else '',
)
def test_rounds_equal_those_of_the_plain_process(
  settings, client_optimizer, server_optimizer, in_process
):
  built, server = _server(**settings)
  config = built.config
  # Not compiled with XLA, one client per shard, one call per round.
  alone = shards.ClientShards(
    _DATA.train,
    examples_lib.concatenated(_DATA.train),
    batch_size=config.batch_size,
    seed=config.seed,
  )
  training = shard_training.build(
    _MODEL.functional,
    client_optimizer,
    8,
    shard_training.layout_of(_DATA.train[0]),
    config.batch_size,
  )
  plain = process_lib.compose(
    training,
    built.environment.p,
    built.environment.initial_rates,
    server_optimizer=server_optimizer,
  )
  state = plain.initialize()
  for t in range(1, 6):
    played = server.play(t)
    output = plain.next(
      state,
      [
        alone(selection.Cohort(np.array([k]), np.array([weight])), t)[0]
        for k, weight in zip(*played.cohort)
      ],
    )
    state = output.state
    for path in ('participants', 'sum_of_weights', 'variance_bound'):
      np.testing.assert_allclose(
        played.metrics['selection'][path],
        output.metrics['selection'][path],
        rtol=1e-6,
      )
    np.testing.assert_allclose(
      played.metrics['client_work']['train']['loss'],
      output.metrics['client_work']['train']['loss'],
      rtol=1e-5,
    )
    here = server.state
    np.testing.assert_array_equal(here.rates, state.rates)
    for ours, theirs in zip(
      here.global_model_weights.trainable,
      state.global_model_weights.trainable,
    ):
      np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_local_steps_against_numpy():
  steps, batch_size = 7, 300  # More than some clients have.
  assert _DATA.num_examples.min() < batch_size < _DATA.num_examples.max()
  built, server = _server(
    algorithm='fedavg',
    avail='always',
    clients_per_round='8',
    local_steps=steps,
    batch_size=batch_size,
  )
  played = server.play(1)
  assert played.metrics['client_work']['train']['num_examples'] == (
    8 * steps * batch_size
  )
  kernels, biases = [], []
  for k, examples in enumerate(_DATA.train):
    rows = np.concatenate([
      randomness.generator(0, f'shuffling in epoch {epoch}', 1, k).permutation(
        len(examples['y'])
      )
      for epoch in range(1 + steps * batch_size // len(examples['y']))
    ])
    kernel, bias = np.zeros((60, 10)), np.zeros(10)
    for batch in np.split(rows[: steps * batch_size], steps):
      x, y = examples['x'][batch].astype(float), examples['y'][batch]
      error = special.softmax(x @ kernel + bias, axis=1)
      error[np.arange(batch_size), y] -= 1
      kernel = kernel - 0.05 * x.T @ error / batch_size
      bias = bias - 0.05 * error.mean(axis=0)
    kernels.append(kernel)
    biases.append(bias)
  # From zeros, the server's rate is .1 and every weight 1 / 8.
  trained = server.state.global_model_weights.trainable
  for ours, theirs in zip(trained, (kernels, biases)):
    np.testing.assert_allclose(ours, 0.1 * np.mean(theirs, axis=0), atol=1e-5)


def test_factors_of_a_file_are_factors_of_the_server_s_rate(tmp_path):
  path = tmp_path / 'rates.csv'
  path.write_text('round,sum_of_weights\n1,3\n2,0\n3,0.5\n')
  _, server = _server(rounds=3, server_rate_file=str(path))

  def weights(server):
    return server.state.global_model_weights.trainable

  for t, factor in ((1, 3.0), (2, 0.0), (3, 0.5)):
    before = server.state
    played = server.play(t)
    assert played.metrics['selection']['sum_of_weights'] == pytest.approx(
      played.cohort.weights.sum(), rel=1e-6
    )
    if factor == 0:
      for new, old in zip(weights(server), before.global_model_weights[0]):
        np.testing.assert_array_equal(new, old)
      continue
    _, other = _server(rounds=3, server_learning_rate=0.1 * factor)
    # The optimizer's state holds its rate.
    other.state = before._replace(optimizer=other.state.optimizer)
    same = other.play(t)
    np.testing.assert_array_equal(played.cohort.clients, same.cohort.clients)
    np.testing.assert_allclose(
      played.cohort.weights, factor * same.cohort.weights
    )
    np.testing.assert_array_equal(server.state.rates, other.state.rates)
    for ours, theirs in zip(weights(server), weights(other)):
      np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize('protocol', ['paper', 'losses_of_training'])
def test_losses_are_of_the_model_or_of_its_training(protocol):
  _, server = _server(algorithm='power_of_choice', protocol=protocol)
  losses = server._losses_of(1, np.arange(8))
  if protocol == 'paper':  # Of a model of zeros.
    np.testing.assert_allclose(losses, np.log(10), rtol=1e-5)
  else:  # Later batches find a model that has learned.
    assert (losses < 0.99 * np.log(10)).all()
  # In the order in which they are asked.
  np.testing.assert_allclose(
    server._losses_of(1, np.array([5, 2])), losses[[5, 2]], rtol=1e-5
  )


@pytest.mark.parametrize('failing', ['all', 'nobody alone', 'one'])
def test_a_round_that_cannot_be_computed(failing, monkeypatch):
  _, server = _server(avail='always')
  train, calls = server._train, []

  def fail(some_shards, *meanwhile):
    calls.append(some_shards)
    is_alone = 1 < len(calls) <= 4  # After the first try, of all three.
    first_alone = len(calls) == 2
    if failing == 'all' or (
      first_alone if failing == 'one' and len(calls) > 1 else not is_alone
    ):
      raise tf.errors.InvalidArgumentError(None, None, 'Bad shape.\nFile a')
    return train(some_shards, *meanwhile)

  monkeypatch.setattr(server, '_train', fail)
  if failing == 'one':  # The round goes on without its examples.
    played = server.play(1)
    assert played.failed == (int(played.cohort.clients[0]),)
    assert played.metrics['selection']['left_out'] == 1
    return
  message = r'Round 1 cannot be computed \(Bad shape\.\); .*--clients_per_round'
  with pytest.raises(server_lib.RoundError, match=message):
    server.play(1)
  # All at once, each of the three alone, and, where that fails for all of
  # them, once more without their examples.
  assert len(calls) == (5 if failing == 'all' else 4)


@pytest.mark.parametrize('algorithm', ['f3ast', 'power_of_choice'])
def test_the_same_rounds_give_the_same_numbers_to_the_bit(algorithm):
  states = []
  for _ in range(2):
    _, server = _server(algorithm=algorithm, clients_per_round='5')
    for t in range(1, 5):
      server.play(t)
    states.append(tf.nest.flatten(tuple(server.state)))
  for one, two in zip(*states):
    np.testing.assert_array_equal(one, two)


def test_a_state_that_is_put_back_goes_on_to_the_same_rounds():
  _, server = _server(algorithm='f3ast_adam')
  server.play(1)
  saved = server.state
  first = server.play(2), server.state
  _, other = _server(algorithm='f3ast_adam')
  other.state = saved
  second = other.play(2), other.state
  np.testing.assert_array_equal(
    first[0].cohort.clients, second[0].cohort.clients
  )
  for one, two in zip(
    first[1].global_model_weights.trainable,
    second[1].global_model_weights.trainable,
  ):
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize('algorithm', ['f3ast', 'power_of_choice'])
def test_each_round_is_chosen_once_and_by_the_rates_before_it(
  algorithm, monkeypatch
):
  built, server = _server(algorithm=algorithm, rounds=5)
  chosen = []
  select = environment.select

  def noted(config, environment, r, t, losses_of):
    chosen.append((t, r))
    return select(config, environment, r, t, losses_of)

  monkeypatch.setattr(environment, 'select', noted)
  before = [np.array(built.environment.initial_rates)]
  for t in range(1, 6):
    server.play(t)
    before.append(np.array(server.state.rates))
  # A round that was prepared by other rates would have been chosen twice.
  assert [t for t, _ in chosen] == [1, 2, 3, 4, 5]
  for (_, r), expected in zip(chosen, before):
    np.testing.assert_array_equal(r, expected)


def test_a_policy_of_ones_own_is_told_the_losses_of_the_newest_model(
  monkeypatch,
):
  monkeypatch.setitem(
    selection.POLICIES, 'my_own', selection.POLICIES['power_of_choice']
  )
  same = {'avail': 'always', 'clients_per_round': '1', 'num_candidates': 8}
  _, known = _server(selection='power_of_choice', **same)
  _, own = _server(selection='my_own', **same)
  for t in range(1, 9):
    np.testing.assert_array_equal(
      own.play(t).cohort.clients, known.play(t).cohort.clients
    )


def test_a_policy_that_asks_and_does_not_say_so_is_told_how_to(monkeypatch):
  known = selection.POLICIES['power_of_choice']
  monkeypatch.setitem(
    selection.POLICIES, 'my_own', lambda s, rng: known(s, rng)
  )
  _, own = _server(selection='my_own', avail='always')
  with pytest.raises(ValueError, match='@selection.needs_model'):
    own.play(1)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
