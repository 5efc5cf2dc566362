"""A TFF user's model and clients, made ready for training on shards.

TFF's clients are `tf.data` datasets and its models may keep variables. Training
is much faster on arrays and on a model that is a function of its weights
(`shard_training`; docs/performance.md has how much). What cannot be turned into
these raises `UnfitError`, and trains on datasets instead.
"""

from collections.abc import Iterator, Mapping
import itertools
from typing import Any, NamedTuple, Optional

import numpy as np
import psutil
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff.learning import client_work
from f3ast_tff.learning import shard_training

# Operations that XLA is slower at on CPUs than TensorFlow: convolutions, which
# oneDNN does, and the loops of recurrent layers.
_NOT_FOR_XLA = ('Conv', 'While', 'TensorList', 'MaxPool', 'AvgPool')


class UnfitError(ValueError):
  """The model or the clients cannot be trained on shards."""


class Clients(NamedTuple):
  """Clients whose examples are arrays.

  Attributes:
    train: The examples x and y of each client, in the order of its dataset.
    batch_size: The size of a batch.
    is_shuffled: Whether the datasets come in another order each time.
  """

  train: list[dict[str, np.ndarray]]
  batch_size: int
  is_shuffled: bool


def _pair(batch: Any) -> tuple[np.ndarray, np.ndarray]:
  """Returns x and y of a batch."""
  if isinstance(batch, Mapping) and set(batch) == {'x', 'y'}:
    batch = batch['x'], batch['y']
  parts = list(batch) if isinstance(batch, tuple) else []
  if len(parts) != 2 or not all(
    isinstance(part, np.ndarray) and part.ndim for part in parts
  ):
    raise UnfitError('their batches are not pairs of one array x and one y')
  return parts[0], parts[1]


def _operations(graph: Any) -> Iterator[str]:
  """Yields the operations of a graph and of the functions in it."""
  for nodes in (graph.node, *(f.node_def for f in graph.library.function)):
    for node in nodes:
      yield node.op


def _is_shuffled(dataset: tf.data.Dataset) -> bool:
  graph = tf.compat.v1.GraphDef.FromString(
    dataset._as_serialized_graph().numpy()  # TensorFlow has no other way.
  )
  return any('Shuffle' in operation for operation in _operations(graph))


def read(
  client_data: tff.simulation.datasets.ClientData,
  max_bytes: Optional[int] = None,
) -> Clients:
  """Reads all clients into arrays.

  Args:
    client_data: Clients whose datasets are batched.
    max_bytes: How many bytes they may fill; by default half of the memory that
      is free.

  Returns:
    The clients, in the order of `client_data.client_ids`.

  Raises:
    UnfitError: If they do not fit.
  """
  if max_bytes is None:
    max_bytes = psutil.virtual_memory().available // 2
  train: list[Any] = []
  sizes: list[list[int]] = []
  num_bytes, is_shuffled = 0, False
  for client_id in client_data.client_ids:
    dataset = client_data.create_tf_dataset_for_client(client_id)
    if not train:
      is_shuffled = _is_shuffled(dataset)
    batches = [_pair(batch) for batch in dataset.as_numpy_iterator()]
    num_bytes += sum(x.nbytes + y.nbytes for x, y in batches)
    if num_bytes > max_bytes:
      raise UnfitError(f'they fill more than {max_bytes:,} bytes of memory')
    sizes.append([len(y) for _, y in batches])
    train.append(batches)
  batch_size = max(itertools.chain(*sizes), default=0)
  if batch_size == 0:
    raise UnfitError('they have no examples')
  for of_client in sizes:
    if any(size != batch_size for size in of_client[:-1]):
      raise UnfitError('their batches have unlike sizes')
  some = next(batches for batches in train if batches)[0]
  nothing = tuple(part[:0] for part in some)
  return Clients(
    [
      {
        name: np.concatenate([nothing[i], *(batch[i] for batch in batches)])
        for i, name in enumerate('xy')
      }
      for batches in train
    ],
    batch_size,
    is_shuffled,
  )


def functional(
  model: client_work.Model,
) -> tff.learning.models.FunctionalModel:
  """Returns a model as a function of its weights.

  Args:
    model: A `FunctionalModel`, or a function that returns a
      `tff.learning.models.VariableModel`.

  Returns:
    The `FunctionalModel`.

  Raises:
    UnfitError: If it cannot be had.
  """
  if isinstance(model, tff.learning.models.FunctionalModel):
    return model
  variable_model: Any = model()
  # TFF's wrapper around Keras models offers what it wraps in no other way.
  keras_model = getattr(variable_model, '_keras_model', None)
  losses: Any = getattr(variable_model, '_loss_fns', ())
  if keras_model is None or len(losses) != 1:
    raise UnfitError('the model is neither functional nor a Keras model')
  if keras_model.non_trainable_variables:
    raise UnfitError('the Keras model has weights that are not trained')
  if keras_model.losses:
    raise UnfitError('the Keras model has regularizers')
  try:
    return tff.learning.models.functional_model_from_keras(
      keras_model, losses[0], variable_model.input_spec
    )
  except Exception as error:  # Keras raises of all kinds.
    why = str(error).strip().partition('\n')[0].partition('. ')[0]
    raise UnfitError(
      f'the Keras model is no function of its weights ({why})'
    ) from error


def _mean_by_weights(
  model: tff.learning.models.FunctionalModel,
) -> tff.learning.models.FunctionalModel:
  """Returns a model whose loss is divided by the weights, not by the rows."""

  def loss(output, label, sample_weight=None):
    value = model.loss(output, label, sample_weight)
    if sample_weight is None:
      return value
    rows = tf.cast(tf.shape(sample_weight)[0], value.dtype)
    return tf.math.divide_no_nan(value * rows, tf.reduce_sum(sample_weight))

  return tff.learning.models.FunctionalModel(
    initial_weights=model.initial_weights,
    predict_on_batch_fn=tf.function(model.predict_on_batch, autograph=False),
    loss_fn=loss,
    input_spec=model.input_spec,
  )


def for_batches_that_are_filled_up(
  model: tff.learning.models.FunctionalModel, layout: shard_training.Layout
) -> tff.learning.models.FunctionalModel:
  """Returns a model whose loss leaves out rows that only fill up a batch.

  Args:
    model: The model. Losses of Keras divide by the number of rows.
    layout: The layout of the examples.

  Returns:
    A model that computes the same.

  Raises:
    UnfitError: If its loss does not look at `sample_weight`.
  """
  for candidate in (model, _mean_by_weights(model)):
    try:
      shard_training.check_loss_is_weighted_mean(candidate, layout)
      return candidate
    except ValueError as error:
      last = error
  why = str(last).partition(';')[0]
  raise UnfitError(f'{why[:1].lower()}{why[1:]}') from last


def is_for_xla(
  model: tff.learning.models.FunctionalModel, layout: shard_training.Layout
) -> bool:
  """Returns whether a model is made of operations that XLA is good at."""
  with tf.Graph().as_default() as graph:
    fields = {
      name: tf.zeros([1, *shape], dtype) for name, shape, dtype in layout
    }
    weights = tf.nest.map_structure(tf.constant, model.initial_weights)
    model.predict_on_batch(weights, fields['x'], training=True)
  return not any(
    operation.startswith(_NOT_FOR_XLA) or 'Random' in operation
    for operation in _operations(graph.as_graph_def())
  )
