"""Tests of `rounds`: the rounds of a training."""

import dataclasses
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import methods
from f3ast_tff import randomness
from f3ast_tff import rates
from f3ast_tff import selection
from f3ast_tff import selector as selector_lib
from f3ast_tff.execution import rounds as rounds_lib
from f3ast_tff.learning import client_optimizers
from f3ast_tff.learning import examples as examples_lib
from f3ast_tff.learning import process as process_lib
from f3ast_tff.learning import shard_training
from f3ast_tff.learning import shards
from f3ast_tff.runs import task as task_lib
from tests import by_hand
from tests import linear


@pytest.fixture(name='start')
def _start(task, make_config):
  """Starts the rounds of settings; changes are keyword arguments."""

  def start(**changes):
    training = task_lib.build(make_config(**changes), task)
    return training, rounds_lib.Rounds(training, changes.get('rounds'))

  return start


def _weights(rounds):
  return rounds.state.global_model_weights.trainable


def _assert_same_states(one, other):
  for leaf, other_leaf in zip(*map(tf.nest.flatten, (one, other))):
    np.testing.assert_array_equal(leaf, other_leaf)


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
    pytest.param(
      {'server_optimizer': 'momentum'},
      _SGD(0.05),
      _SGD(0.1, momentum=0.9),
      marks=pytest.mark.slow,
    ),
    pytest.param(
      {'server_optimizer': 'yogi'},
      _SGD(0.05),
      _OPTIMIZERS.build_yogi(0.1, 0.9, 0.999, 0.001, 0.0),
      marks=pytest.mark.slow,
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
  settings, client_optimizer, server_optimizer, in_process, start, task
):
  training, rounds = start(**settings)
  train = task.dataset.train
  # Not compiled with XLA, one client per shard, one call per round.
  alone = shards.ClientShards(
    train, lambda: examples_lib.concatenated(train), batch_size=20
  )
  plain = process_lib.build_process(
    shard_training.build(
      task.model.functional,
      client_optimizer,
      8,
      shard_training.layout_of(train[0]),
      20,
    ),
    training.selector.p,
    training.selector.initial_rates,
    server_optimizer=server_optimizer,
  )
  state = plain.initialize()
  for t in range(1, 4):
    round_ = rounds.run(t)
    output = plain.next(
      state,
      [
        alone(selection.Cohort(np.array([k]), np.array([weight])), t)[0]
        for k, weight in zip(*round_.cohort)
      ],
    )
    state = output.state
    for name in ('selected', 'sum_of_weights', 'variance_bound'):
      np.testing.assert_allclose(
        round_.metrics['selection'][name],
        output.metrics['selection'][name],
        rtol=1e-6,
      )
    np.testing.assert_allclose(
      round_.metrics['client_work']['train']['loss'],
      output.metrics['client_work']['train']['loss'],
      rtol=1e-5,
    )
    np.testing.assert_array_equal(rounds.state.rates, state.rates)
    expected = state.global_model_weights.trainable
    for ours, theirs in zip(_weights(rounds), expected):
      np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_local_steps_against_numpy(start, task):
  steps, batch_size = 7, 300  # More than some clients have.
  num_examples = task.dataset.num_examples
  assert num_examples.min() < batch_size < num_examples.max()
  _, rounds = start(
    algorithm='fedavg',
    avail='always',
    clients_per_round='8',
    local_steps=steps,
    batch_size=batch_size,
  )
  measured = rounds.run(1).metrics['client_work']['train']
  assert measured['num_examples'] == 8 * steps * batch_size
  updates = []
  for k, examples in enumerate(task.dataset.train):
    rows = np.concatenate([
      randomness.generator(0, f'shuffling in epoch {epoch}', 1, k).permutation(
        len(examples['y'])
      )
      for epoch in range(1 + steps * batch_size // len(examples['y']))
    ])
    batches = np.split(rows[: steps * batch_size], steps)
    updates.append(by_hand.local_sgd(examples, batches, 0.05).update)
  # From zeros, the server's rate is .1 and every weight 1 / 8.
  for ours, theirs in zip(_weights(rounds), zip(*updates)):
    np.testing.assert_allclose(ours, 0.1 * np.mean(theirs, axis=0), atol=1e-5)


def test_factors_of_a_file_are_factors_of_the_server_s_rate(tmp_path, start):
  path = tmp_path / 'rates.csv'
  path.write_text('round,sum_of_weights\n1,3\n2,0\n3,0.5\n')
  _, rounds = start(rounds=3, server_rate_file=str(path))
  for t, factor in ((1, 3.0), (2, 0.0), (3, 0.5)):
    before = rounds.state
    round_ = rounds.run(t)
    assert round_.metrics['selection']['sum_of_weights'] == pytest.approx(
      round_.cohort.weights.sum(), rel=1e-6
    )
    if factor == 0:
      for new, old in zip(_weights(rounds), before.global_model_weights[0]):
        np.testing.assert_array_equal(new, old)
      continue
    _, other = start(rounds=3, server_learning_rate=0.1 * factor)
    # The optimizer's state holds its rate.
    other.state = before._replace(optimizer=other.state.optimizer)
    same = other.run(t)
    np.testing.assert_array_equal(round_.cohort.clients, same.cohort.clients)
    np.testing.assert_allclose(
      round_.cohort.weights, factor * same.cohort.weights
    )
    np.testing.assert_array_equal(rounds.state.rates, other.state.rates)
    for ours, theirs in zip(_weights(rounds), _weights(other)):
      np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize('protocol', ['paper', 'losses_of_training'])
def test_losses_are_of_the_model_or_of_its_training(protocol, start):
  _, rounds = start(algorithm='power_of_choice', protocol=protocol)
  losses = rounds._losses_of(1, np.arange(8))
  if protocol == 'paper':  # Of a model of zeros.
    np.testing.assert_allclose(losses, np.log(10), rtol=1e-5)
  else:  # Later batches find a model that has learned.
    assert (losses < 0.99 * np.log(10)).all()
  # In the order in which they are queried.
  np.testing.assert_allclose(
    rounds._losses_of(1, np.array([5, 2])), losses[[5, 2]], rtol=1e-5
  )


@pytest.mark.parametrize('failing', ['all', 'nobody alone', 'one'])
def test_a_round_that_cannot_be_computed(failing, monkeypatch, start):
  _, rounds = start(avail='always')
  train, calls = rounds._train, []

  def fail(some_shards, *meanwhile):
    calls.append(some_shards)
    is_alone = 1 < len(calls) <= 4  # After the first try, of all three.
    first_alone = len(calls) == 2
    if failing == 'all' or (
      first_alone if failing == 'one' and len(calls) > 1 else not is_alone
    ):
      raise tf.errors.InvalidArgumentError(None, None, 'Bad shape.\nFile a')
    return train(some_shards, *meanwhile)

  monkeypatch.setattr(rounds, '_train', fail)
  if failing == 'one':  # The round continues without its examples.
    round_ = rounds.run(1)
    assert round_.failed == (int(round_.cohort.clients[0]),)
    assert round_.metrics['selection']['excluded'] == 1
    return
  message = r'Round 1 cannot be computed \(Bad shape\.\); .*--clients_per_round'
  with pytest.raises(rounds_lib.RoundError, match=message):
    rounds.run(1)
  # All at once, each of the three alone, and, where that fails for all of
  # them, once more without their examples.
  assert len(calls) == (5 if failing == 'all' else 4)


@pytest.mark.parametrize('algorithm', ['f3ast', 'power_of_choice'])
def test_the_same_rounds_give_the_same_numbers_to_the_bit(algorithm, start):
  states = []
  for _ in range(2):
    _, rounds = start(algorithm=algorithm, clients_per_round='5')
    for t in range(1, 5):
      rounds.run(t)
    states.append(rounds.state)
  _assert_same_states(*states)


def test_a_state_that_is_put_back_continues_to_the_same_rounds(start):
  _, rounds = start(algorithm='f3ast_adam')
  rounds.run(1)
  saved = rounds.state
  first = rounds.run(2)
  _, other = start(algorithm='f3ast_adam')
  other.state = saved
  second = other.run(2)
  np.testing.assert_array_equal(first.cohort.clients, second.cohort.clients)
  _assert_same_states(rounds.state, other.state)


@pytest.mark.parametrize('in_memory', [True, False], ids=['arrays', 'datasets'])
def test_a_state_from_elsewhere_decides_who_is_selected(in_memory):
  # Round t + 1 is prepared while round t trains, so that what was prepared for
  # other rates must not be taken.
  rounds = rounds_lib.Rounds(linear.build(in_memory))
  rounds.run(1)
  for t, wanted in ((2, [0, 1]), (3, [2, 3]), (4, [1, 3])):
    mask = np.isin(np.arange(4), wanted)
    before = rounds.state._replace(rates=np.where(mask, 0.01, 1.0))
    rounds.state = before
    round_ = rounds.run(t)
    assert round_.cohort.clients.tolist() == wanted
    r = rates.update(before.rates, mask, 0.1)
    np.testing.assert_array_equal(rounds.state.rates, r)
    weights = linear.weights_of(before)
    delta = sum(
      linear.P[k] / r[k] * linear.update(k, weights) for k in wanted
    )
    np.testing.assert_allclose(
      linear.weights_of(rounds.state), weights + delta, rtol=1e-4, atol=1e-5
    )


def test_losses_that_no_client_can_compute_end_the_run(monkeypatch, start):
  _, rounds = start(
    avail='always', algorithm='power_of_choice', clients_per_round='1'
  )

  def fail(parts):
    del parts
    raise tf.errors.InvalidArgumentError(None, None, 'Bad shape.\nFile a')

  monkeypatch.setattr(rounds._losses, 'load', fail)
  with pytest.raises(rounds_lib.RoundError, match=r'its loss .*Bad shape'):
    rounds.run(1)


def test_a_client_that_fails_on_its_dataset_is_there_without_examples():
  def fail(batch):
    # Clients 0 and 1 have 7 and 3 examples, in batches of four.
    is_bad = tf.equal(tf.shape(batch['y'])[0], 3)
    with tf.control_dependencies([tf.debugging.assert_equal(is_bad, False)]):
      return {name: tf.identity(field) for name, field in batch.items()}

  training = linear.build(in_memory=False, clients_per_round=4)
  data = linear.client_data().preprocess(lambda dataset: dataset.map(fail))
  clients = dataclasses.replace(training.cohort_data, client_data=data)
  rounds = rounds_lib.Rounds(
    dataclasses.replace(training, cohort_data=clients)
  )
  round_ = rounds.run(1)
  assert round_.failed == (0, 1)
  measured = round_.metrics['selection']
  assert measured['excluded_clients'].tolist() == [1, 1, 0, 0]
  r = rounds.state.rates
  delta = sum(linear.P[k] / r[k] * linear.update(k) for k in (2, 3))
  np.testing.assert_allclose(
    linear.weights_of(rounds.state), delta, rtol=1e-4, atol=1e-6
  )


def test_an_aggregator_sees_each_client_as_numpy_does():
  clipped = tff.aggregators.clipping_factory(0.1, tff.aggregators.SumFactory())
  for num_shards in (1, 2):  # Fewer than clients.
    rounds = rounds_lib.Rounds(
      linear.build(
        aggregator=clipped, clients_per_round=4, num_shards=num_shards
      )
    )
    round_ = rounds.run(1)
    members = linear.updates() * round_.cohort.weights[:, None]
    norms = np.linalg.norm(members, axis=1, keepdims=True)
    assert norms.max() > 0.1  # Or nothing is clipped.
    expected = (members * np.minimum(1, 0.1 / norms)).sum(axis=0)
    np.testing.assert_allclose(
      linear.weights_of(rounds.state).ravel(), expected, atol=1e-6
    )


@pytest.mark.parametrize('algorithm', ['f3ast', 'power_of_choice'])
def test_each_round_is_selected_once_and_by_the_rates_before_it(
  algorithm, monkeypatch, start
):
  training, rounds = start(algorithm=algorithm, rounds=5)
  selected = []
  select = selector_lib.Selector.select

  def noted(self, t, r, losses_of, kept):
    selected.append((t, r))
    return select(self, t, r, losses_of, kept)

  monkeypatch.setattr(selector_lib.Selector, 'select', noted)
  before = [np.array(training.selector.initial_rates)]
  for t in range(1, 6):
    rounds.run(t)
    before.append(np.array(rounds.state.rates))
  # A round that was prepared by other rates would have been selected twice.
  assert [t for t, _ in selected] == [1, 2, 3, 4, 5]
  for (_, r), expected in zip(selected, before):
    np.testing.assert_array_equal(r, expected)


def test_a_policy_of_ones_own_is_told_the_losses_of_the_newest_model(
  monkeypatch, start
):
  monkeypatch.setitem(
    methods.POLICIES, 'my_own', methods.POLICIES['power_of_choice']
  )
  same = {'avail': 'always', 'clients_per_round': '1', 'num_candidates': 8}
  _, known = start(selection='power_of_choice', **same)
  _, own = start(selection='my_own', **same)
  for t in range(1, 6):
    np.testing.assert_array_equal(
      own.run(t).cohort.clients, known.run(t).cohort.clients
    )


def test_a_policy_that_queries_and_does_not_say_so_is_told_how_to(
  monkeypatch, start
):
  known = methods.POLICIES['power_of_choice']
  monkeypatch.setitem(
    methods.POLICIES, 'my_own', lambda s, rng: known(s, rng)
  )
  _, own = start(selection='my_own', avail='always')
  with pytest.raises(ValueError, match='@selection.needs_losses'):
    own.run(1)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
