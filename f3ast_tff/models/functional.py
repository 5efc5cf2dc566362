"""Functional models whose loss fits batches that are filled up.

A model is a forward pass and a per-example metric. From the two come a
`tff.learning.models.FunctionalModel` whose loss is the mean weighted by
`sample_weight` (rows that only fill up a batch weigh 0), and what evaluation
needs to sum loss and accuracy per client.
"""

from collections.abc import Callable
import dataclasses
from typing import Any, Optional

import tensorflow as tf
import tensorflow_federated as tff


@dataclasses.dataclass(frozen=True)
class Model:
  """A model with its per-example metrics.

  Attributes:
    functional: The `tff.learning.models.FunctionalModel`.
    per_example: Maps (output, y) to three vectors with one entry per example:
      the sum of the losses, of the correct predictions, and the number of
      predictions (1 for classification; characters for language models).
    length: Maps x, an array or a tensor, to the length of each example, for a
      model whose forward pass takes as long as the longest of its batch: tests
      take examples of like length together. None if length does not matter.
    xla: Whether local training is compiled with XLA, which pays for models of
      small operations; docs/performance.md has the measurements.
  """

  functional: tff.learning.models.FunctionalModel
  per_example: Callable[[Any, Any], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]
  length: Optional[Callable[[Any], tf.Tensor]] = None
  xla: bool = False

  @property
  def num_parameters(self) -> int:
    """The number of trainable parameters."""
    return sum(w.size for w in self.functional.initial_weights[0])


def forward_pass(
  model: tff.learning.models.FunctionalModel,
) -> Callable[..., Any]:
  """Returns `model.predict_on_batch` without AutoGraph around it.

  AutoGraph writes files to the temporary folder, where they stay if a program
  is killed. A model whose own function needs it has it there.

  Args:
    model: The model.

  Returns:
    A function of the same arguments, to be called where a graph is traced.
  """
  return model.predict_on_batch.python_function


def build(
  initial_weights: tuple[Any, Any],
  forward: Callable[[Any, Any, bool], Any],
  per_example: Callable[[Any, Any], tuple[tf.Tensor, tf.Tensor, tf.Tensor]],
  input_spec: tuple[Any, Any],
  length: Optional[Callable[[Any], tf.Tensor]] = None,
  xla: bool = False,
) -> Model:
  """Builds a model from a forward pass and per-example metrics.

  Args:
    initial_weights: (trainable, non-trainable), tuples of NumPy arrays.
    forward: Maps (weights, x, training) to outputs.
    per_example: See `Model`.
    input_spec: `tf.TensorSpec`s of a batch (x, y).
    length: See `Model`.
    xla: See `Model`.

  Returns:
    The model.
  """

  def loss(output, y, sample_weight=None):
    losses, _, counts = per_example(output, y)
    if sample_weight is not None:
      losses, counts = losses * sample_weight, counts * sample_weight
    return tf.math.divide_no_nan(
      tf.reduce_sum(losses), tf.reduce_sum(counts)
    )

  functional = tff.learning.models.FunctionalModel(
    initial_weights=initial_weights,
    predict_on_batch_fn=tf.function(forward, autograph=False),
    loss_fn=loss,
    input_spec=input_spec,
  )
  return Model(functional, per_example, length, xla)


def cross_entropy(
  logits: tf.Tensor, labels: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
  """Returns per-example loss, correctness and count for classification."""
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
  predicted = tf.argmax(logits, axis=-1, output_type=labels.dtype)
  correct = tf.cast(tf.equal(predicted, labels), tf.float32)
  return losses, correct, tf.ones_like(losses)
