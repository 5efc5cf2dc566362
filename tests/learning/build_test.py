"""Tests of `build`: how clients train, and the losses that are queried."""

import dataclasses
import functools
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import f3ast_tff
from f3ast_tff import availability
from f3ast_tff import selection
from f3ast_tff.learning import shards
from f3ast_tff.learning import vector_training
from tests import linear
from tests import slow

pytestmark = pytest.mark.usefixtures('in_process')

_MODELS = {'functional': linear.functional(), 'keras': linear.keras}


def _power_of_choice(in_memory=True, kind='functional'):
  return linear.build(
    in_memory, _MODELS[kind], policy='power_of_choice', num_candidates=4
  )


def _queried(training, state, clients, t=1):
  """Returns the losses that some clients report."""
  losses = training.losses
  values = [losses.fill(part) for part in losses.parts(np.array(clients), t)]
  return np.asarray(losses.computation(state, values)[1])


@pytest.mark.parametrize('kind', slow.but(['keras'], _MODELS))
@pytest.mark.parametrize('in_memory', [True, False], ids=['arrays', 'datasets'])
def test_power_of_choice_selects_the_highest_losses(kind, in_memory):
  training = _power_of_choice(in_memory, kind)
  assert isinstance(training.cohort_data, shards.ClientShards) == in_memory
  state = training.initialize()
  seen = set()
  rng = np.random.default_rng(0)
  for t in range(1, 5):
    given = state.global_model_weights
    weights = linear.TRUE + rng.standard_normal((3, 1)).astype(np.float32)
    trainable = type(given.trainable)([weights])
    state = state._replace(
      global_model_weights=type(given)(trainable, given.non_trainable)
    )
    expected = linear.losses(weights)
    np.testing.assert_allclose(
      _queried(training, state, range(4), t), expected, rtol=1e-4
    )
    clients = training.select(state, t).cohort.clients
    assert sorted(clients) == sorted(np.argsort(expected)[-2:])
    seen.add(tuple(clients))
    state, metrics = training.next(state, t)
    # The mean of their updates, from what they had.
    step = np.mean([linear.update(k, weights) for k in clients], axis=0)
    np.testing.assert_allclose(
      linear.weights_of(state), weights + step, rtol=1e-4, atol=1e-5
    )
    assert metrics['selection']['selected'] == 2
  assert len(seen) > 1  # The test can tell.


@pytest.mark.parametrize('in_memory', [True, False], ids=['arrays', 'datasets'])
def test_only_candidates_are_queried_and_each_has_its_own_loss(in_memory):
  training = _power_of_choice(in_memory)
  losses = _queried(training, training.initialize(), [3, 1])
  expected = linear.losses(np.zeros((3, 1)))
  np.testing.assert_allclose(losses[[1, 3]], expected[[1, 3]], rtol=1e-5)
  np.testing.assert_array_equal(losses[[0, 2]], [0, 0])


def test_arrays_of_ones_own_are_queried_whatever_their_epochs():
  train = [dict(zip('xy', linear.examples(k))) for k in range(4)]
  for more in ({}, {'epochs': 3}):
    clients = f3ast_tff.ClientArrays(train, linear.BATCH_SIZE, **more)
    training = f3ast_tff.build_training(
      linear.functional(),
      clients,
      f3ast_tff.build_selector(
        clients.p, 'always', 1, policy='power_of_choice', num_candidates=4
      ),
      client_optimizer=linear.SGD(linear.RATE),
      num_shards=2,
    )
    np.testing.assert_allclose(
      _queried(training, training.initialize(), range(4)),
      linear.losses(np.zeros((3, 1))),
      rtol=1e-5,
    )


def test_a_policy_that_needs_no_losses_has_nobody_queried():
  training = linear.build()
  assert training.losses is None and list(training.makers) == ['train']
  assert list(_power_of_choice().makers) == ['train', 'losses']
  assert _power_of_choice(in_memory=False).makers == {}


def test_a_policy_that_queries_and_does_not_say_so_is_told_how_to():
  def policy(situation, rng):
    del rng
    situation.losses_of(np.array([0, 1]))

  training = linear.build()
  training = dataclasses.replace(
    training, selector=dataclasses.replace(training.selector, policy=policy)
  )
  with pytest.raises(ValueError, match='@selection.needs_losses'):
    training.next(training.initialize(), 1)


def test_availability_by_name_is_the_papers_model():
  selector = f3ast_tff.build_selector(linear.P, 'uneven', 2, seed=4)
  model = availability.uneven(linear.P, seed=4)
  for t in range(1, 6):
    np.testing.assert_array_equal(selector.availability(t), model(t))
  with pytest.raises(ValueError, match='always, scarce, home_devices'):
    f3ast_tff.build_selector(linear.P, 'sometimes', 2)


def test_vectors_of_a_round_are_of_no_more_clients_than_there_are(monkeypatch):
  found = []
  monkeypatch.setattr(
    vector_training,
    'build',
    functools.partial(_with_slots, vector_training.build, found),
  )
  for k in (2, 200_000):
    training = linear.build(method='mifa', clients_per_round=k)
    state, _ = training.next(training.initialize(), 1)
  # Every client trains, and p_k v_k is what it adds.
  np.testing.assert_allclose(
    linear.weights_of(state),
    np.tensordot(linear.P, linear.updates(), 1)[:, None],
    rtol=1e-4,
    atol=1e-6,
  )
  assert found == [2, 4]


def test_vectors_of_a_round_are_not_those_of_candidates_for_losses(monkeypatch):
  found = []
  monkeypatch.setattr(
    vector_training,
    'build',
    functools.partial(_with_slots, vector_training.build, found),
  )
  training = linear.build(
    method='scaffold', policy='power_of_choice', num_candidates=4,
    clients_per_round=1,
  )
  assert training.selector.max_clients == 4 and found == [1]
  state = training.next(training.initialize(), 1).state
  cohort = training.select(training.initialize(), 1).cohort
  is_changed = np.any(np.asarray(state.vectors.clients), axis=1)
  np.testing.assert_array_equal(np.flatnonzero(is_changed), cohort.clients)


def _with_slots(build, found, *arguments, **options):
  found.append(options['num_slots'])
  return build(*arguments, **options)


def test_an_aggregator_sees_each_client_and_nobody_else():
  training = linear.build(aggregator=tff.learning.robust_aggregator())
  cohort = selection.Cohort(np.array([0, 2, 3]), np.ones(3))
  assert len(training.inputs(cohort, 1)) == 3
  nobody = selection.Cohort(np.zeros(0, int), np.zeros(0))
  assert training.inputs(nobody, 1) == []
  assert len(linear.build().inputs(nobody, 1)) == 2  # Shards without clients.


def test_local_steps_of_clients_that_are_read_by_hand():
  clients = f3ast_tff.read_clients(linear.client_data(), steps=5)
  np.testing.assert_allclose(clients.p, linear.P)  # As without steps.
  training = f3ast_tff.build_training(
    linear.functional(),
    clients,
    f3ast_tff.build_selector(clients.p, 'always', 4, policy='uniform'),
    client_optimizer=linear.SGD(linear.RATE),
  )
  state = training.next(training.initialize(), 1).state
  mean = np.zeros((3, 1))
  for k, size in enumerate(linear.SIZES):
    # Each step is on the next 4 examples, and after the last comes the first.
    x, y = linear.examples(k)
    weights = np.zeros((3, 1))
    for step in range(5):
      batch = np.arange(4 * step, 4 * step + 4) % size
      error = x[batch] @ weights - y[batch]
      weights = weights - linear.RATE * 2 * x[batch].T @ error / 4
    mean += weights / 4
  np.testing.assert_allclose(
    linear.weights_of(state), mean, rtol=1e-4, atol=1e-6
  )


def test_local_steps_on_datasets_are_refused():
  data = linear.client_data()
  three = data.preprocess(
    lambda d: d.map(lambda batch: (batch['x'], batch['x'], batch['y']))
  )
  for call, why in (
    (lambda: f3ast_tff.read_clients(data, False, steps=5), 'in_memory is Fals'),
    (lambda: f3ast_tff.read_clients(three, steps=5), 'not pairs'),
    (lambda: f3ast_tff.read_clients(data, steps=-1), 'steps must be .* is -1'),
  ):
    with pytest.raises(ValueError, match=why):
      call()
  clients = f3ast_tff.read_clients(data, steps=5)
  with pytest.raises(ValueError, match='steps are for .* by sample_weight'):
    f3ast_tff.build_training(
      linear.functional(
        lambda output, label, sample_weight: tf.reduce_mean(output - label)
      ),
      clients,
      f3ast_tff.build_selector(clients.p, 'always', 2),
      client_optimizer=linear.SGD(0.1),
    )


def test_what_cannot_train_on_arrays_says_why_and_trains_on_datasets(caplog):
  model = linear.functional(
    lambda output, label, sample_weight: tf.reduce_mean((output - label) ** 2)
  )
  training = linear.build(model=model)
  (line,) = [r.getMessage() for r in caplog.records]
  assert 'weighted by sample_weight' in line and 'datasets' in line
  assert '\n' not in line
  clients = f3ast_tff.read_clients(linear.client_data())
  assert isinstance(training.cohort_data, type(clients))
  with pytest.raises(ValueError, match='weighted by sample_weight'):
    f3ast_tff.build_training(
      model,
      clients.arrays,
      training.selector,
      client_optimizer=linear.SGD(linear.RATE),
    )


@pytest.mark.parametrize('shuffles', slow.but([True], [False, True]))
def test_a_keras_model_trains_on_arrays_as_stock_tff_on_datasets(shuffles):
  """Last batches hold fewer examples, where Keras' losses divide by rows."""

  def preprocess(dataset):
    # Of one batch a client, so that the order makes no difference.
    if shuffles:
      return dataset.unbatch().shuffle(20).batch(20)
    return dataset.unbatch().batch(5)

  def model_fn():
    return tff.learning.models.from_keras_model(
      tf.keras.Sequential([
        tf.keras.layers.Dense(6, activation='relu', input_shape=(3,)),
        tf.keras.layers.Dense(1),
      ]),
      loss=tf.keras.losses.MeanSquaredError(),
      input_spec=data.element_type_structure,
    )

  data = linear.client_data().preprocess(preprocess)
  clients = f3ast_tff.read_clients(data)
  assert clients.arrays.is_shuffled == shuffles
  training = f3ast_tff.build_training(
    model_fn,
    clients.arrays,
    f3ast_tff.build_selector(clients.p, 'always', 2),
    client_optimizer=linear.SGD(0.1),
  )
  stock = tff.learning.algorithms.build_weighted_fed_avg(
    model_fn, linear.SGD(0.1), linear.SGD(1.0)
  )
  cohort = selection.Cohort(np.array([0, 2]), np.array([7, 12]) / 19)
  with f3ast_tff.in_process(2):
    state, theirs = training.initialize(), stock.initialize()
    start = training.process.get_model_weights(state)
    theirs = stock.set_model_weights(
      theirs, tff.learning.models.ModelWeights(list(start.trainable), [])
    )
    for t in (1, 2, 3):
      state = training.process.next(state, training.inputs(cohort, t)).state
      datasets = [data.create_tf_dataset_for_client(name) for name in 'ac']
      theirs = stock.next(theirs, datasets).state
    ours = training.process.get_model_weights(state).trainable
    stocks = stock.get_model_weights(theirs).trainable
  for mine, other, before in zip(ours, stocks, start.trainable):
    np.testing.assert_allclose(mine, other, atol=1e-5)
    assert np.abs(mine - before).max() > 1e-3  # The test can tell.


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
