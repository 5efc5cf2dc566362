"""Tests of `character_lstm`, against the Keras model that TFF ships."""

import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_federated.python.simulation.baselines import keras_metrics
from tensorflow_federated.python.simulation.baselines.shakespeare import (
  char_prediction_models,
)

from f3ast_tff.datasets import shakespeare
from f3ast_tff.learning import model_conversion
from f3ast_tff.learning import shard_training
from f3ast_tff.models import character_lstm


def _batch(*lengths, seed=0):
  """Sequences of 81 tokens, of which the first ones are not padding."""
  rng = np.random.default_rng(seed)
  rows = rng.integers(1, 90, (len(lengths), 81)).astype(np.uint8)
  rows[np.arange(81) >= np.array(lengths)[:, None]] = 0
  return rows[:, :-1], rows[:, 1:]


def _larger(weights, seed=0):
  """Weights that are larger than initial ones, so that errors show."""
  rng = np.random.default_rng(seed)
  return tuple(
    tf.constant(w + 0.05 * rng.standard_normal(w.shape), tf.float32)
    for w in weights
  )


@pytest.fixture(scope='module')
def model():
  return character_lstm.build()


@pytest.fixture(scope='module')
def compact():
  return character_lstm.build(variant='compact')


@pytest.fixture(scope='module')
def weights(model):
  return _larger(model.functional.initial_weights[0])


@pytest.fixture(scope='module')
def keras_model(weights):
  keras_model = char_prediction_models.create_recurrent_model(90, 80)
  keras_model.set_weights(weights)
  return keras_model


@pytest.fixture(scope='module')
def run(model):
  """Maps (weights, x, y, sample_weight) to logits, loss and gradients."""

  @tf.function
  def run(weights, x, y, sample_weight):
    with tf.GradientTape() as tape:
      tape.watch(weights)
      logits = model.functional.predict_on_batch(
        (weights, ()), x, training=True
      )
      loss = model.functional.loss(logits, y, sample_weight)
    return logits, loss, tape.gradient(loss, weights)

  return run


@pytest.fixture(scope='module')
def predict(model, weights):
  """Maps x to logits, as evaluation does."""

  def predict(x):
    return model.functional.predict_on_batch((weights, ()), x, training=False)

  return predict


def test_number_of_parameters(model, compact):
  assert model.num_parameters == 820_522
  assert compact.num_parameters == 82_474


def test_tokens_are_those_of_the_data():
  assert character_lstm.NUM_TOKENS == shakespeare.NUM_TOKENS
  assert character_lstm.PAD == shakespeare.PAD
  assert character_lstm.SEQUENCE_LENGTH == shakespeare.SEQUENCE_LENGTH


def test_starts_like_the_keras_model(model):
  ours, non_trainable = model.functional.initial_weights
  tf.keras.utils.set_random_seed(0)
  keras = char_prediction_models.create_recurrent_model(90, 80).get_weights()
  assert not non_trainable
  assert [w.shape for w in ours] == [w.shape for w in keras]
  for w, k in zip(ours, keras):
    assert w.dtype == np.float32
    np.testing.assert_allclose(w.mean(), k.mean(), atol=0.02)
    np.testing.assert_allclose(w.std(), k.std(), rtol=0.05, atol=1e-6)
    np.testing.assert_allclose(np.abs(w).max(), np.abs(k).max(), rtol=0.3)
  for recurrent in (ours[2], ours[5]):
    np.testing.assert_allclose(recurrent @ recurrent.T, np.eye(256), atol=1e-5)
  for bias in (ours[3], ours[6]):
    np.testing.assert_array_equal(bias, np.repeat([0, 1, 0, 0], 256))


def test_seed_decides_the_initial_weights():
  first, again, other = (
    character_lstm.build(seed, 'compact').functional.initial_weights[0]
    for seed in (1, 1, 2)
  )
  np.testing.assert_array_equal(first[2], again[2])
  assert np.abs(first[2] - other[2]).max() > 0.01


def test_forward_and_gradients_equal_keras(run, weights, keras_model):
  x, y = _batch(81, 30, 2, 1)
  logits, loss, gradients = run(weights, x, y, tf.ones(4))
  with tf.GradientTape() as tape:
    keras_logits = keras_model(x, training=True)
    losses = tf.keras.losses.sparse_categorical_crossentropy(
      y, keras_logits, from_logits=True
    )
    is_counted = tf.cast(y != 0, tf.float32)
    keras_loss = tf.reduce_sum(losses * is_counted) / np.sum(y != 0)
  keras_gradients = tape.gradient(keras_loss, keras_model.trainable_variables)
  np.testing.assert_allclose(
    logits[x != 0], keras_logits.numpy()[x != 0], atol=1e-4
  )
  np.testing.assert_allclose(loss, keras_loss, rtol=1e-4)
  assert len(gradients) == len(keras_gradients) == 9
  for ours, keras in zip(gradients, keras_gradients):
    keras = tf.convert_to_tensor(keras)
    assert ours.shape == keras.shape
    scale = np.abs(keras).max()
    assert scale > 0
    np.testing.assert_allclose(ours, keras, atol=1e-4 * scale)


def test_accuracy_counts_what_tff_counts(model, predict, keras_model):
  x, y = _batch(81, 40, 3)
  logits = predict(x)
  # Some of them right, or there would be little to compare.
  y = np.where((y != 0) & (np.arange(80) % 3 == 0), np.argmax(logits, -1), y)
  losses, correct, counts = model.per_example(logits, y)
  accuracy = keras_metrics.MaskedCategoricalAccuracy(masked_tokens=[0])
  accuracy.update_state(y, keras_model(x))
  tokens = keras_metrics.NumTokensCounter(masked_tokens=[0])
  tokens.update_state(y, keras_model(x))
  np.testing.assert_array_equal(counts, [80, 39, 2])
  assert np.sum(counts) == tokens.result()
  np.testing.assert_allclose(
    np.sum(correct) / np.sum(counts), accuracy.result(), rtol=1e-5
  )
  assert losses.shape == (3,)


def test_counts_the_same_in_the_graphs_of_tff(model, predict):
  x, y = _batch(81, 40, 3)
  logits = predict(x).numpy()
  expected = model.per_example(logits, y)
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    actual = session.run(model.per_example(tf.constant(logits), tf.constant(y)))
  np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_loss_is_the_mean_over_characters_by_weight(model, predict):
  x, y = _batch(81, 40, 3)
  logits = predict(x)
  log_p = tf.nn.log_softmax(logits).numpy()
  losses = -np.take_along_axis(log_p, y[..., None].astype(int), 2)[..., 0]
  sample_weight = np.array([0.5, 2.0, 0.0], np.float32)
  weights = sample_weight[:, None] * (y != 0)
  np.testing.assert_allclose(
    model.functional.loss(logits, y, sample_weight),
    np.sum(weights * losses) / np.sum(weights),
    rtol=1e-5,
  )
  np.testing.assert_allclose(
    model.functional.loss(logits, y), losses[y != 0].mean(), rtol=1e-5
  )


def test_rows_of_weight_0_do_not_change_the_gradient(run, weights):
  x, y = _batch(81, 40, 0, 81)
  _, loss, gradients = run(weights, x, y, tf.constant([1.0, 1.0, 1.0, 0.0]))
  _, loss_of_two, gradients_of_two = run(
    weights, x[:2], y[:2], tf.constant([1.0, 1.0])
  )
  np.testing.assert_allclose(loss, loss_of_two, rtol=1e-5)
  for all_rows, two_rows in zip(gradients, gradients_of_two):
    np.testing.assert_allclose(all_rows, two_rows, rtol=1e-3, atol=1e-6)


def test_padding_alone_gives_loss_and_gradients_of_zero(run, weights):
  x, y = _batch(0, 0, 0, 1)
  logits, loss, gradients = run(weights, x, y, tf.ones(4))
  assert np.isfinite(logits).all()
  assert loss == 0
  for gradient in gradients:
    np.testing.assert_array_equal(gradient, np.zeros(gradient.shape))


def test_training_and_evaluation_agree(run, weights, predict):
  x, y = _batch(81, 30, 2, 1)
  logits, _, _ = run(weights, x, y, tf.ones(4))
  np.testing.assert_allclose(logits, predict(x), atol=1e-5)


def test_evaluation_stops_after_the_longest_text(run, weights, predict):
  # 18 tokens are in the first four blocks of five steps.
  x, y = _batch(18, 3, 1)
  logits, _, _ = run(weights, x, y, tf.ones(3))
  got = predict(x)
  assert got.shape == (3, 80, 90)
  np.testing.assert_allclose(got[:, :20], logits[:, :20], atol=1e-5)
  np.testing.assert_array_equal(got[:, 20:], np.zeros((3, 60, 90)))


def test_length_and_evaluation_of_next_to_nothing(predict):
  x, _ = _batch(81, 3, 0)
  assert character_lstm.length(x).numpy().tolist() == [80, 3, 0]
  assert predict(x[2:]).shape == (1, 80, 90)
  assert predict(x[:0]).shape == (0, 80, 90)


@pytest.mark.parametrize('jit_compile', [False, True])
def test_batches_may_have_an_unknown_size_or_be_compiled(compact, jit_compile):
  model = compact.functional
  size = 4 if jit_compile else None
  spec = tf.TensorSpec([size, 80], tf.uint8)

  @tf.function(input_signature=[spec, spec], jit_compile=jit_compile)
  def gradient(x, y):
    weights = tf.nest.map_structure(tf.constant, model.initial_weights[0])
    with tf.GradientTape() as tape:
      tape.watch(weights)
      logits = model.predict_on_batch((weights, ()), x, training=True)
      loss = model.loss(logits, y)
    return loss, tape.gradient(loss, weights)[0]

  x, y = _batch(81, 50, 7, 81)
  loss, of_embedding = gradient(x, y)
  # At first, all 90 tokens are about equally likely.
  assert abs(loss - np.log(90)) < 0.5
  assert np.abs(of_embedding).max() > 0
  assert np.isfinite(of_embedding).all()


def test_is_fit_for_shards(model):
  x, y = _batch(81)
  model_conversion.check_loss_is_weighted_mean(
    model.functional, shard_training.layout_of({'x': x, 'y': y})
  )


def test_learns_a_text(compact):
  model = compact.functional
  rows = np.tile(np.arange(1, 10, dtype=np.uint8), (4, 9))
  x, y = rows[:, :-1], rows[:, 1:]

  @tf.function
  def step(weights):
    with tf.GradientTape() as tape:
      tape.watch(weights)
      logits = model.predict_on_batch((weights, ()), x, training=True)
      loss = model.loss(logits, y)
    gradients = tape.gradient(loss, weights)
    return loss, tuple(w - g for w, g in zip(weights, gradients))

  weights = tf.nest.map_structure(tf.constant, model.initial_weights[0])
  losses = []
  for _ in range(60):
    loss, weights = step(weights)
    losses.append(float(loss))
  assert losses[0] > 4
  assert losses[-1] < 1


def test_unknown_variant():
  with pytest.raises(ValueError, match='one of paper, compact, but it is .big'):
    character_lstm.build(variant='big')


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
