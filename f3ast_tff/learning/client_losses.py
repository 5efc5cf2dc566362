"""What Power-of-Choice asks: the global model's loss at some clients.

These are federated computations of their own, beside the process that trains,
so that neither sums over clients twice. A participant reports a vector with the
loss of a client at its own index, and the server sees the sum of the vectors.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff.learning import client_work
from f3ast_tff.learning import shard_training
from f3ast_tff.learning import shards
from f3ast_tff.models import functional

# How many examples go through a model at a time. More would make sequences of
# unlike length wait for each other, and hardly be faster.
BATCH_SIZE = 64


def _at(index: tf.Tensor, loss: tf.Tensor, num_clients: int) -> tf.Tensor:
  """Returns a vector with the loss at the client's index."""
  # Not a product: a loss that is not finite must stay in its own entry.
  return tf.where(tf.equal(tf.range(num_clients), index), loss, 0.0)


def _collect(
  report: Callable[[Any, Any], tf.Tensor],
  weights_type: tff.types.Type,
  participant_type: tff.types.Type,
  finish: Callable[[tf.Tensor], tf.Tensor] = lambda total: total,
) -> tff.framework.ConcreteComputation:
  """Returns the computation that gathers what participants report.

  Args:
    report: What a participant does.
    weights_type: The type of the model weights.
    participant_type: The type of what a participant brings.
    finish: Maps the sum of all reports to the losses.
  """
  local_report = tff.tensorflow.computation(
    report, (weights_type, participant_type)
  )
  losses_of = tff.tensorflow.computation(
    finish, local_report.type_signature.result
  )

  @tff.federated_computation(
    tff.types.FederatedType(weights_type, tff.SERVER),
    tff.types.FederatedType(participant_type, tff.CLIENTS),
  )
  def losses(weights, participants):
    reports = tff.federated_map(
      local_report, (tff.federated_broadcast(weights), participants)
    )
    return tff.federated_map(losses_of, tff.federated_sum(reports))

  return losses


def on_shards(
  model: functional.Model, num_clients: int, layout: shard_training.Layout
) -> tff.framework.ConcreteComputation:
  """Builds the losses of clients whose examples are in shards.

  Args:
    model: The model.
    num_clients: N.
    layout: The layout of the clients' examples.

  Returns:
    A computation of (model weights at the server, list of `shards.Asked`) that
    returns the mean loss of each client at its index, 0 elsewhere.
  """
  predict = functional.forward_pass(model.functional)

  def sums(weights, asked):
    def add(b, sums):
      fields, mask = shard_training.gather(asked.examples, asked.batches[b])
      output = predict(weights, fields['x'], training=False)
      losses, _, counts = model.per_example(output, fields['y'])
      # Rows that only fill up are nobody's, and the sum drops them.
      del mask
      of_clients = tf.math.unsorted_segment_sum(
        tf.stack([losses, counts], axis=1), asked.owners[b], num_clients
      )
      return b + 1, sums + of_clients

    # What fills up shards is behind the batches with examples.
    end = tf.reduce_sum(tf.cast(asked.batches[:, 0] >= 0, tf.int32))
    _, total = tf.while_loop(
      lambda b, _: b < end,
      add,
      (tf.constant(0), tf.zeros([num_clients, 2])),
      parallel_iterations=1,
    )
    return total

  def report(weights, asked):
    pair = tuple(weights.trainable), tuple(weights.non_trainable)
    return tf.function(sums, jit_compile=model.xla or None, autograph=False)(
      pair, asked
    )

  def means(total):
    return tf.math.divide_no_nan(total[:, 0], total[:, 1])

  rows_type = tff.types.TensorType(np.int32, [None, BATCH_SIZE])
  return _collect(
    report,
    client_work.initial_weights_of(model.functional).type_signature.result,
    tff.types.to_type(
      shards.Asked(shard_training.examples_type(layout), rows_type, rows_type)
    ),
    means,
  )


def during_training(
  model: functional.Model,
  client_optimizer: tff.learning.optimizers.Optimizer,
  num_clients: int,
  layout: shard_training.Layout,
  batch_size: int,
) -> tff.framework.ConcreteComputation:
  """Builds the mean losses during local training; see `released`.

  Args:
    model: The model.
    client_optimizer: The optimizer of local training.
    num_clients: N.
    layout: The layout of the clients' examples.
    batch_size: The size of a local batch.

  Returns:
    A computation of (model weights at the server, list of `shards.Shard`) that
    returns the mean loss of each client at its index, 0 elsewhere.
  """

  def losses(trainable, non_trainable, shard):
    def finish(totals, own, place):
      loss = tf.math.divide_no_nan(own.loss_sum, own.num_examples)
      return totals + _at(shard.clients[place, 0], loss, num_clients)

    return shard_training.fold_clients(
      shard,
      shard_training.untrained(client_optimizer, trainable),
      shard_training.local_step(
        model.functional, client_optimizer, non_trainable
      ),
      finish,
      tf.zeros([num_clients]),
    )

  def report(weights, shard):
    return tf.function(losses, jit_compile=model.xla or None, autograph=False)(
      tuple(weights.trainable), tuple(weights.non_trainable), shard
    )

  return _collect(
    report,
    client_work.initial_weights_of(model.functional).type_signature.result,
    shard_training.shard_type(layout, batch_size),
  )
