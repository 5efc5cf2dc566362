"""Tests of `in_memory`: what fits arrays, and what says why not."""

import collections
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import execution
from f3ast_tff import selection
from f3ast_tff.learning import client_arrays
from f3ast_tff.learning import shard_training
from f3ast_tff.learning import simulation

_SGD = tff.learning.optimizers.build_sgdm
_SIZES = (7, 0, 12)


def _client_data(preprocess=lambda dataset: dataset.batch(4)):
  rng = np.random.default_rng(0)
  return tff.simulation.datasets.TestClientData({
    name: collections.OrderedDict(
      x=rng.standard_normal((size, 3)).astype(np.float32),
      y=rng.integers(0, 5, size).astype(np.int32),
    )
    for name, size in zip('abc', _SIZES)
  }).preprocess(preprocess)


def test_clients_are_read_in_the_order_of_their_datasets():
  data = _client_data()
  clients = client_arrays.read(data)
  assert clients.batch_size == 4 and not clients.is_shuffled
  assert [len(part['y']) for part in clients.train] == list(_SIZES)
  for name, part in zip('abc', clients.train):
    batches = list(data.create_tf_dataset_for_client(name).as_numpy_iterator())
    for field in ('x', 'y'):
      expected = [row for batch in batches for row in batch[field]]
      assert len(part[field]) == len(expected)
      for row, other in zip(part[field], expected):
        np.testing.assert_array_equal(row, other)


def test_datasets_that_shuffle_are_noticed():
  data = _client_data(lambda dataset: dataset.shuffle(20).batch(4))
  assert client_arrays.read(data).is_shuffled


@pytest.mark.parametrize(
  'preprocess, why',
  [
    (
      lambda d: d.batch(4).map(lambda e: (e['x'], e['x'], e['y'])), 'not pairs'
    ),
    (lambda d: d.batch(4).map(lambda e: ({'a': e['x']}, e['y'])), 'not pairs'),
    (lambda d: d.batch(5).repeat(2), 'unlike sizes'),
    (lambda d: d.batch(4).take(0), 'no examples'),
  ],
)
def test_clients_that_do_not_fit_say_why(preprocess, why):
  with pytest.raises(client_arrays.UnfitError, match=why):
    client_arrays.read(_client_data(preprocess))


def test_clients_that_fill_too_much_memory_say_so():
  with pytest.raises(client_arrays.UnfitError, match='more than 100 bytes'):
    client_arrays.read(_client_data(), max_bytes=100)


def _keras(layers, **loss):
  def model_fn():
    return tff.learning.models.from_keras_model(
      tf.keras.Sequential([tf.keras.layers.Input((3,)), *layers()]),
      loss=tf.keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, **loss
      ),
      input_spec=_client_data().element_type_structure,
    )

  return model_fn


def _dense(**arguments):
  return tf.keras.layers.Dense(5, **arguments)


@pytest.mark.parametrize(
  'layers, why',
  [
    (lambda: [tf.keras.layers.BatchNormalization(), _dense()], 'not trained'),
    (lambda: [_dense(kernel_regularizer='l2')], 'regularizers'),
    (lambda: [_dense(trainable=False), _dense()], 'not trained'),
  ],
  ids=['batch normalization', 'regularizer', 'frozen layer'],
)
def test_models_that_do_not_fit_say_why(layers, why):
  with pytest.raises(client_arrays.UnfitError, match=why) as error:
    client_arrays.functional(_keras(layers))
  assert '\n' not in str(error.value)


def test_models_with_convolutions_or_loops_are_not_for_xla():
  def is_for_xla(*layers):
    model = tf.keras.Sequential([tf.keras.layers.Input((4, 4, 1)), *layers])
    functional = tff.learning.models.functional_model_from_keras(
      model,
      tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      (
        tf.TensorSpec([None, 4, 4, 1], tf.float32),
        tf.TensorSpec([None], tf.int32),
      ),
    )
    layout = shard_training.layout_of({
      'x': np.zeros((1, 4, 4, 1), np.float32), 'y': np.zeros(1, np.int32)
    })
    return client_arrays.is_for_xla(functional, layout)

  flatten = tf.keras.layers.Flatten  # A new one for each model.
  assert is_for_xla(flatten(), _dense())
  assert not is_for_xla(tf.keras.layers.Conv2D(2, 3), flatten(), _dense())
  assert not is_for_xla(
    tf.keras.layers.Reshape((4, 4)), tf.keras.layers.LSTM(3), _dense()
  )


@pytest.mark.parametrize('shuffles', [False, True])
def test_a_keras_model_trains_on_arrays_as_stock_tff_on_datasets(shuffles):
  """Last batches hold fewer examples, where Keras' losses divide by rows."""

  def preprocess(dataset):
    # Of one batch a client, so that the order makes no difference.
    return dataset.shuffle(20).batch(20) if shuffles else dataset.batch(5)

  data = _client_data(preprocess)
  model_fn = _keras(
    lambda: [tf.keras.layers.Dense(6, activation='relu'), _dense()]
  )
  built = simulation.build(
    model_fn,
    data,
    availability='always',
    clients_per_round=2,
    client_optimizer=_SGD(0.1),
    in_memory=True,
  )
  stock = tff.learning.algorithms.build_weighted_fed_avg(
    model_fn, _SGD(0.1), _SGD(1.0)
  )
  cohort = selection.Cohort(np.array([0, 2]), np.array([7, 12]) / 19)
  with execution.in_process(2):
    state, theirs = built.process.initialize(), stock.initialize()
    start = built.process.get_model_weights(state)
    theirs = stock.set_model_weights(
      theirs, tff.learning.models.ModelWeights(list(start.trainable), [])
    )
    for t in (1, 2, 3):
      state = built.process.next(state, built.bring(cohort, t)).state
      clients = [data.create_tf_dataset_for_client(name) for name in 'ac']
      theirs = stock.next(theirs, clients).state
    ours = built.process.get_model_weights(state).trainable
    stocks = stock.get_model_weights(theirs).trainable
  for mine, other, before in zip(ours, stocks, start.trainable):
    np.testing.assert_allclose(mine, other, atol=1e-5)
    assert np.abs(mine - before).max() > 1e-2  # The test can tell.


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
