"""What a selected client does with the model: its contribution to a round.

Two ways in, one way out. `on_datasets`, here, takes the `tf.data` datasets that
every TFF user has and leaves the training to TFF's own client work. The module
`shard_training` takes arrays and does the same steps of several clients in one
computation, much faster for small models. Either gives a `Contribution`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

TffModel = Union[
  Callable[[], tff.learning.models.VariableModel],
  tff.learning.models.FunctionalModel,
]


class ClientInput(NamedTuple):
  """What a selected client takes part with, on a `tf.data` dataset.

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
  """What is counted about a client that takes part.

  Attributes:
    participation: 1 at the client's index, 0 elsewhere: its part of 1_S.
    counted: 1 at the client's index if its update counts, else 0: it was not
      finite, or the client had no examples, and is excluded.
    weight: The weight, or 0 if the update is excluded.
    measurements: Sums that local training makes, e.g. of losses; may be empty.
  """

  participation: Any
  counted: Any
  weight: Any
  measurements: Any


class Contribution(NamedTuple):
  """What a client sends back; the server only sees sums of these.

  Attributes:
    update: weight times (model received - model trained), i.e. -weight v_k, as
      TFF's optimizers take it; zeros if v_k is not finite.
    tally: What is counted.
  """

  update: Any
  tally: Any


class LocalTraining(NamedTuple):
  """How clients turn the model into contributions.

  Attributes:
    initial_weights: A computation that returns the `ModelWeights` to start at.
    initialize: A computation that returns the state at the server to start at.
    client_type: The `tff.Type` of what a client takes part with.
    tally_type: The `tff.Type` of a `Tally`.
    contribute: A function of (state at the server, weights at the clients,
      clients' inputs), to be called in a federated computation. It
      returns (new state, contributions at the clients, metrics at the server by
      name).
    finalize: Maps the sum of `Tally.measurements` to metrics, in TensorFlow.
    update_type: The `tff.Type` of updates if they are not as the model's
      weights: of `vector_training.Sums`.
  """

  initial_weights: tff.framework.ConcreteComputation
  initialize: tff.framework.ConcreteComputation
  client_type: tff.types.Type
  tally_type: tff.types.Type
  contribute: Callable[[Any, Any, Any], tuple[Any, Any, dict[str, Any]]]
  finalize: Callable[[Any], Any]
  update_type: Optional[tff.types.Type] = None


def initial_weights_of(model: TffModel) -> tff.framework.ConcreteComputation:
  """Returns a computation of the `ModelWeights` that a model starts at."""

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


def on_datasets(
  model: TffModel,
  client_optimizer: tff.learning.optimizers.Optimizer,
  num_clients: int,
) -> LocalTraining:
  """Local training on `tf.data` datasets, by TFF's own client work.

  Args:
    model: A `tff.learning` model function or a `FunctionalModel`.
    client_optimizer: The optimizer of local training.
    num_clients: N.

  Returns:
    A `LocalTraining` on `ClientInput`s.
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
  return from_client_work(work, initial_weights_of(model), num_clients)


def from_client_work(
  work: tff.learning.templates.ClientWorkProcess,
  initial_weights: tff.framework.ConcreteComputation,
  num_clients: int,
) -> LocalTraining:
  """Local training by any TFF client work.

  Args:
    work: A `ClientWorkProcess` that gives a finite update the weight 1 and one
      that is not finite the weight 0, as TFF's do with uniform weighting. The
      update of a client without examples is excluded here.
    initial_weights: A computation that returns the model weights to start at.
    num_clients: N.

  Returns:
    A `LocalTraining` on `ClientInput`s.
  """
  dataset_type = work.next.type_signature.parameter[2].member
  update_type = work.next.type_signature.result.result.member.update

  @tff.tensorflow.computation(
    dataset_type, update_type, np.float32, np.int32, np.float32
  )
  def weigh(examples, update, update_weight, index, weight):
    num_batches = examples.take(1).reduce(0, lambda n, _: n + 1)
    counts = (update_weight > 0) & (num_batches > 0)
    participation = tf.one_hot(index, num_clients, dtype=tf.int32)
    return Contribution(
      tf.nest.map_structure(
        lambda u: tf.where(counts, tf.cast(weight, u.dtype) * u, 0), update
      ),
      Tally(
        participation=participation,
        counted=tf.where(counts, participation, 0),
        weight=tf.where(counts, weight, 0.0),
        measurements=(),
      ),
    )

  def contribute(state, weights, clients):
    output = work.next(state, weights, clients.examples)
    contributions = tff.federated_map(
      weigh,
      (
        clients.examples,
        output.result.update,
        output.result.update_weight,
        clients.index,
        clients.weight,
      ),
    )
    return output.state, contributions, {'client_work': output.measurements}

  return LocalTraining(
    initial_weights=initial_weights,
    initialize=work.initialize,
    client_type=tff.types.to_type(
      ClientInput(dataset_type, np.int32, np.float32)
    ),
    tally_type=weigh.type_signature.result.tally,
    contribute=contribute,
    finalize=lambda measurements: measurements,
  )
