"""What a selected client does with the model: its contribution to a round.

Two ways in, one way out. `on_datasets` takes the `tf.data` datasets that every
TFF user has and leaves the training to TFF's own client work. `on_packed` takes
packed arrays (see `packing`) and does the same steps in one computation, about
ten times faster for small models. Either gives the same `Contribution`.
"""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple, Union

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import packing

Model = Union[
  Callable[[], tff.learning.models.VariableModel],
  tff.learning.models.FunctionalModel,
]


class Participant(NamedTuple):
  """What a selected client brings to a round with a `tf.data` dataset.

  A client learns its own weight and nothing of other clients' rates.

  Attributes:
    examples: A `tf.data.Dataset` of batches.
    index: The client's index k.
    weight: The weight of its update, p_k / r_k(t) for F3AST.
  """

  examples: Any
  index: Any
  weight: Any


class Tally(NamedTuple):
  """What is counted about a participant.

  Attributes:
    participation: 1 at the client's index, 0 elsewhere: its part of 1_S.
    finite: 1 if the update counts, 0 if it was not finite and is left out.
    weight: The weight, or 0 if the update is left out.
    measurements: Sums that local training makes, e.g. of losses; may be empty.
  """

  participation: Any
  finite: Any
  weight: Any
  measurements: Any


class Contribution(NamedTuple):
  """What a participant sends back; the server only sees sums of these.

  Attributes:
    update: weight times (model received - model trained), i.e. -weight v_k, as
      TFF's optimizers take it; zeros if v_k is not finite.
    tally: What is counted.
  """

  update: Any
  tally: Any


class LocalTraining(NamedTuple):
  """How participants turn the model into contributions.

  Attributes:
    initial_weights: A computation that returns the `ModelWeights` to start at.
    initialize: A computation that returns the state at the server to start at.
    participant_type: The `tff.Type` of what a participant brings.
    tally_type: The `tff.Type` of a `Tally`.
    contribute: A function of (state at the server, weights at the clients,
      participants at the clients), to be called in a federated computation. It
      returns (new state, contributions at the clients, metrics at the server by
      name).
    finalize: Maps the sum of `Tally.measurements` to metrics, in TensorFlow.
  """

  initial_weights: tff.framework.ConcreteComputation
  initialize: tff.framework.ConcreteComputation
  participant_type: tff.types.Type
  tally_type: tff.types.Type
  contribute: Callable[[Any, Any, Any], tuple[Any, Any, dict[str, Any]]]
  finalize: Callable[[Any], Any]


def _initial_weights(model: Model) -> tff.framework.ConcreteComputation:
  @tff.tensorflow.computation
  def initial_weights():
    if isinstance(model, tff.learning.models.FunctionalModel):
      trainable, non_trainable = model.initial_weights
      return tff.learning.models.ModelWeights(
        tuple(tf.convert_to_tensor(w) for w in trainable),
        tuple(tf.convert_to_tensor(w) for w in non_trainable),
      )
    return tff.learning.models.ModelWeights.from_model(model())

  return initial_weights


def is_finite(update: Any) -> tf.Tensor:
  """Returns whether all numbers in a structure of tensors are finite."""
  return tf.reduce_all(
    [tf.reduce_all(tf.math.is_finite(u)) for u in tf.nest.flatten(update)]
  )


def _contribution(
  update: Any,
  counts: tf.Tensor,
  index: tf.Tensor,
  weight: tf.Tensor,
  measurements: Any,
  num_clients: int,
) -> Contribution:
  """Returns a client's contribution; zeros instead of what does not count."""

  def if_counts(value):
    return tf.where(counts, value, tf.zeros_like(value))

  return Contribution(
    update=tf.nest.map_structure(
      lambda u: if_counts(tf.cast(weight, u.dtype) * u), update
    ),
    tally=Tally(
      participation=tf.one_hot(index, num_clients, dtype=tf.int32),
      finite=tf.cast(counts & (index >= 0), tf.int32),
      weight=if_counts(weight),
      measurements=tf.nest.map_structure(if_counts, measurements),
    ),
  )


def on_datasets(
  model: Model,
  client_optimizer: tff.learning.optimizers.Optimizer,
  num_clients: int,
) -> LocalTraining:
  """Local training on `tf.data` datasets, by TFF's own client work.

  Args:
    model: A `tff.learning` model function or a `FunctionalModel`.
    client_optimizer: The optimizer of local training.
    num_clients: N.

  Returns:
    A `LocalTraining` whose participants are `Participant`s.
  """
  uniform = tff.learning.ClientWeighting.UNIFORM
  if isinstance(model, tff.learning.models.FunctionalModel):
    work = tff.learning.templates.build_functional_model_delta_client_work(
      model=model, optimizer=client_optimizer, client_weighting=uniform
    )
  else:
    work = tff.learning.templates.build_model_delta_client_work(
      model, client_optimizer, uniform
    )
  return from_client_work(work, _initial_weights(model), num_clients)


def from_client_work(
  work: tff.learning.templates.ClientWorkProcess,
  initial_weights: tff.framework.ConcreteComputation,
  num_clients: int,
) -> LocalTraining:
  """Local training by any TFF client work, e.g. a proximal one (FedProx).

  Args:
    work: A `ClientWorkProcess` that gives a finite update the weight 1 and one
      that is not finite the weight 0, as TFF's do with uniform weighting.
    initial_weights: A computation that returns the model weights to start at.
    num_clients: N.

  Returns:
    A `LocalTraining` whose participants are `Participant`s.
  """
  dataset_type = work.next.type_signature.parameter[2].member
  update_type = work.next.type_signature.result.result.member.update

  @tff.tensorflow.computation(update_type, np.float32, np.int32, np.float32)
  def weigh(update, update_weight, index, weight):
    counts = update_weight > 0
    return _contribution(update, counts, index, weight, (), num_clients)

  def contribute(state, weights, participants):
    output = work.next(state, weights, participants.examples)
    contributions = tff.federated_map(
      weigh,
      (
        output.result.update,
        output.result.update_weight,
        participants.index,
        participants.weight,
      ),
    )
    return output.state, contributions, {'client_work': output.measurements}

  return LocalTraining(
    initial_weights=initial_weights,
    initialize=work.initialize,
    participant_type=tff.types.to_type(
      Participant(dataset_type, np.int32, np.float32)
    ),
    tally_type=weigh.type_signature.result.tally,
    contribute=contribute,
    finalize=lambda measurements: measurements,
  )


def _read_header(packed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
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


def on_packed(
  model: tff.learning.models.FunctionalModel,
  client_optimizer: tff.learning.optimizers.Optimizer,
  num_clients: int,
  layout: packing.Layout,
  batch_size: int,
  jit_compile: bool = True,
) -> LocalTraining:
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
  initial_weights = _initial_weights(model)
  weights_type = initial_weights.type_signature.result
  packed_type = tff.types.TensorType(np.uint8, [None, layout.width])

  def train(trainable, non_trainable, packed, num_examples):
    """Returns the trained weights and the sum of the examples' losses."""
    optimizer_state = client_optimizer.initialize(
      tf.nest.map_structure(tf.TensorSpec.from_tensor, trainable)
    )

    def step(batch, trainable, optimizer_state, loss_sum):
      first = batch * batch_size
      rows = tf.slice(packed, [1 + first, 0], [batch_size, layout.width])
      fields = _read_fields(rows, layout)
      is_example = first + tf.range(batch_size) < num_examples
      mask = tf.cast(is_example, tf.float32)
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
    _, trainable, _, loss_sum = tf.while_loop(
      lambda batch, *_: batch < num_batches,
      step,
      (tf.constant(0), trainable, optimizer_state, tf.constant(0.0)),
      parallel_iterations=1,
    )
    return trainable, loss_sum

  @tff.tensorflow.computation(weights_type, packed_type)
  def contribute_locally(weights, packed):
    num_examples, index, weight = _read_header(packed)
    received = tuple(weights.trainable)
    trained, loss_sum = tf.function(train, jit_compile=jit_compile)(
      received, tuple(weights.non_trainable), packed, num_examples
    )
    update = tf.nest.map_structure(tf.subtract, received, trained)
    measurements = collections.OrderedDict(
      loss_sum=loss_sum, num_examples=tf.cast(num_examples, tf.float32)
    )
    return _contribution(
      update, is_finite(update), index, weight, measurements, num_clients
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

  return LocalTraining(
    initial_weights=initial_weights,
    initialize=initialize,
    participant_type=packed_type,
    tally_type=contribute_locally.type_signature.result.tally,
    contribute=contribute,
    finalize=finalize,
  )
