"""Tests of `model_conversion`: which models fit, and why others do not."""

import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff.learning import model_conversion
from f3ast_tff.learning import shard_training

_SPEC = (
  tf.TensorSpec([None, 3], tf.float32),
  tf.TensorSpec([None], tf.int32),
)
_LAYOUT = shard_training.layout_of({
  'x': np.zeros((1, 3), np.float32), 'y': np.zeros(1, np.int32)
})
_CROSS_ENTROPY = tf.keras.losses.SparseCategoricalCrossentropy(
  from_logits=True
)


def _dense(**arguments):
  return tf.keras.layers.Dense(5, **arguments)


def _model_fn(*layers):
  def model_fn():
    return tff.learning.models.from_keras_model(
      tf.keras.Sequential([
        tf.keras.layers.Input((3,)), *(layer() for layer in layers)
      ]),
      loss=_CROSS_ENTROPY,
      input_spec=_SPEC,
    )

  return model_fn


@pytest.mark.parametrize(
  'layers, why',
  [
    ((tf.keras.layers.BatchNormalization, _dense), 'not trained'),
    ((lambda: _dense(kernel_regularizer='l2'),), 'regularizers'),
    ((lambda: _dense(trainable=False), _dense), 'not trained'),
  ],
  ids=['batch normalization', 'regularizer', 'frozen layer'],
)
def test_models_that_do_not_fit_say_why(layers, why):
  with pytest.raises(model_conversion.UnfitError, match=why) as error:
    model_conversion.functional(_model_fn(*layers))
  assert '\n' not in str(error.value)


def test_a_keras_model_becomes_a_function_of_its_weights():
  converted = model_conversion.functional(_model_fn(_dense))
  assert model_conversion.functional(converted) is converted
  rng = np.random.default_rng(0)
  kernel = rng.standard_normal((3, 5)).astype(np.float32)
  bias, x = np.arange(5, dtype=np.float32), np.eye(3, dtype=np.float32)[:2]
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    weights = tf.nest.map_structure(tf.constant, ((kernel, bias), ()))
    output = converted.predict_on_batch(weights, tf.constant(x), training=False)
    np.testing.assert_allclose(
      session.run(output), kernel[:2] + bias, rtol=1e-6
    )


def test_models_with_convolutions_or_loops_are_not_for_xla():
  def is_for_xla(*layers):
    model = tf.keras.Sequential([tf.keras.layers.Input((4, 4, 1)), *layers])
    functional = tff.learning.models.functional_model_from_keras(
      model,
      _CROSS_ENTROPY,
      (
        tf.TensorSpec([None, 4, 4, 1], tf.float32),
        tf.TensorSpec([None], tf.int32),
      ),
    )
    layout = shard_training.layout_of({
      'x': np.zeros((1, 4, 4, 1), np.float32), 'y': np.zeros(1, np.int32)
    })
    return model_conversion.is_for_xla(functional, layout)

  flatten = tf.keras.layers.Flatten  # A new one for each model.
  assert is_for_xla(flatten(), _dense())
  assert not is_for_xla(tf.keras.layers.Conv2D(2, 3), flatten(), _dense())
  assert not is_for_xla(
    tf.keras.layers.Reshape((4, 4)), tf.keras.layers.LSTM(3), _dense()
  )


def _losses(output, y):
  return tf.nn.sparse_softmax_cross_entropy_with_logits(y, output)


def _ignores_the_weights(output, y, sample_weight=None):
  del sample_weight
  return tf.reduce_mean(_losses(output, y))


def _divides_by_rows(output, y, sample_weight=None):  # As Keras does.
  weights = 1.0 if sample_weight is None else sample_weight
  return tf.reduce_mean(_losses(output, y) * weights)


def _with_loss(loss):
  return tff.learning.models.FunctionalModel(
    initial_weights=((np.zeros((3, 5), np.float32),), ()),
    predict_on_batch_fn=tf.function(
      lambda weights, x, training: tf.matmul(x, weights[0][0])
    ),
    loss_fn=loss,
    input_spec=_SPEC,
  )


@pytest.mark.parametrize('loss', [_ignores_the_weights, _divides_by_rows])
def test_a_loss_that_is_no_weighted_mean_is_noticed(loss):
  with pytest.raises(ValueError, match='weighted by sample_weight'):
    model_conversion.check_loss_is_weighted_mean(_with_loss(loss), _LAYOUT)


def test_a_mean_over_rows_becomes_one_by_weights_and_no_other_does():
  model = _with_loss(_divides_by_rows)
  converted = model_conversion.for_batches_that_are_filled_up(model, _LAYOUT)
  rng = np.random.default_rng(1)
  logits = rng.standard_normal((4, 5)).astype(np.float32)
  y = np.array([0, 3, 2, 4], np.int32)
  log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
  losses = -log_p[np.arange(4), y]
  mask = np.array([1, 1, 1, 0], np.float32)
  for weights, mean in ((mask, losses[:3].mean()), (None, losses.mean())):
    loss = converted.loss(logits, y, weights)
    np.testing.assert_allclose(loss, mean, rtol=1e-5)
  with pytest.raises(model_conversion.UnfitError, match='sample_weight') as e:
    model_conversion.for_batches_that_are_filled_up(
      _with_loss(_ignores_the_weights), _LAYOUT
    )
  assert '\n' not in str(e.value)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
