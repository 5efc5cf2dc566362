"""Linear regression as a TFF user has it, and the same in plain NumPy."""

import collections
import functools
from typing import Any, Optional

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import f3ast_tff

SIZES = (7, 3, 12, 5)
P = np.array(SIZES) / sum(SIZES)
TRUE = np.array([[1.0], [-2.0], [0.5]], np.float32)
BATCH_SIZE = 4
RATE = 0.05
SGD = tff.learning.optimizers.build_sgdm


@functools.cache
def examples(client: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns x and y of a client, whose labels are linear in its features."""
  rng = np.random.default_rng(client)
  x = rng.standard_normal((SIZES[client], 3)).astype(np.float32)
  return x, x @ TRUE


@functools.cache
def client_data() -> tff.simulation.datasets.ClientData:
  """Returns four clients of unlike size, in batches."""
  data = tff.simulation.datasets.TestClientData({
    name: collections.OrderedDict(zip('xy', examples(k)))
    for k, name in enumerate('abcd')
  })
  return data.preprocess(lambda dataset: dataset.batch(BATCH_SIZE))


def _loss(output, label, sample_weight=None):
  losses = tf.reduce_sum((output - label) ** 2, axis=1)
  if sample_weight is None:
    return tf.reduce_mean(losses)
  total = tf.reduce_sum(losses * sample_weight)
  return tf.math.divide_no_nan(total, tf.reduce_sum(sample_weight))


def functional(loss_fn: Any = _loss) -> tff.learning.models.FunctionalModel:
  """Returns the model; a process around it is built quickly."""
  return tff.learning.models.FunctionalModel(
    initial_weights=((np.zeros((3, 1), np.float32),), ()),
    predict_on_batch_fn=tf.function(
      lambda weights, x, training: x @ weights[0][0]
    ),
    loss_fn=loss_fn,
    input_spec=client_data().element_type_structure,
  )


def keras() -> tff.learning.models.VariableModel:
  """Returns the same model made with Keras; a TFF user's `model_fn`."""
  layer = tf.keras.layers.Dense(
    1, use_bias=False, kernel_initializer='zeros', input_shape=(3,)
  )
  return tff.learning.models.from_keras_model(
    tf.keras.Sequential([layer]),
    loss=tf.keras.losses.MeanSquaredError(),
    input_spec=client_data().element_type_structure,
  )


@functools.cache
def build(
  in_memory: bool = True,
  model: Any = None,
  aggregator: Any = None,
  server_optimizer: Any = None,
  num_shards: Optional[int] = 2,
  **selection: Any,
) -> f3ast_tff.Training:
  """Builds a training, once for the same arguments; compiling takes long.

  Args:
    in_memory: As for `read_clients`.
    model: By default `functional`.
    aggregator: As for `build_training`, as are the next two.
    server_optimizer: ServerOpt.
    num_shards: How many.
    **selection: Goes to `build_selector`.

  Returns:
    The training.
  """
  clients = f3ast_tff.read_clients(client_data(), in_memory)
  settings = {
    'availability': 'always', 'clients_per_round': 2, 'beta': 0.1, **selection
  }
  return f3ast_tff.build_training(
    functional() if model is None else model,
    clients,
    f3ast_tff.build_selector(clients.p, **settings),
    client_optimizer=SGD(RATE),
    server_optimizer=server_optimizer,
    aggregator=aggregator,
    num_shards=num_shards,
  )


def weights_of(state: Any) -> np.ndarray:
  """Returns the weights of the model in a state."""
  (weights,) = state.global_model_weights.trainable
  return np.asarray(weights, np.float64)


def losses(weights: np.ndarray) -> np.ndarray:
  """Returns the mean loss of each client."""
  pairs = map(examples, range(len(SIZES)))
  return np.array([((x @ weights - y) ** 2).mean() for x, y in pairs])


def update(client: int, received: Optional[np.ndarray] = None) -> np.ndarray:
  """Returns the update v_k of a client, by default of one that has zeros."""
  received = np.zeros((3, 1)) if received is None else received
  weights = received
  x, y = examples(client)
  for i in range(0, len(y), BATCH_SIZE):
    some, label = x[i : i + BATCH_SIZE], y[i : i + BATCH_SIZE]
    error = some @ weights - label
    weights = weights - RATE * 2 * some.T @ error / len(error)
  return weights - received


def updates() -> np.ndarray:
  """Returns the updates of all clients that have zeros, one in a row."""
  return np.array([update(k).ravel() for k in range(len(SIZES))])
