"""What Power-of-Choice asks: the global model's loss at some clients.

These are federated computations of their own, beside the process that trains,
so that neither sums over clients twice. A client reports a vector with its loss
at its own index, and the server sees the sum of the vectors.
"""

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import local_training
from f3ast_tff import packed_training
from f3ast_tff import packing
from f3ast_tff.models import functional

# A client's part: maps (weights, what the client brings) to (index, loss).
_Report = Callable[[Any, Any], tuple[tf.Tensor, tf.Tensor]]


def _collect(
  report: _Report,
  weights_type: tff.types.Type,
  participant_type: tff.types.Type,
  num_clients: int,
) -> tff.framework.ConcreteComputation:
  """Returns the computation that gathers what clients report."""

  @tff.tensorflow.computation(weights_type, participant_type)
  def own_entry(weights, participant):
    index, loss = report(weights, participant)
    # Not a product: a loss that is not finite must stay in its own entry.
    is_own = tf.equal(tf.range(num_clients), index)
    return tf.where(is_own, loss, 0.0)

  @tff.federated_computation(
    tff.types.FederatedType(weights_type, tff.SERVER),
    tff.types.FederatedType(participant_type, tff.CLIENTS),
  )
  def losses(weights, participants):
    entries = tff.federated_map(
      own_entry, (tff.federated_broadcast(weights), participants)
    )
    return tff.federated_sum(entries)

  return losses


# A forward pass: maps a batch to its mean loss and its size.
_Pass = Callable[[Any], tuple[tf.Tensor, tf.Tensor]]


def _functional_pass(
  model: tff.learning.models.FunctionalModel,
) -> Callable[[Any], _Pass]:
  """Returns a function from weights to the forward pass with them."""

  def with_weights(weights):
    pair = (tuple(weights.trainable), tuple(weights.non_trainable))

    def forward_pass(batch):
      is_mapping = isinstance(batch, collections.abc.Mapping)
      x, y = (batch['x'], batch['y']) if is_mapping else batch
      output = model.predict_on_batch(pair, x, training=False)
      return model.loss(output, y), tf.shape(tf.nest.flatten(y)[0])[0]

    return forward_pass

  return with_weights


def _variable_pass(
  model_fn: Callable[[], tff.learning.models.VariableModel],
) -> Callable[[Any], _Pass]:
  """Returns a function from weights to the forward pass with them."""
  model = model_fn()

  def with_weights(weights):
    weights.assign_weights_to(model)

    def forward_pass(batch):
      output = model.forward_pass(batch, training=False)
      return output.loss, output.num_examples

    return forward_pass

  return with_weights


def on_datasets(
  model: local_training.Model, num_clients: int
) -> tff.framework.ConcreteComputation:
  """Builds the losses of clients with `tf.data` datasets.

  Args:
    model: A `tff.learning` model function or a `FunctionalModel`.
    num_clients: N.

  Returns:
    A computation of (model weights at the server, list of
    `local_training.Participant`, whose weight is not looked at) that returns
    the mean loss of each participant at its index, 0 elsewhere.
  """
  build_pass: Callable[[Any], Callable[[Any], _Pass]]
  if isinstance(model, tff.learning.models.FunctionalModel):
    input_spec, build_pass = model.input_spec, _functional_pass
  else:
    input_spec, build_pass = model().input_spec, _variable_pass
  weights_type = local_training.initial_weights_of(model).type_signature.result
  examples_type = tff.types.SequenceType(
    tff.types.tensorflow_to_type(input_spec)
  )

  def report(weights, participant):
    with_weights = build_pass(model)

    # A function, in which the weights are set before they are read.
    @tf.function
    def mean_loss(weights, examples):
      forward_pass = with_weights(weights)

      def add(sums, batch):
        loss, size = forward_pass(batch)
        size = tf.cast(size, tf.float32)
        return sums[0] + loss * size, sums[1] + size

      zero = tf.constant(0.0)
      loss_sum, count = examples.reduce((zero, zero), add)
      return tf.math.divide_no_nan(loss_sum, count)

    return participant.index, mean_loss(weights, participant.examples)

  return _collect(
    report,
    weights_type,
    tff.types.to_type(
      local_training.Participant(examples_type, np.int32, np.float32)
    ),
    num_clients,
  )


def on_packed(
  model: functional.Model,
  num_clients: int,
  layout: packing.Layout,
  batch_size: int,
  jit_compile: bool = True,
) -> tff.framework.ConcreteComputation:
  """Builds the losses of packed clients.

  Args:
    model: The model.
    num_clients: N.
    layout: The layout of the clients' examples.
    batch_size: The batch size with which clients are packed.
    jit_compile: Whether XLA compiles it.

  Returns:
    A computation of (model weights at the server, list of packed clients) that
    returns the mean loss of each client at its index, 0 elsewhere.
  """
  weights_type = local_training.initial_weights_of(
    model.functional
  ).type_signature.result

  def mean_loss(weights, packed, num_examples):
    def add(batch, loss_sum, count):
      fields, mask = packed_training.read_batch(
        packed, batch, batch_size, num_examples, layout
      )
      output = model.functional.predict_on_batch(
        weights, fields['x'], training=False
      )
      losses, _, counts = model.per_example(output, fields['y'])
      # Not a product, because a row that only fills up may have any loss.
      is_example = mask > 0
      return (
        batch + 1,
        loss_sum + tf.reduce_sum(tf.where(is_example, losses, 0.0)),
        count + tf.reduce_sum(tf.where(is_example, counts, 0.0)),
      )

    num_batches = (num_examples + batch_size - 1) // batch_size
    _, loss_sum, count = tf.while_loop(
      lambda batch, *_: batch < num_batches,
      add,
      (tf.constant(0), tf.constant(0.0), tf.constant(0.0)),
      parallel_iterations=1,
    )
    return tf.math.divide_no_nan(loss_sum, count)

  def report(weights, packed):
    num_examples, index, _ = packed_training.read_header(packed)
    loss = tf.function(mean_loss, jit_compile=jit_compile)(
      (tuple(weights.trainable), tuple(weights.non_trainable)),
      packed,
      num_examples,
    )
    return index, loss

  return _collect(
    report, weights_type, packed_training.packed_type(layout), num_clients
  )


def during_training(
  model: tff.learning.models.FunctionalModel,
  client_optimizer: tff.learning.optimizers.Optimizer,
  num_clients: int,
  layout: packing.Layout,
  batch_size: int,
  jit_compile: bool = True,
) -> tff.framework.ConcreteComputation:
  """Builds the mean losses during local training; see `released`.

  Args:
    model: The model.
    client_optimizer: The optimizer of local training.
    num_clients: N.
    layout: The layout of the clients' examples.
    batch_size: The size of a local batch.
    jit_compile: Whether XLA compiles it.

  Returns:
    A computation as that of `on_packed`.
  """
  weights_type = local_training.initial_weights_of(model).type_signature.result

  def report(weights, packed):
    num_examples, index, _ = packed_training.read_header(packed)
    train = packed_training.local_steps(
      model, client_optimizer, layout, batch_size, jit_compile
    )
    _, loss_sum = train(
      tuple(weights.trainable),
      tuple(weights.non_trainable),
      packed,
      num_examples,
    )
    count = tf.cast(num_examples, tf.float32)
    return index, tf.math.divide_no_nan(loss_sum, count)

  return _collect(
    report, weights_type, packed_training.packed_type(layout), num_clients
  )
