"""Tests of `lstm_layer`, against a plain loop and TensorFlow's gradient."""

import sys

import numpy as np
import pytest
from scipy import special
import tensorflow as tf

from f3ast_tff.models import lstm_layer

_TIME, _BATCH, _SIZE, _UNITS = 2 * lstm_layer.BLOCK, 3, 4, 16


@pytest.fixture(name='arguments')
def _arguments():
  rng = np.random.default_rng(0)
  shapes = (
    (_TIME, _BATCH, _SIZE),
    (_SIZE, 4 * _UNITS),
    (_UNITS, 4 * _UNITS),
    (1, 4 * _UNITS),
  )
  return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def _widened(arguments):
  inputs, *weights = map(tf.constant, arguments)
  return [inputs, *map(lstm_layer.widen, weights)]


def test_outputs_by_hand(arguments):
  inputs, kernel, recurrent, bias = (a.astype(np.float64) for a in arguments)
  h = c = np.zeros((_BATCH, _UNITS))
  expected = []
  for x in inputs:
    i, f, g, o = np.split(x @ kernel + h @ recurrent + bias, 4, axis=1)
    c = special.expit(f) * c + special.expit(i) * np.tanh(g)
    h = special.expit(o) * np.tanh(c)
    expected.append(h)
  outputs = lstm_layer.lstm(*_widened(arguments))
  np.testing.assert_allclose(outputs, expected, atol=1e-5)
  (alone,) = lstm_layer.run(*_widened(arguments), outputs_only=True)
  np.testing.assert_allclose(alone, expected, atol=1e-5)


def test_the_gradient_equals_that_of_tensorflow(arguments):
  gradients = []
  for layer in (
    lstm_layer.lstm, lambda *a: lstm_layer.run(*a, outputs_only=True)[0]
  ):
    given = list(map(tf.constant, arguments))
    with tf.GradientTape() as tape:
      tape.watch(given)
      outputs = layer(given[0], *map(lstm_layer.widen, given[1:]))
      # Each output counts differently.
      total = tf.reduce_sum(outputs * tf.cos(tf.range(16.0)) * outputs)
    gradients.append(tape.gradient(total, given))
  for one, other in zip(*gradients):
    assert np.abs(other).max() > 0.1  # The test can tell.
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
