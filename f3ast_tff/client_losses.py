"""What Power-of-Choice asks: the global model's loss at some clients.

These are federated computations of their own, beside the process that trains,
so that neither sums over clients twice. A participant reports a vector with the
loss of a client at its own index, and the server sees the sum of the vectors.
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

# Maps (weights, what a participant brings) to a vector with the losses of its
# clients at their indices, 0 elsewhere.
_Report = Callable[[Any, Any], tf.Tensor]


def _at(index: tf.Tensor, loss: tf.Tensor, num_clients: int) -> tf.Tensor:
  """Returns a vector with the loss at the client's index."""
  # Not a product: a loss that is not finite must stay in its own entry.
  return tf.where(tf.equal(tf.range(num_clients), index), loss, 0.0)


def _collect(
  report: _Report,
  weights_type: tff.types.Type,
  participant_type: tff.types.Type,
) -> tff.framework.ConcreteComputation:
  """Returns the computation that gathers what participants report."""
  local_report = tff.tensorflow.computation(
    report, (weights_type, participant_type)
  )

  @tff.federated_computation(
    tff.types.FederatedType(weights_type, tff.SERVER),
    tff.types.FederatedType(participant_type, tff.CLIENTS),
  )
  def losses(weights, participants):
    reports = tff.federated_map(
      local_report, (tff.federated_broadcast(weights), participants)
    )
    return tff.federated_sum(reports)

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

    loss = mean_loss(weights, participant.examples)
    return _at(participant.index, loss, num_clients)

  return _collect(
    report,
    weights_type,
    tff.types.to_type(
      local_training.Participant(examples_type, np.int32, np.float32)
    ),
  )


def _on_packed(
  model: tff.learning.models.FunctionalModel,
  num_clients: int,
  layout: packing.Layout,
  batch_size: int,
  start_and_step: Callable[[Any, Any], tuple[Any, Callable]],
  mean_loss: Callable[[Any], tf.Tensor],
) -> tff.framework.ConcreteComputation:
  """Builds the losses of packed clients, each from a fold over its batches.

  Args:
    model: The model.
    num_clients: N.
    layout: The layout of the clients' examples.
    batch_size: The batch size with which clients are packed.
    start_and_step: Maps (trainable, non-trainable) weights to what
      `packed_training.fold_clients` calls so.
    mean_loss: Maps what a client has in the end to its mean loss.

  Returns:
    The computation.
  """
  weights_type = local_training.initial_weights_of(model).type_signature.result

  def losses(trainable, non_trainable, packed):
    start, step = start_and_step(trainable, non_trainable)

    def finish(totals, own, index, weight):
      del weight
      return totals + _at(index, mean_loss(own), num_clients)

    return packed_training.fold_clients(
      packed,
      layout,
      batch_size,
      start,
      step,
      finish,
      tf.zeros([num_clients]),
    )

  def report(weights, packed):
    return tf.function(losses)(
      tuple(weights.trainable), tuple(weights.non_trainable), packed
    )

  return _collect(report, weights_type, packed_training.packed_type(layout))


def on_packed(
  model: functional.Model,
  num_clients: int,
  layout: packing.Layout,
  batch_size: int,
) -> tff.framework.ConcreteComputation:
  """Builds the losses of packed clients.

  Args:
    model: The model.
    num_clients: N.
    layout: The layout of the clients' examples.
    batch_size: The batch size with which clients are packed.

  Returns:
    A computation of (model weights at the server, list of packed arrays) that
    returns the mean loss of each client at its index, 0 elsewhere.
  """

  def start_and_step(trainable, non_trainable):
    def step(own, batch):
      output = model.functional.predict_on_batch(
        (trainable, non_trainable), batch.fields['x'], training=False
      )
      values, _, counts = model.per_example(output, batch.fields['y'])
      # Not a product, because a row that only fills up may have any loss.
      is_example = batch.mask > 0
      return (
        own[0] + tf.reduce_sum(tf.where(is_example, values, 0.0)),
        own[1] + tf.reduce_sum(tf.where(is_example, counts, 0.0)),
      )

    return (tf.constant(0.0), tf.constant(0.0)), step

  return _on_packed(
    model.functional,
    num_clients,
    layout,
    batch_size,
    start_and_step,
    lambda own: tf.math.divide_no_nan(*own),
  )


def during_training(
  model: tff.learning.models.FunctionalModel,
  client_optimizer: tff.learning.optimizers.Optimizer,
  num_clients: int,
  layout: packing.Layout,
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
    A computation as that of `on_packed`.
  """
  return _on_packed(
    model,
    num_clients,
    layout,
    batch_size,
    lambda trainable, non_trainable: (
      packed_training.untrained(client_optimizer, trainable),
      packed_training.local_step(model, client_optimizer, non_trainable),
    ),
    lambda own: tf.math.divide_no_nan(own.loss_sum, own.num_examples),
  )
