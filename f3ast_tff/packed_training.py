"""Local training on packed clients, the fast path.

A participant of the TFF computation is one array, which holds one client or
several (see `packing`). Reading it, all local steps of its clients one after
the other, and the sum of their weighted updates are one TensorFlow computation,
because what a round of a small model costs is passing values, not arithmetic.
"""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import local_training
from f3ast_tff import packing


class Batch(NamedTuple):
  """A batch of a client.

  Attributes:
    fields: The fields of its examples, by name.
    mask: 1 for examples, 0 for rows that only fill up.
  """

  fields: collections.OrderedDict[str, tf.Tensor]
  mask: tf.Tensor


def packed_type(layout: packing.Layout) -> tff.types.TensorType:
  """Returns the type of a packed array."""
  return tff.types.TensorType(np.uint8, [None, layout.width])


def _read_clients(packed: tf.Tensor) -> tf.Tensor:
  """Returns a row of four numbers for each client: see `packing.CLIENT`."""
  num_clients = tf.bitcast(packed[0, :4], tf.int32)
  table = tf.slice(
    packed, [1, 0], [num_clients, packing.CLIENT.itemsize]
  )
  return tf.bitcast(tf.reshape(table, [-1, 4, 4]), tf.int32)


def _read_batches(
  packed: tf.Tensor,
  num_clients: tf.Tensor,
  layout: packing.Layout,
  batch_size: int,
) -> Batch:
  """Returns all batches of an array, along a first axis."""
  rows = tf.slice(packed, [1 + num_clients, 0], [-1, layout.width])
  fields: collections.OrderedDict[str, tf.Tensor] = collections.OrderedDict()
  start = 0
  for name, shape, kind in layout.fields:
    dtype = np.dtype(kind)
    size = int(np.prod(shape, dtype=int)) * dtype.itemsize
    field = rows[:, start : start + size]
    if dtype.itemsize > 1:
      field = tf.reshape(field, [-1, size // dtype.itemsize, dtype.itemsize])
      field = tf.bitcast(field, tf.dtypes.as_dtype(dtype))
    else:
      field = tf.cast(field, tf.dtypes.as_dtype(dtype))
    fields[name] = tf.reshape(field, [-1, batch_size, *shape])
    start += size
  mask = tf.reshape(tf.cast(rows[:, -1], tf.float32), [-1, batch_size])
  return Batch(fields, mask)


def fold_clients(
  packed: tf.Tensor,
  layout: packing.Layout,
  batch_size: int,
  start: Any,
  step: Callable[[Any, Batch], Any],
  finish: Callable[[Any, Any, tf.Tensor, tf.Tensor], Any],
  totals: Any,
) -> Any:
  """Goes through the clients of a packed array, in TensorFlow.

  TFF's worker does not compile with XLA, so each operation of a step counts:
  what can be done for all batches at once is done before the loops.

  Args:
    packed: The array.
    layout: The layout of its examples.
    batch_size: The size of a batch.
    start: What each client starts with, a structure of tensors.
    step: Maps (what the client has so far, a batch) to what it has then.
    finish: Maps (totals, what the client has in the end, its index, its weight)
      to the new totals.
    totals: The totals before the first client.

  Returns:
    The totals after the last client.
  """
  table = _read_clients(packed)
  num_clients = tf.shape(table)[0]
  batches = _read_batches(packed, num_clients, layout, batch_size)

  def train_client(number, totals):
    index, weight, first, end = tf.unstack(table[number])

    def next_batch(b, own):
      batch = tf.nest.map_structure(lambda all_: tf.gather(all_, b), batches)
      return b + 1, step(own, batch)

    _, own = tf.while_loop(
      lambda b, _: b < end, next_batch, (first, start), parallel_iterations=1
    )
    weight = tf.bitcast(weight, tf.float32)
    return number + 1, finish(totals, own, index, weight)

  _, totals = tf.while_loop(
    lambda number, _: number < num_clients,
    train_client,
    (tf.constant(0), totals),
    parallel_iterations=1,
  )
  return totals


class Examples(NamedTuple):
  """All examples of an array.

  Attributes:
    clients: The indices of its clients.
    fields: The fields of the examples, by name.
    owners: Whose each example is: a place in `clients`.
  """

  clients: tf.Tensor
  fields: collections.OrderedDict[str, tf.Tensor]
  owners: tf.Tensor


def read_examples(packed: tf.Tensor, layout: packing.Layout) -> Examples:
  """Reads an array that was packed with batches of 1."""
  table = _read_clients(packed)
  num_clients = tf.shape(table)[0]
  batches = _read_batches(packed, num_clients, layout, batch_size=1)
  clients, _, first, end = tf.unstack(table, axis=1)
  return Examples(
    clients,
    tf.nest.map_structure(lambda field: field[:, 0], batches.fields),
    tf.repeat(tf.range(num_clients), end - first),
  )


def check_loss_is_weighted_mean(
  model: tff.learning.models.FunctionalModel, layout: packing.Layout
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
      name: tf.constant(
        np.stack([np.full(shape, row, np.dtype(kind)) for row in rows])
      )
      for name, shape, kind in layout.fields
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
        'The loss of a model for packed clients must be the mean of the '
        'per-example losses weighted by sample_weight; this one is '
        f'{alone:g} on two rows but {filled_up:g} beside a third of weight 0.'
      )


class Trained(NamedTuple):
  """A client after some of its local steps.

  Attributes:
    trainable: Its weights.
    optimizer_state: The state of its optimizer.
    loss_sum: The sum of its examples' losses, each before the step it is in.
    num_examples: How many examples it has trained on.
  """

  trainable: Any
  optimizer_state: Any
  loss_sum: tf.Tensor
  num_examples: tf.Tensor


def untrained(
  client_optimizer: tff.learning.optimizers.Optimizer, trainable: Any
) -> Trained:
  """Returns a client that has just received the model."""
  specs = tf.nest.map_structure(tf.TensorSpec.from_tensor, trainable)
  return Trained(
    trainable,
    client_optimizer.initialize(specs),
    tf.constant(0.0),
    tf.constant(0.0),
  )


def local_step(
  model: tff.learning.models.FunctionalModel,
  client_optimizer: tff.learning.optimizers.Optimizer,
  non_trainable: Any,
) -> Callable[[Trained, Batch], Trained]:
  """Returns the function that trains on a batch, for `fold_clients`."""

  def step(own, batch):
    with tf.GradientTape() as tape:
      tape.watch(own.trainable)
      output = model.predict_on_batch(
        (own.trainable, non_trainable), batch.fields['x'], training=True
      )
      loss = model.loss(output, batch.fields['y'], batch.mask)
    gradients = tape.gradient(loss, own.trainable)
    optimizer_state, trainable = client_optimizer.next(
      own.optimizer_state, own.trainable, gradients
    )
    size = tf.reduce_sum(batch.mask)
    return Trained(
      trainable,
      optimizer_state,
      own.loss_sum + loss * size,
      own.num_examples + size,
    )

  return step


def build(
  model: tff.learning.models.FunctionalModel,
  client_optimizer: tff.learning.optimizers.Optimizer,
  num_clients: int,
  layout: packing.Layout,
  batch_size: int,
) -> local_training.LocalTraining:
  """Local training on packed clients: one pass over each one's rows, in order.

  Args:
    model: A `FunctionalModel` whose loss is a mean weighted by `sample_weight`.
    client_optimizer: The optimizer of local training.
    num_clients: N.
    layout: The layout of the examples, with fields x and y.
    batch_size: The size of a local batch; the last one may hold fewer.

  Returns:
    A `LocalTraining` whose participants are arrays from `packing.pack`.
  """
  check_loss_is_weighted_mean(model, layout)
  initial_weights = local_training.initial_weights_of(model)
  weights_type = initial_weights.type_signature.result

  def contribute_all(received, non_trainable, packed):
    """Returns the sum of the contributions of the array's clients."""

    def contribution(own, index, weight):
      update = tf.nest.map_structure(tf.subtract, received, own.trainable)
      measurements = collections.OrderedDict(
        loss_sum=own.loss_sum, num_examples=own.num_examples
      )
      return local_training.contribution_of(
        update,
        local_training.is_finite(update) & (own.num_examples > 0),
        index,
        weight,
        measurements,
        num_clients,
      )

    def finish(totals, own, index, weight):
      return tf.nest.map_structure(
        tf.add, totals, contribution(own, index, weight)
      )

    start = untrained(client_optimizer, received)
    nothing = tf.nest.map_structure(
      tf.zeros_like, contribution(start, tf.constant(-1), tf.constant(0.0))
    )
    return fold_clients(
      packed,
      layout,
      batch_size,
      start,
      local_step(model, client_optimizer, non_trainable),
      finish,
      nothing,
    )

  @tff.tensorflow.computation(weights_type, packed_type(layout))
  def contribute_locally(weights, packed):
    return tf.function(contribute_all)(
      tuple(weights.trainable), tuple(weights.non_trainable), packed
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
