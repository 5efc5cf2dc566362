"""Softmax regression, the model for Synthetic(a, b)."""

import numpy as np
import tensorflow as tf

from f3ast_tff.models import functional


def build(num_features: int = 60, num_classes: int = 10) -> functional.Model:
  """Builds softmax regression, started at zero: the problem is convex."""

  def forward(weights, x, training):
    del training
    (kernel, bias), _ = weights
    return tf.matmul(x, kernel) + bias

  return functional.build(
    initial_weights=(
      (
        np.zeros((num_features, num_classes), np.float32),
        np.zeros(num_classes, np.float32),
      ),
      (),
    ),
    forward=forward,
    per_example=functional.cross_entropy,
    input_spec=(
      tf.TensorSpec([None, num_features], tf.float32),
      tf.TensorSpec([None], tf.int32),
    ),
    xla=True,
  )
