"""Local training of methods that keep a vector per client, on shards.

As `shard_training`, but each client has its own start, its own gradients and a
new vector at the end, as a `vectors.Vectors` says. The new vectors of a cohort
are summed like all else: each client adds its own in its slot, zeros elsewhere.
So a round is still one sum over clients, in every runtime.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import vectors as vectors_lib
from f3ast_tff.learning import client_optimizers
from f3ast_tff.learning import client_work
from f3ast_tff.learning import shard_training
from f3ast_tff.learning import shards


class Sums(NamedTuple):
  """What takes the place of the sum of updates.

  Attributes:
    model: The model sum, see `vectors`.
    state: The state sum.
    own: float32 [slots, size of the model], the new vectors.
    clients: int32 [slots], 1 + the index of each slot's client, or 0.
  """

  model: Any
  state: Any
  own: Any
  clients: Any


class Received(NamedTuple):
  """What clients receive: the model, and the server's vector."""

  weights: Any
  server: Any


def flat(leaves: Any) -> tf.Tensor:
  """Returns the tensors of a model as one vector."""
  return tf.concat([tf.reshape(leaf, [-1]) for leaf in leaves], 0)


def unflat(vector: tf.Tensor, like: Any) -> tuple[tf.Tensor, ...]:
  """Returns a vector in the shapes of a model."""
  sizes = [leaf.shape.num_elements() for leaf in like]
  parts = tf.split(vector, sizes)
  return tuple(
    tf.reshape(part, leaf.shape) for part, leaf in zip(parts, like)
  )


def size_of(weights_type: Any) -> int:
  """Returns how many numbers a model has."""
  return sum(
    int(np.prod(leaf.shape, dtype=np.int64))
    for leaf in tff.structure.flatten(weights_type.trainable)
  )


def _each(function: vectors_lib.Function, *trees: Any) -> tuple[Any, ...]:
  return tuple(function(*leaves) for leaves in zip(*trees))


def _following(
  optimizer: tff.learning.optimizers.Optimizer,
  rule: vectors_lib.Vectors,
  start: Any,
  own: Any,
  server: Any,
) -> tff.learning.optimizers.Optimizer:
  """Returns a client's optimizer: it changes gradients, and sums the old."""

  def initialize(specs):
    zeros = tuple(tf.zeros(s.shape, s.dtype) for s in specs)
    return optimizer.initialize(specs), zeros

  def next_fn(state, weights, gradients):
    inner, total = state
    moved = _each(tf.subtract, weights, start)
    followed = _each(rule.gradient, gradients, own, server, moved)
    inner, weights = optimizer.next(inner, tuple(weights), followed)
    return (inner, _each(tf.add, total, gradients)), weights

  return client_optimizers.wrapped(initialize, next_fn)


def build(
  model: tff.learning.models.FunctionalModel,
  client_optimizer: tff.learning.optimizers.Optimizer,
  num_clients: int,
  layout: shard_training.Layout,
  batch_size: int,
  rule: vectors_lib.Vectors,
  num_slots: int,
  xla: bool = False,
) -> client_work.LocalTraining:
  """Local training on shards; arguments as in `shard_training.build`.

  Args:
    model: The model; all its trainable weights must be float32.
    client_optimizer: The optimizer of local training.
    num_clients: N.
    layout: The layout of the examples.
    batch_size: The size of a local batch.
    rule: What is done with vectors.
    num_slots: The most clients of a cohort.
    xla: Whether to compile with XLA.

  Returns:
    A `LocalTraining` whose updates are `Sums`, and whose `contribute` takes
    `Received`.
  """
  initial_weights = client_work.initial_weights_of(model)
  weights_type = initial_weights.type_signature.result
  size = size_of(weights_type)
  vectors_type = shards.ShardVectors(
    tff.types.TensorType(np.float32, [None]),
    tff.types.TensorType(np.int32, [None]),
    tff.types.TensorType(np.float32, [None, size]),
  )
  client_type = shard_training.shard_type(layout, batch_size, vectors_type)

  def contribute_all(received, non_trainable, server, shard):
    def own_of(place):
      return unflat(shard.vectors.own[place], received)

    def begin(place):
      own = own_of(place)
      start = _each(rule.start, received, own)
      optimizer = _following(client_optimizer, rule, start, own, server)
      return (
        shard_training.untrained(optimizer, start),
        shard_training.local_step(model, optimizer, non_trainable),
      )

    def finish(totals, trained, place):
      sums, counted, table = totals
      old = own_of(place)
      start = _each(rule.start, received, old)
      v = _each(tf.subtract, trained.trainable, start)
      _, total = trained.optimizer_state
      _, first, behind = tf.unstack(shard.clients[place])
      steps = tf.cast(behind - first, tf.float32)
      mean_gradient = tuple(tf.math.divide_no_nan(g, steps) for g in total)
      new = _each(rule.own, old, server, v, mean_gradient)
      counts = (
        client_work.is_finite((v, new)) & (trained.num_examples > 0)
      )
      weight = shard.weights[place]
      state_weight = shard.vectors.state_weights[place]
      own_sums = (
        _each(lambda *terms: weight * rule.model_term(*terms), v, old,
              received),
        _each(lambda *terms: state_weight * rule.state_term(*terms), v, old,
              new),
        weight,
        trained.loss_sum,
        trained.num_examples,
      )
      sums = tf.nest.map_structure(
        lambda total, value: total + tf.where(counts, value, 0), sums, own_sums
      )
      is_here = tf.equal(tf.range(tf.shape(counted)[0]), place)
      counted = tf.where(is_here, tf.cast(counts, tf.int32), counted)
      row = tf.where(counts, flat(new), 0)
      slot = shard.vectors.slots[place]
      table = tf.tensor_scatter_nd_update(table, [[slot]], [row])
      return sums, counted, table

    zeros = tuple(tf.zeros_like(leaf) for leaf in received)
    nothing = (zeros, zeros) + 3 * (tf.constant(0.0),)
    indices = shard.clients[:, 0]
    sums, counted, table = shard_training.fold_clients(
      shard,
      begin,
      finish,
      (nothing, tf.zeros_like(indices), tf.zeros([num_slots, size])),
    )
    model_sum, state_sum, weight, loss_sum, num_examples = sums
    clients = tf.math.unsorted_segment_sum(
      counted * (1 + indices), shard.vectors.slots, num_slots
    )
    return client_work.Contribution(
      Sums(model_sum, state_sum, table, clients),
      shard_training.tally(
        indices, counted, num_clients, weight, loss_sum, num_examples
      ),
    )

  @tff.tensorflow.computation(
    Received(weights_type, weights_type.trainable), client_type
  )
  def contribute_locally(received, shard):
    compiled = tf.function(
      contribute_all, jit_compile=xla or None, autograph=False
    )
    return compiled(
      tuple(received.weights.trainable),
      tuple(received.weights.non_trainable),
      tuple(received.server),
      shard,
    )

  def contribute(state, received, clients):
    contributions = tff.federated_map(contribute_locally, (received, clients))
    return state, contributions, {}

  @tff.federated_computation
  def initialize():
    return tff.federated_value((), tff.SERVER)

  return client_work.LocalTraining(
    initial_weights=initial_weights,
    initialize=initialize,
    client_type=client_type,
    tally_type=contribute_locally.type_signature.result.tally,
    contribute=contribute,
    finalize=shard_training.finalize,
    update_type=contribute_locally.type_signature.result.update,
  )
