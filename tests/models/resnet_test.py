"""Tests of the residual networks, against the Keras model that TFF ships."""

import re
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_federated.python.simulation.models import resnet_models

from f3ast_tff.datasets import cifar100
from f3ast_tff.learning import model_conversion
from f3ast_tff.learning import shard_training
from f3ast_tff.models import resnet


@pytest.fixture(name='paper', scope='module')
def _paper():
  return resnet.build(seed=1)


@pytest.fixture(name='compact', scope='module')
def _compact():
  return resnet.build(seed=1, variant='compact')


@pytest.fixture(name='keras_model', scope='module')
def _keras_model():
  return resnet_models.create_resnet18((24, 24, 3), num_classes=100)


def _in_order_made(keras_model, model):
  """Returns the Keras variables in the order in which the layers were made.

  Keras lists the layers by depth, where a shortcut comes elsewhere. Names end
  in the number of the layer among those of its kind. A normalisation is made
  right before or after the convolution it belongs to, so the shapes of our
  weights tell how the two kinds alternate.
  """

  def number(layer):
    return int((re.findall(r'_(\d+)$', layer.name) or ['0'])[0])

  def variables(kind):
    layers = [x for x in keras_model.layers if isinstance(x, kind)]
    return iter(
      [v for x in sorted(layers, key=number) for v in x.trainable_weights]
    )

  kinds = {
    4: variables(tf.keras.layers.Conv2D),
    1: variables(tf.keras.layers.GroupNormalization),
  }
  *body, _, _ = model.functional.initial_weights[0]
  ordered = [next(kinds[w.ndim]) for w in body]
  assert not any(list(rest) for rest in kinds.values())
  return [*ordered, *variables(tf.keras.layers.Dense)]


def _batch(size, seed=0):
  rng = np.random.default_rng(seed)
  x = rng.integers(0, 256, (size, 24, 24, 3)).astype(np.uint8)
  y = rng.integers(0, 100, size).astype(np.int32)
  return x, y


def _value_and_gradients(model, weights, x, y):
  weights = tuple(map(tf.constant, weights))
  with tf.GradientTape() as tape:
    tape.watch(weights)
    logits = model.functional.predict_on_batch((weights, ()), x, training=True)
    loss = model.functional.loss(logits, y)
  return logits, loss, tape.gradient(loss, weights)


def test_weights_have_the_shapes_of_those_of_tff(paper, keras_model):
  weights = paper.functional.initial_weights[0]
  assert paper.num_parameters == keras_model.count_params() == 11_227_812
  assert [w.shape for w in weights] == [
    tuple(v.shape) for v in _in_order_made(keras_model, paper)
  ]
  assert {w.dtype for w in weights} == {np.dtype(np.float32)}


def _distance_of_gradients(paper, keras_model, seed):
  """Returns how far gradients are apart, once outputs are found equal."""
  x, y = _batch(2, seed)
  rng = np.random.default_rng(seed + 1)
  weights = [
    # Scales, offsets and the bias too, so that their places matter.
    w + 0.1 * rng.standard_normal(w.shape).astype(np.float32) * (w.ndim == 1)
    for w in paper.functional.initial_weights[0]
  ]
  variables = _in_order_made(keras_model, paper)
  for variable, weight in zip(variables, weights):
    variable.assign(weight)
  images = tf.image.per_image_standardization(tf.cast(x, tf.float32))
  with tf.GradientTape() as tape:
    probabilities = keras_model(images, training=True)
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy()
    of_keras = cross_entropy(y, probabilities)
    # As in `tff.learning.models.from_keras_model`.
    penalized = tf.add_n([of_keras, *keras_model.losses])
  expected = tape.gradient(penalized, variables)

  logits, loss, gradients = _value_and_gradients(paper, weights, x, y)
  np.testing.assert_allclose(tf.nn.softmax(logits), probabilities, atol=1e-4)
  np.testing.assert_allclose(
    tf.nn.log_softmax(logits), np.log(probabilities), atol=1e-4
  )
  np.testing.assert_allclose(loss, of_keras, atol=1e-4)
  return max(
    np.linalg.norm(gradient - reference) / np.linalg.norm(reference)
    for gradient, reference in zip(gradients, expected)
  )


def test_outputs_and_gradients_are_those_of_tff(paper, keras_model):
  distances = [_distance_of_gradients(paper, keras_model, i) for i in range(3)]
  # A rectifier whose input is 0 but for rounding passes a gradient on or not,
  # as the processor rounds: 0.015 in a rare batch, where others have 3e-6.
  assert np.median(distances) < 1e-4, distances


def test_the_penalty_is_of_kernels_and_the_last_bias(compact):
  x, y = _batch(2)
  weights = compact.functional.initial_weights[0]
  weights = [*weights[:-1], np.ones(100, np.float32)]
  penalized = resnet.build(variant='compact', l2_penalty=0.25)
  _, loss, gradients = _value_and_gradients(compact, weights, x, y)
  _, same_loss, others = _value_and_gradients(penalized, weights, x, y)
  np.testing.assert_allclose(same_loss, loss, rtol=1e-5)
  for i, (weight, one, other) in enumerate(zip(weights, gradients, others)):
    is_penalized = weight.ndim > 1 or i == len(weights) - 1
    np.testing.assert_allclose(
      other - one,
      2 * (0.25 - resnet.L2_PENALTY) * weight * is_penalized,
      rtol=1e-3,
      atol=1e-4,
    )


def test_initial_weights_are_distributed_as_those_of_tff(paper):
  keras_model = resnet_models.create_resnet18((24, 24, 3), num_classes=100)
  fresh = _in_order_made(keras_model, paper)
  weights = paper.functional.initial_weights[0]
  for weight, variable in zip(weights, fresh):
    reference = variable.numpy()
    if weight.ndim == 1:
      np.testing.assert_array_equal(weight, reference)
      continue
    # Five standard errors of the ratio of two standard deviations.
    tolerance = 5 / np.sqrt(weight.size)
    assert weight.std() / reference.std() == pytest.approx(1, abs=tolerance)
    assert abs(weight.mean()) < tolerance * weight.std()
    if weight.ndim == 4:  # Both are cut off at the same place.
      cut = 2 * np.sqrt(2 / np.prod(weight.shape[:3])) / 0.87962566103423978
      for values in (weight, reference):
        assert 0.98 * cut < np.abs(values).max() <= 1.000001 * cut


def test_initial_weights_are_a_pure_function_of_the_seed():
  one, same, other = (
    resnet.build(seed, 'compact').functional.initial_weights[0]
    for seed in (1, 1, 2)
  )
  for a, b in zip(one, same):
    np.testing.assert_array_equal(a, b)
  assert (one[0] != other[0]).any()


def test_standardisation_is_that_of_tensorflow():
  x, _ = _batch(5)
  x[1] = 0  # As in rows that only fill up a batch.
  x[2] = 255
  x[3] = 7
  x[3, 0, 0, 0] = 8
  np.testing.assert_allclose(
    resnet.standardize(tf.constant(x)),
    tf.image.per_image_standardization(tf.cast(x, tf.float32)),
    atol=1e-4,
  )


def test_images_do_not_influence_each_other(compact):
  x, _ = _batch(3)
  other = x.copy()
  other[[0, 2]] = 0

  def logits(images):
    return compact.functional.predict_on_batch(
      compact.functional.initial_weights, images, training=False
    )

  np.testing.assert_allclose(logits(x)[1], logits(other)[1], atol=1e-5)


def _convolution_flops(model, variant):
  """Multiplications and additions of all convolutions for one image."""
  with tf.Graph().as_default() as graph:
    weights = [
      tf.compat.v1.placeholder(tf.float32, w.shape)
      for w in model.functional.initial_weights[0]
    ]
    x = tf.compat.v1.placeholder(tf.uint8, [1, 24, 24, 3])
    resnet._logits(resnet.ARCHITECTURES[variant], 0.0, weights, x)
  return sum(
    2
    * op.inputs[1].shape[:3].num_elements()
    * op.outputs[0].shape.num_elements()
    for op in graph.get_operations()
    if op.type == 'Conv2D'
  )


def test_sizes_and_costs_are_as_documented(paper, compact):
  assert compact.num_parameters == 83_716
  assert _convolution_flops(paper, 'paper') == pytest.approx(806e6, rel=0.01)
  # First convolution, two blocks, the shortcut between them.
  flops = 2 * (27 * 32 * 144 + 2 * 288 * 32 * 36)
  flops += 2 * (288 * 64 * 9 + 576 * 64 * 9 + 32 * 64 * 9)
  assert flops == pytest.approx(2.6e6, rel=0.01)
  assert _convolution_flops(compact, 'compact') == flops


def test_the_model_fits_shards(compact):
  x, y = _batch(3)
  layout = shard_training.layout_of({'x': x, 'y': y})
  model_conversion.check_loss_is_weighted_mean(compact.functional, layout)


@pytest.mark.slow
def test_the_compact_model_learns_the_sample(compact):
  dataset = cifar100.load('sample')
  x = np.concatenate([examples['x'] for examples in dataset.train])
  y = np.concatenate([examples['y'] for examples in dataset.train])
  model = compact
  weights = tuple(map(tf.constant, model.functional.initial_weights[0]))

  @tf.function
  def step(weights, x, y):
    with tf.GradientTape() as tape:
      tape.watch(weights)
      logits = model.functional.predict_on_batch((weights, ()), x, True)
      loss = model.functional.loss(logits, y)
    gradients = tape.gradient(loss, weights)
    return tuple(w - 0.05 * g for w, g in zip(weights, gradients))

  rng = np.random.default_rng(0)
  for _ in range(60):
    rows = rng.choice(len(y), 20, replace=False)
    batch = cifar100.augment({'x': x[rows], 'y': y[rows]}, rng)
    weights = step(weights, batch['x'], batch['y'])
  logits = model.functional.predict_on_batch(
    (weights, ()), dataset.test['x'], False
  )
  _, correct, _ = model.per_example(logits, dataset.test['y'])
  # Guessing among ten classes gives 0.1; four orders of the batches gave 0.54
  # to 0.79.
  assert np.mean(correct) > 0.3


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (dict(variant='tiny'), "ResNet must be one of paper, .*, but it is 'tiny'"),
    (dict(l2_penalty=-1.0), 'L2 penalty must be a number >= 0, but it is -1.0'),
  ],
)
def test_bad_input_is_named(arguments, message):
  with pytest.raises(ValueError, match=message):
    resnet.build(**arguments)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
