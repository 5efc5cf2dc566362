"""Local training on packed clients, the fast path.

A participant is one array (see `packing`). Reading it, all local steps, and
weighing the update are one TensorFlow computation, because what a round of a
small model costs is passing values, not arithmetic.
"""

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import local_training
from f3ast_tff import packing

# Maps (trainable, non-trainable, packed, num_examples) to the trained weights
# and the sum of the examples' losses.
Train = Callable[[Any, Any, tf.Tensor, tf.Tensor], tuple[Any, tf.Tensor]]


def packed_type(layout: packing.Layout) -> tff.types.TensorType:
  """Returns the type of a packed client."""
  return tff.types.TensorType(np.uint8, [None, layout.width])


def read_header(packed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
  """Returns (num_examples, index, weight) from row 0 of a packed client."""
  words = tf.reshape(packed[0, : packing.HEADER.itemsize], [3, 4])
  num_examples, index = tf.unstack(tf.bitcast(words[:2], tf.int32))
  return num_examples, index, tf.bitcast(words[2], tf.float32)


def _read_fields(
  rows: tf.Tensor, layout: packing.Layout
) -> collections.OrderedDict[str, tf.Tensor]:
  """Returns the fields of some rows as tensors with a leading axis."""
  fields: collections.OrderedDict[str, tf.Tensor] = collections.OrderedDict()
  start = 0
  for name, shape, kind in layout.fields:
    dtype = np.dtype(kind)
    size = int(np.prod(shape, dtype=int)) * dtype.itemsize
    field = rows[:, start : start + size]
    if dtype.itemsize > 1:
      field = tf.reshape(field, [rows.shape[0], *shape, dtype.itemsize])
      field = tf.bitcast(field, tf.dtypes.as_dtype(dtype))
    else:
      field = tf.cast(field, tf.dtypes.as_dtype(dtype))
    fields[name] = tf.reshape(field, [rows.shape[0], *shape])
    start += size
  return fields


def read_batch(
  packed: tf.Tensor,
  batch: tf.Tensor,
  batch_size: int,
  num_examples: tf.Tensor,
  layout: packing.Layout,
) -> tuple[collections.OrderedDict[str, tf.Tensor], tf.Tensor]:
  """Returns the fields of a batch, and 1 for its examples, 0 for filling."""
  first = batch * batch_size
  rows = tf.slice(packed, [1 + first, 0], [batch_size, layout.width])
  is_example = first + tf.range(batch_size) < num_examples
  return _read_fields(rows, layout), tf.cast(is_example, tf.float32)


def check_loss_is_weighted_mean(
  model: tff.learning.models.FunctionalModel, layout: packing.Layout
) -> None:
  """Raises unless `model.loss` is a mean weighted by `sample_weight`.

  The last batch of a client is filled up with rows of weight 0. A loss that
  divides by the number of rows instead of the sum of the weights would train on
  too small a gradient there, silently.

  Args:
    model: The model.
    layout: The layout of its examples, with fields x and y.
  """
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    ones = {
      name: tf.ones([4, *shape], tf.dtypes.as_dtype(np.dtype(kind)))
      for name, shape, kind in layout.fields
    }
    weights = tf.nest.map_structure(tf.constant, model.initial_weights)
    output = model.predict_on_batch(weights, ones['x'], training=False)
    mask = tf.constant([1.0, 1.0, 1.0, 0.0])
    of_all = model.loss(output, ones['y'])
    of_three = model.loss(output, ones['y'], mask)
    of_all, of_three = session.run([of_all, of_three])
  # The four rows are equal, so the mean over three of them is that of all.
  if not np.allclose(of_all, of_three, rtol=1e-4):
    raise ValueError(
      'The loss of a model for packed clients must be the mean of the '
      'per-example losses weighted by sample_weight; this one is '
      f'{of_all:g} on four equal rows but {of_three:g} when one has weight 0.'
    )


def local_steps(
  model: tff.learning.models.FunctionalModel,
  client_optimizer: tff.learning.optimizers.Optimizer,
  layout: packing.Layout,
  batch_size: int,
  jit_compile: bool = True,
) -> Train:
  """Returns the function that trains on a packed client, in TensorFlow.

  Args:
    model: As in `build`.
    client_optimizer: The optimizer of local training.
    layout: The layout of the examples, with fields x and y.
    batch_size: The size of a local batch.
    jit_compile: Whether XLA compiles the loop.

  Returns:
    The function.
  """

  def train(received, non_trainable, packed, num_examples):
    optimizer_state = client_optimizer.initialize(
      tf.nest.map_structure(tf.TensorSpec.from_tensor, received)
    )

    def step(batch, trainable, optimizer_state, loss_sum):
      fields, mask = read_batch(
        packed, batch, batch_size, num_examples, layout
      )
      with tf.GradientTape() as tape:
        tape.watch(trainable)
        output = model.predict_on_batch(
          (trainable, non_trainable), fields['x'], training=True
        )
        loss = model.loss(output, fields['y'], mask)
      gradients = tape.gradient(loss, trainable)
      optimizer_state, trainable = client_optimizer.next(
        optimizer_state, trainable, gradients
      )
      loss_sum += loss * tf.reduce_sum(mask)
      return batch + 1, trainable, optimizer_state, loss_sum

    num_batches = (num_examples + batch_size - 1) // batch_size
    _, trained, _, loss_sum = tf.while_loop(
      lambda batch, *_: batch < num_batches,
      step,
      (tf.constant(0), received, optimizer_state, tf.constant(0.0)),
      parallel_iterations=1,
    )
    return trained, loss_sum

  return tf.function(train, jit_compile=jit_compile)


def build(
  model: tff.learning.models.FunctionalModel,
  client_optimizer: tff.learning.optimizers.Optimizer,
  num_clients: int,
  layout: packing.Layout,
  batch_size: int,
  jit_compile: bool = True,
) -> local_training.LocalTraining:
  """Local training on packed clients: one pass over the rows, in order.

  Args:
    model: A `FunctionalModel` whose loss is a mean weighted by `sample_weight`.
    client_optimizer: The optimizer of local training.
    num_clients: N.
    layout: The layout of the examples, with fields x and y.
    batch_size: The size of a local batch; the last one may hold fewer.
    jit_compile: Whether XLA compiles the loop, which pays for small models.

  Returns:
    A `LocalTraining` whose participants are arrays from `packing.pack`.
  """
  check_loss_is_weighted_mean(model, layout)
  initial_weights = local_training.initial_weights_of(model)
  weights_type = initial_weights.type_signature.result

  @tff.tensorflow.computation(weights_type, packed_type(layout))
  def contribute_locally(weights, packed):
    num_examples, index, weight = read_header(packed)
    received = tuple(weights.trainable)
    # Made here: a function traced in one graph cannot be used in another.
    train = local_steps(
      model, client_optimizer, layout, batch_size, jit_compile
    )
    trained, loss_sum = train(
      received, tuple(weights.non_trainable), packed, num_examples
    )
    update = tf.nest.map_structure(tf.subtract, received, trained)
    measurements = collections.OrderedDict(
      loss_sum=loss_sum, num_examples=tf.cast(num_examples, tf.float32)
    )
    return local_training.contribution_of(
      update,
      local_training.is_finite(update),
      index,
      weight,
      measurements,
      num_clients,
    )

  def contribute(state, weights, participants):
    contributions = tff.federated_map(
      contribute_locally, (weights, participants)
    )
    return state, contributions, {}

  def finalize(sums):
    loss = tf.math.divide_no_nan(sums['loss_sum'], sums['num_examples'])
    return collections.OrderedDict(
      train=collections.OrderedDict(
        loss=loss, num_examples=sums['num_examples']
      )
    )

  @tff.federated_computation
  def initialize():
    return tff.federated_value((), tff.SERVER)

  return local_training.LocalTraining(
    initial_weights=initial_weights,
    initialize=initialize,
    participant_type=packed_type(layout),
    tally_type=contribute_locally.type_signature.result.tally,
    contribute=contribute,
    finalize=finalize,
  )
