"""A TFF user's model, made ready for training on shards.

TFF's models may keep variables. Training is much faster on a model that is a
function of its weights (`shard_training`; docs/performance.md has how much).
What cannot be turned into one raises `UnfitError`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff.learning import client_work
from f3ast_tff.learning import shard_training

# Operations that XLA is slower at on CPUs than TensorFlow: convolutions, which
# oneDNN does, and the loops of recurrent layers.
_NOT_FOR_XLA = ('Conv', 'While', 'TensorList', 'MaxPool', 'AvgPool')


class UnfitError(ValueError):
  """The model cannot be trained on shards."""


def operations(graph: Any) -> Iterator[str]:
  """Yields the operations of a graph and of the functions in it."""
  for nodes in (graph.node, *(f.node_def for f in graph.library.function)):
    for node in nodes:
      yield node.op


def functional(
  model: client_work.TffModel,
) -> tff.learning.models.FunctionalModel:
  """Returns a model as a function of its weights.

  Args:
    model: A `FunctionalModel`, or a function that returns a
      `tff.learning.models.VariableModel`.

  Returns:
    The `FunctionalModel`.

  Raises:
    UnfitError: If it cannot be had.
  """
  if isinstance(model, tff.learning.models.FunctionalModel):
    return model
  variable_model: Any = model()
  # TFF's wrapper around Keras models offers what it wraps in no other way.
  keras_model = getattr(variable_model, '_keras_model', None)
  losses: Any = getattr(variable_model, '_loss_fns', ())
  if keras_model is None or len(losses) != 1:
    raise UnfitError('the model is neither functional nor a Keras model')
  if keras_model.non_trainable_variables:
    raise UnfitError('the Keras model has weights that are not trained')
  if keras_model.losses:
    raise UnfitError('the Keras model has regularizers')
  try:
    return tff.learning.models.functional_model_from_keras(
      keras_model, losses[0], variable_model.input_spec
    )
  except Exception as error:  # Keras raises of all kinds.
    why = str(error).strip().partition('\n')[0].partition('. ')[0]
    raise UnfitError(
      f'the Keras model is no function of its weights ({why})'
    ) from error


def _mean_by_weights(
  model: tff.learning.models.FunctionalModel,
) -> tff.learning.models.FunctionalModel:
  """Returns a model whose loss is divided by the weights, not by the rows."""

  def loss(output, label, sample_weight=None):
    value = model.loss(output, label, sample_weight)
    if sample_weight is None:
      return value
    rows = tf.cast(tf.shape(sample_weight)[0], value.dtype)
    return tf.math.divide_no_nan(value * rows, tf.reduce_sum(sample_weight))

  return tff.learning.models.FunctionalModel(
    initial_weights=model.initial_weights,
    predict_on_batch_fn=tf.function(model.predict_on_batch, autograph=False),
    loss_fn=loss,
    input_spec=model.input_spec,
  )


def check_loss_is_weighted_mean(
  model: tff.learning.models.FunctionalModel, layout: shard_training.Layout
) -> None:
  """Raises unless `model.loss` is a mean weighted by `sample_weight`.

  The last batch of a client is filled up with rows of weight 0. A loss that
  ignores the weights would train on these rows, and one that divides by the
  number of rows on too small a gradient, silently.

  Args:
    model: The model.
    layout: The layout of its examples, with fields x and y.
  """

  def some_weights(initial):
    # A model that starts at zeros tells no two rows apart.
    weights = np.asarray(initial)
    noise = 0.1 * np.cos(np.arange(weights.size)).reshape(weights.shape)
    return tf.constant((weights + noise).astype(weights.dtype))

  # Rows of zeros may be padding to a model, and count for nothing; so each of
  # the two kinds is once what counts and once what only fills up.
  rows = np.array([1, 1, 0, 0])
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    fields = {
      name: tf.constant(np.stack([np.full(shape, row, dtype) for row in rows]))
      for name, shape, dtype in layout
    }
    weights = tf.nest.map_structure(some_weights, model.initial_weights)
    output = model.predict_on_batch(weights, fields['x'], training=False)

    def loss_of(some, mask=None):
      of_some = tf.nest.map_structure(lambda o: o[some], (output, fields['y']))
      return model.loss(*of_some, mask)

    pairs = session.run([
      (loss_of(slice(0, 2)), loss_of(slice(0, 3), tf.constant([1.0, 1, 0]))),
      (loss_of(slice(2, 4)), loss_of(slice(1, 4), tf.constant([0.0, 1, 1]))),
    ])
  for alone, filled_up in pairs:
    if not np.allclose(alone, filled_up, rtol=1e-4):
      raise ValueError(
        'The loss of a model that trains on shards must be the mean of the '
        'per-example losses weighted by sample_weight; this one is '
        f'{alone:g} on two rows but {filled_up:g} next to a third of weight 0.'
      )


def for_batches_that_are_filled_up(
  model: tff.learning.models.FunctionalModel, layout: shard_training.Layout
) -> tff.learning.models.FunctionalModel:
  """Returns a model whose loss leaves out rows that only fill up a batch.

  Args:
    model: The model. Losses of Keras divide by the number of rows.
    layout: The layout of the examples.

  Returns:
    A model that computes the same.

  Raises:
    UnfitError: If its loss does not look at `sample_weight`.
  """
  for candidate in (model, _mean_by_weights(model)):
    try:
      check_loss_is_weighted_mean(candidate, layout)
      return candidate
    except ValueError as error:
      last = error
  # What TensorFlow says begins with where in the code; the reason comes last.
  why = str(last).strip().splitlines()[-1].partition(';')[0].rstrip('.')
  raise UnfitError(f'{why[:1].lower()}{why[1:]}') from last


def is_for_xla(
  model: tff.learning.models.FunctionalModel, layout: shard_training.Layout
) -> bool:
  """Returns whether a model is made of operations that XLA is good at."""
  with tf.Graph().as_default() as graph:
    fields = {
      name: tf.zeros([1, *shape], dtype) for name, shape, dtype in layout
    }
    weights = tf.nest.map_structure(tf.constant, model.initial_weights)
    model.predict_on_batch(weights, fields['x'], training=True)
  return not any(
    operation.startswith(_NOT_FOR_XLA) or 'Random' in operation
    for operation in operations(graph.as_graph_def())
  )
