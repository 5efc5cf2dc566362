"""Local training on shards, the fast path.

All local steps of a shard's clients, one client after the other, and the sum of
their weighted updates are one TensorFlow computation, because what a round of a
small model costs is starting operations, not arithmetic. A model may ask for
the computation to be compiled with XLA.
"""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff.learning import client_work
from f3ast_tff.learning import examples as examples_lib
from f3ast_tff.learning import shards
from f3ast_tff.models import functional

# (name, shape, type) of each field of an example.
Layout = tuple[tuple[str, tuple[int, ...], np.dtype], ...]


class Batch(NamedTuple):
  """A batch of a client.

  Attributes:
    fields: The fields of its examples, by name.
    mask: 1 for examples, 0 for rows that only fill up.
  """

  fields: dict[str, tf.Tensor]
  mask: tf.Tensor


def layout_of(examples: examples_lib.Examples) -> Layout:
  """Returns the layout of examples given as arrays with a leading axis."""
  return tuple(
    (name, tuple(field.shape[1:]), np.dtype(field.dtype))
    for name, field in examples.items()
  )


def as_tensors(fields: examples_lib.Examples) -> dict[str, tf.Tensor]:
  """Returns examples, to be kept by TensorFlow."""
  return {name: tf.convert_to_tensor(field) for name, field in fields.items()}


def examples_type(layout: Layout) -> collections.OrderedDict:
  """Returns the types of the fields of any number of examples."""
  return collections.OrderedDict(
    (name, tff.types.TensorType(dtype, [None, *shape]))
    for name, shape, dtype in layout
  )


def gather(
  examples: Any, rows: tf.Tensor
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
  """Returns the fields of some rows, and 1 for each row that there is."""
  is_row = rows >= 0
  # The first one fills up, which is of the same client: were it another's, and
  # not finite, it would spoil this one's gradient, for 0 times NaN is NaN.
  places = tf.maximum(tf.where(is_row, rows, rows[0]), 0)
  fields = {name: tf.gather(examples[name], places) for name in examples}
  return fields, tf.cast(is_row, tf.float32)


def fold_clients(
  shard: shards.Shard,
  begin: Callable[[tf.Tensor], tuple[Any, Callable[[Any, Batch], Any]]],
  finish: Callable[[Any, Any, tf.Tensor], Any],
  totals: Any,
) -> Any:
  """Goes through the clients of a shard, in TensorFlow.

  Args:
    shard: The shard.
    begin: Maps the place of a client to what it starts with, a structure of
      tensors, and to a function of (what it has so far, a batch) to what it has
      then.
    finish: Maps (totals, what the client has in the end, its place) to the new
      totals.
    totals: The totals before the first client.

  Returns:
    The totals after the last client.
  """
  size = tf.shape(shard.clients)[0]

  def is_client(place, totals):
    del totals
    index = shard.clients[tf.minimum(place, size - 1), 0]
    return (place < size) & (index >= 0)

  def train_client(place, totals):
    first, end = shard.clients[place, 1], shard.clients[place, 2]
    start, step = begin(place)

    def next_batch(b, own):
      fields, mask = gather(shard.examples, shard.batches[b])
      return b + 1, step(own, Batch(fields, mask))

    _, own = tf.while_loop(
      lambda b, _: b < end, next_batch, (first, start), parallel_iterations=1
    )
    return place + 1, finish(totals, own, place)

  _, totals = tf.while_loop(
    is_client, train_client, (tf.constant(0), totals), parallel_iterations=1
  )
  return totals


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
  is_trained: bool = True,
) -> Callable[[Trained, Batch], Trained]:
  """Returns the function that trains on a batch, for `fold_clients`.

  Args:
    model: The model.
    client_optimizer: The optimizer of local training.
    non_trainable: The weights that are not trained.
    is_trained: Whether it makes a step; else it only sums losses.

  Returns:
    A function of what the client has so far and a batch.
  """
  predict = functional.forward_pass(model)

  def add_loss(own, batch):
    output = predict(
      (own.trainable, non_trainable), batch.fields['x'], training=False
    )
    loss = model.loss(output, batch.fields['y'], batch.mask)
    size = tf.reduce_sum(batch.mask)
    return own._replace(
      loss_sum=own.loss_sum + loss * size,
      num_examples=own.num_examples + size,
    )

  def step(own, batch):
    with tf.GradientTape() as tape:
      tape.watch(own.trainable)
      output = predict(
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

  return step if is_trained else add_loss


def shard_type(
  layout: Layout, batch_size: int, vectors_type: Any = ()
) -> tff.types.Type:
  """Returns the type of a shard of any size."""
  return tff.types.to_type(
    shards.Shard(
      examples_type(layout),
      tff.types.TensorType(np.int32, [None, 3]),
      tff.types.TensorType(np.float32, [None]),
      tff.types.TensorType(np.int32, [None, batch_size]),
      vectors_type,
    )
  )


def tally(
  indices: tf.Tensor,
  counted: tf.Tensor,
  num_clients: int,
  weight: tf.Tensor,
  loss_sum: tf.Tensor,
  num_examples: tf.Tensor,
) -> client_work.Tally:
  """Returns what is counted about the clients of a shard."""

  def at_clients(values):  # An index of nobody is dropped.
    return tf.math.unsorted_segment_sum(values, indices, num_clients)

  return client_work.Tally(
    participation=at_clients(tf.ones_like(indices)),
    counted=at_clients(counted),
    weight=weight,
    measurements=collections.OrderedDict(
      loss_sum=loss_sum, num_examples=num_examples
    ),
  )


def finalize(sums: Any) -> Any:
  """Returns the metrics of local training, of its sums over clients."""
  loss = tf.math.divide_no_nan(sums['loss_sum'], sums['num_examples'])
  return collections.OrderedDict(
    train=collections.OrderedDict(loss=loss, num_examples=sums['num_examples'])
  )


def build(
  model: tff.learning.models.FunctionalModel,
  client_optimizer: tff.learning.optimizers.Optimizer,
  num_clients: int,
  layout: Layout,
  batch_size: int,
  xla: bool = False,
) -> client_work.LocalTraining:
  """Local training on shards.

  Args:
    model: A `FunctionalModel` whose loss is a mean weighted by `sample_weight`,
      as `models.functional.build` makes it; `model_conversion` checks
      others.
    client_optimizer: The optimizer of local training.
    num_clients: N.
    layout: The layout of the examples, with fields x and y.
    batch_size: The size of a local batch; the last one may hold fewer.
    xla: Whether to compile with XLA, once for each shape of a shard.

  Returns:
    A `LocalTraining` on `shards.Shard`s.
  """
  initial_weights = client_work.initial_weights_of(model)
  weights_type = initial_weights.type_signature.result

  def contribute_all(received, non_trainable, shard):
    """Returns the sum of the contributions of the shard's clients."""

    def finish(totals, own, place):
      sums, counted = totals
      update = tf.nest.map_structure(tf.subtract, received, own.trainable)
      counts = client_work.is_finite(update) & (own.num_examples > 0)
      weight = shard.weights[place]
      own_sums = (
        tf.nest.map_structure(
          lambda u: tf.cast(weight, u.dtype) * u, update
        ),
        weight,
        own.loss_sum,
        own.num_examples,
      )
      sums = tf.nest.map_structure(
        lambda total, value: total + tf.where(counts, value, 0), sums, own_sums
      )
      is_here = tf.equal(tf.range(tf.shape(counted)[0]), place)
      return sums, tf.where(is_here, tf.cast(counts, tf.int32), counted)

    nothing = (
      tf.nest.map_structure(tf.zeros_like, received),
      tf.constant(0.0),
      tf.constant(0.0),
      tf.constant(0.0),
    )
    indices = shard.clients[:, 0]
    begin = (
      untrained(client_optimizer, received),
      local_step(model, client_optimizer, non_trainable),
    )
    (update, weight, loss_sum, num_examples), counted = fold_clients(
      shard,
      lambda place: begin,
      finish,
      (nothing, tf.zeros_like(indices)),
    )

    return client_work.Contribution(
      update,
      tally(indices, counted, num_clients, weight, loss_sum, num_examples),
    )

  @tff.tensorflow.computation(weights_type, shard_type(layout, batch_size))
  def contribute_locally(weights, shard):
    compiled = tf.function(
      contribute_all, jit_compile=xla or None, autograph=False
    )
    return compiled(
      tuple(weights.trainable), tuple(weights.non_trainable), shard
    )

  def contribute(state, weights, clients):
    contributions = tff.federated_map(
      contribute_locally, (weights, clients)
    )
    return state, contributions, {}

  @tff.federated_computation
  def initialize():
    return tff.federated_value((), tff.SERVER)

  return client_work.LocalTraining(
    initial_weights=initial_weights,
    initialize=initialize,
    client_type=shard_type(layout, batch_size),
    tally_type=contribute_locally.type_signature.result.tally,
    contribute=contribute,
    finalize=finalize,
  )
