"""The losses that Power-of-Choice queries: the global model's at some clients.

These are federated computations of their own, next to the process that trains,
so that neither sums over clients twice. A client reports a vector with its loss
at its own index, and the server sees the sum of the vectors.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff.learning import client_work
from f3ast_tff.learning import loss_shards
from f3ast_tff.learning import shard_training
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
  client_type: tff.types.Type,
  finish: Callable[[tf.Tensor], tf.Tensor] = lambda total: total,
) -> tff.framework.ConcreteComputation:
  """Returns the computation that sums what clients report.

  Args:
    report: What a client does.
    weights_type: The type of the model weights.
    client_type: The type of what a client is queried with.
    finish: Maps the sum of all reports to the losses.
  """
  local_report = tff.tensorflow.computation(
    report, (weights_type, client_type)
  )
  losses_of = tff.tensorflow.computation(
    finish, local_report.type_signature.result
  )

  @tff.federated_computation(
    tff.types.FederatedType(weights_type, tff.SERVER),
    tff.types.FederatedType(client_type, tff.CLIENTS),
  )
  def losses(weights, clients):
    reports = tff.federated_map(
      local_report, (tff.federated_broadcast(weights), clients)
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
    A computation of (model weights at the server, list of
    `loss_shards.LossShard`) that returns the mean loss of each client at its
    index, 0 elsewhere.
  """
  predict = functional.forward_pass(model.functional)

  def sums(weights, shard):
    def add(b, sums):
      fields, mask = shard_training.gather(shard.examples, shard.batches[b])
      output = predict(weights, fields['x'], training=False)
      losses, _, counts = model.per_example(output, fields['y'])
      # Rows that only fill up are nobody's, and the sum drops them.
      del mask
      of_clients = tf.math.unsorted_segment_sum(
        tf.stack([losses, counts], axis=1), shard.owners[b], num_clients
      )
      return b + 1, sums + of_clients

    # What fills up shards is behind the batches with examples.
    end = tf.reduce_sum(tf.cast(shard.batches[:, 0] >= 0, tf.int32))
    _, total = tf.while_loop(
      lambda b, _: b < end,
      add,
      (tf.constant(0), tf.zeros([num_clients, 2])),
      parallel_iterations=1,
    )
    return total

  def report(weights, shard):
    pair = tuple(weights.trainable), tuple(weights.non_trainable)
    return tf.function(sums, jit_compile=model.xla or None, autograph=False)(
      pair, shard
    )

  def means(total):
    return tf.math.divide_no_nan(total[:, 0], total[:, 1])

  rows_type = tff.types.TensorType(np.int32, [None, BATCH_SIZE])
  return _collect(
    report,
    client_work.initial_weights_of(model.functional).type_signature.result,
    tff.types.to_type(
      loss_shards.LossShard(
        shard_training.examples_type(layout), rows_type, rows_type
      )
    ),
    means,
  )


def on_training_shards(
  model: tff.learning.models.FunctionalModel,
  client_optimizer: tff.learning.optimizers.Optimizer,
  num_clients: int,
  layout: shard_training.Layout,
  batch_size: int,
  is_trained: bool,
  xla: bool = False,
) -> tff.framework.ConcreteComputation:
  """Builds the mean losses of clients on what they would train on.

  Args:
    model: The model.
    client_optimizer: The optimizer of local training.
    num_clients: N.
    layout: The layout of the clients' examples.
    batch_size: The size of a local batch.
    is_trained: Whether clients train meanwhile, so that each loss is that
      before the step it is in (`methods.released`); else the model stays as it
      is.
    xla: Whether to compile with XLA.

  Returns:
    A computation of (model weights at the server, list of `shards.Shard`) that
    returns the mean loss of each client at its index, 0 elsewhere.
  """

  def losses(trainable, non_trainable, shard):
    def finish(totals, own, place):
      loss = tf.math.divide_no_nan(own.loss_sum, own.num_examples)
      return totals + _at(shard.clients[place, 0], loss, num_clients)

    step = shard_training.local_step(
      model, client_optimizer, non_trainable, is_trained
    )
    begin = shard_training.untrained(client_optimizer, trainable), step
    return shard_training.fold_clients(
      shard, lambda place: begin, finish, tf.zeros([num_clients])
    )

  def report(weights, shard):
    return tf.function(losses, jit_compile=xla or None, autograph=False)(
      tuple(weights.trainable), tuple(weights.non_trainable), shard
    )

  return _collect(
    report,
    client_work.initial_weights_of(model).type_signature.result,
    shard_training.shard_type(layout, batch_size),
  )


def on_datasets(
  model: client_work.TffModel, num_clients: int, client_type: tff.types.Type
) -> tff.framework.ConcreteComputation:
  """Builds the losses of clients whose examples are `tf.data` datasets.

  Args:
    model: A `tff.learning` model function or a `FunctionalModel`.
    num_clients: N.
    client_type: The type of a `client_work.ClientInput`.

  Returns:
    A computation of (model weights at the server, list of
    `client_work.ClientInput`) that returns the mean loss of each client at its
    index, 0 elsewhere: that of its batches, by their number of examples.
  """
  weights_type = client_work.initial_weights_of(model).type_signature.result

  def report(weights, client):
    if isinstance(model, tff.learning.models.FunctionalModel):
      pair = tuple(weights.trainable), tuple(weights.non_trainable)

      def loss_of(batch):
        is_named = isinstance(batch, Mapping)
        x, y = (batch['x'], batch['y']) if is_named else batch
        output = model.predict_on_batch(pair, x, training=False)
        return model.loss(output, y)

    else:
      local = model()

      def loss_of(batch):
        return local.forward_pass(batch, training=False).loss

    def add(sums, batch):
      size = tf.cast(tf.shape(tf.nest.flatten(batch)[0])[0], tf.float32)
      return sums[0] + loss_of(batch) * size, sums[1] + size

    def sums():
      if not isinstance(model, tff.learning.models.FunctionalModel):
        tf.nest.map_structure(
          lambda variable, value: variable.assign(value),
          tff.learning.models.ModelWeights.from_model(local),
          weights,
        )
      return client.examples.reduce((0.0, 0.0), add)

    # In a function, the weights are assigned before they are used.
    total, count = tf.function(sums, autograph=False)()
    loss = tf.math.divide_no_nan(total, count)
    return _at(client.index, loss, num_clients)

  return _collect(report, weights_type, client_type)
