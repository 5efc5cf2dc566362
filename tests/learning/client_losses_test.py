"""Tests of `client_losses`."""

import dataclasses
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import selection
from f3ast_tff.datasets import synthetic
from f3ast_tff.learning import client_losses
from f3ast_tff.learning import client_optimizers
from f3ast_tff.learning import client_work
from f3ast_tff.learning import examples as examples_lib
from f3ast_tff.learning import loss_shards
from f3ast_tff.learning import shard_training
from f3ast_tff.learning import shards
from f3ast_tff.models import character_lstm
from f3ast_tff.models import softmax
from tests import by_hand

_DATA = synthetic.load(num_clients=4, seed=1)
_EXAMPLES = [{f: e[f][:70] for f in e} for e in _DATA.train]  # 45 to 70 each.
_LAYOUT = shard_training.layout_of(_EXAMPLES[0])
_BATCH = 20

pytestmark = pytest.mark.usefixtures('in_process')


def _weights():
  rng = np.random.default_rng(3)
  kernel = rng.normal(0, 0.3, (60, 10)).astype(np.float32)
  return kernel, rng.normal(0, 0.3, 10).astype(np.float32)


def _queried(*clients, train=_EXAMPLES, num_shards=1, **arguments):
  make = loss_shards.LossShards(
    train,
    lambda: examples_lib.concatenated(train),
    batch_size=client_losses.BATCH_SIZE,
    num_shards=num_shards,
    **arguments,
  )
  return [make.fill(part) for part in make.parts(np.array(clients, int))]


def _replaced(index, examples):
  return [*_EXAMPLES[:index], examples, *_EXAMPLES[index + 1 :]]


def _softmax(xla):
  return dataclasses.replace(softmax.build(), xla=xla)


def _model_weights(weights):
  return tff.learning.models.ModelWeights(tuple(weights), ())


@pytest.mark.parametrize('xla', [False, True])
@pytest.mark.parametrize('num_shards, filled_up_to', [(1, None), (2, 3)])
def test_losses_of_clients_in_shards_by_hand(xla, num_shards, filled_up_to):
  losses_of = client_losses.on_shards(_softmax(xla), 4, _LAYOUT)
  # They have 45 to 70 examples, in batches of 64: batches hold those of two.
  queried = _queried(
    1, 2, 3, num_shards=num_shards, filled_up_to=filled_up_to
  )
  got = losses_of(_model_weights(_weights()), queried)
  expected = [by_hand.mean_loss(_weights(), _EXAMPLES[k]) for k in (1, 2, 3)]
  np.testing.assert_allclose(got[1:], expected, rtol=1e-5)
  assert got[0] == 0


def test_sequences_of_all_lengths_go_through_the_model_in_order_of_length():
  model = character_lstm.build(variant='compact')
  rng = np.random.default_rng(5)
  rows = rng.integers(1, 90, (100, 81)).astype(np.uint8)
  lengths = rng.integers(2, 82, 100)
  rows[np.arange(81) >= lengths[:, None]] = 0
  examples = [
    {'x': part[:, :-1], 'y': part[:, 1:]} for part in (rows[:30], rows[30:])
  ]
  losses_of = client_losses.on_shards(
    model, 2, shard_training.layout_of(examples[0])
  )
  weights = model.functional.initial_weights
  queried = _queried(
    0, 1, train=examples, lengths=model.length(rows[:, :-1]).numpy()
  )
  got = losses_of(_model_weights(weights[0]), queried)

  def mean_loss(x, y):
    # One client at a time, in the pass for training, which leaves nothing out.
    logits = model.functional.predict_on_batch(weights, x, training=True)
    return model.functional.loss(logits, y)

  np.testing.assert_allclose(got, [mean_loss(**e) for e in examples], rtol=1e-5)


@pytest.mark.parametrize('xla', [False, True])
def test_a_loss_that_is_not_finite_stays_with_its_client(xla):
  losses_of = client_losses.on_shards(_softmax(xla), 4, _LAYOUT)
  bad = {**_EXAMPLES[2], 'x': np.full_like(_EXAMPLES[2]['x'], np.nan)}
  queried = _queried(0, 2, train=_replaced(2, bad))
  got = losses_of(_model_weights(_weights()), queried)
  assert np.isnan(got[2])
  np.testing.assert_allclose(
    got[0], by_hand.mean_loss(_weights(), _EXAMPLES[0]), rtol=1e-5
  )


def test_an_empty_client_has_loss_0():
  losses_of = client_losses.on_shards(softmax.build(), 4, _LAYOUT)
  nothing = {name: array[:0] for name, array in _EXAMPLES[0].items()}
  queried = _queried(0, train=_replaced(0, nothing), filled_up_to=2)
  got = losses_of(_model_weights(_weights()), queried)
  np.testing.assert_array_equal(got, np.zeros(4))


@pytest.mark.parametrize('is_trained', [False, True])
@pytest.mark.parametrize('xla', [False, True])
def test_losses_on_what_clients_would_train_on_by_hand(xla, is_trained):
  # Batches of 20 of 45 examples; the mean weighs the last one by its 5. If
  # clients train meanwhile, each loss is before its step, which is clipped.
  rate = 0.1
  examples = {name: array[:45] for name, array in _EXAMPLES[0].items()}
  train = _replaced(0, examples)
  batches = by_hand.in_order(45, _BATCH)
  of_training = by_hand.local_sgd(examples, batches, rate, _weights(), clip=1.0)
  plain = by_hand.mean_loss(_weights(), examples)
  assert abs(of_training.loss - plain) > 0.01  # The test can tell.
  losses_of = client_losses.on_training_shards(
    softmax.build().functional,
    client_optimizers.clipped(tff.learning.optimizers.build_sgdm(rate), 1.0),
    4,
    _LAYOUT,
    _BATCH,
    is_trained,
    xla,
  )
  make = shards.ClientShards(
    train,
    lambda: examples_lib.concatenated(train),
    batch_size=_BATCH,
    is_shuffled=False,
  )
  cohort = selection.Cohort(np.array([0, 3]), np.zeros(2))
  got = losses_of(_model_weights(_weights()), make(cohort, 1))
  expected = of_training.loss if is_trained else plain
  np.testing.assert_allclose(got[0], expected, rtol=1e-5)
  assert got[3] > 0
  np.testing.assert_array_equal(got[1:3], [0, 0])


_SPEC = {
  'y': tf.TensorSpec([None], tf.int32), 'x': tf.TensorSpec([None, 60])
}


def _keras():
  return tff.learning.models.from_keras_model(
    tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=(60,))]),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    input_spec=_SPEC,
  )


@pytest.mark.parametrize(
  'model, fields',
  [
    (softmax.build().functional, tuple),
    (softmax.build().functional, dict),
    (_keras, dict),
  ],
  ids=['functional', 'functional, by name', 'keras'],
)
def test_losses_on_datasets_by_hand(model, fields):
  bad = {**_EXAMPLES[2], 'x': np.full_like(_EXAMPLES[2]['x'], np.nan)}
  nothing = {name: array[:0] for name, array in _EXAMPLES[0].items()}
  queried = []
  for k, examples in ((1, _EXAMPLES[1]), (2, bad), (3, nothing)):
    # By name in another order than that of pairs.
    elements = {name: examples[name] for name in 'yx'}
    if fields is tuple:
      elements = examples['x'], examples['y']
    dataset = tf.data.Dataset.from_tensor_slices(elements).batch(_BATCH)
    queried.append(
      client_work.ClientInput(dataset, np.int32(k), np.float32(0))
    )
  client_type = tff.types.to_type(
    client_work.ClientInput(
      tff.types.SequenceType(
        tff.types.tensorflow_to_type(dataset.element_spec)
      ),
      np.int32,
      np.float32,
    )
  )
  losses_of = client_losses.on_datasets(model, 4, client_type)
  weights = _model_weights(_weights())
  if model is _keras:  # Its weights are in lists.
    weights = tff.learning.models.ModelWeights(list(_weights()), [])
  got = losses_of(weights, queried)
  assert got[0] == got[3] == 0 and np.isnan(got[2])
  np.testing.assert_allclose(
    got[1], by_hand.mean_loss(_weights(), _EXAMPLES[1]), rtol=1e-5
  )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
