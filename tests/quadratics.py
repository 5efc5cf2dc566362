"""Clients with F_k(w) = a_k (w - b_k)^2 / 2 of a number w, as TFF has them."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import methods
from f3ast_tff.execution import rounds as rounds_lib
from f3ast_tff.learning import build as build_lib
from f3ast_tff.learning import client_optimizers
from f3ast_tff.learning import clients as clients_lib

P = np.array([0.5, 0.3, 0.2])
EQUAL = np.full(3, 1 / 3)
B = np.array([0.0, 4.0, 8.0])


class Given:
  """An availability that is written down; from its end on nobody is there."""

  positively_correlated = False

  def __init__(self, sets, num_clients=3):
    self._sets, self.num_clients = sets, num_clients

  def __call__(self, round_num):
    there = self._sets[round_num - 1] if round_num <= len(self._sets) else ()
    return np.isin(np.arange(self.num_clients), list(there))

  def probabilities(self, round_num):
    """There is no chance in it."""
    return self(round_num).astype(float)


def _loss(output, label, sample_weight=None):
  losses = tf.reduce_sum((output - label) ** 2, axis=1) / 2
  if sample_weight is None:
    return tf.reduce_mean(losses)
  total = tf.reduce_sum(losses * sample_weight)
  return tf.math.divide_no_nan(total, tf.reduce_sum(sample_weight))


def _model():
  row = tf.TensorSpec([None, 1], tf.float32)
  return tff.learning.models.FunctionalModel(
    initial_weights=((np.ones(1, np.float32),), ()),
    predict_on_batch_fn=tf.function(
      lambda weights, x, training: x * weights[0][0]
    ),
    loss_fn=_loss,
    input_spec=(row, row),
  )


def training(
  sets,
  p=P,
  policy='f3ast',
  a=(1, 1, 1),
  b=B,
  num_steps=2,
  rate=0.5,
  proximal=0.0,
  k=2,
  **selection,
):
  """Returns a training from w = 1, each client with full gradients."""
  steep = np.sqrt(np.asarray(a, np.float32))
  train = [
    {'x': np.array([[s]]), 'y': np.array([[s * at]], np.float32)}
    for s, at in zip(steep, np.asarray(b))
  ]
  optimizer = client_optimizers.proximal(
    tff.learning.optimizers.build_sgdm(rate), proximal
  )
  availability = sets if callable(sets) else Given(sets)
  settings = {'beta': 0.1, **selection}
  return build_lib.build_training(
    _model(),
    clients_lib.ClientArrays(train, batch_size=1, epochs=num_steps),
    methods.build_selector(p, availability, k, policy=policy, **settings),
    client_optimizer=optimizer,
    num_shards=2,
  )


def states(built, num_rounds):
  """Runs rounds; yields what happened and the state after each."""
  rounds = rounds_lib.Rounds(built)
  for t in range(1, num_rounds + 1):
    yield rounds.run(t), rounds.state


def model_of(state):
  """Returns the number w of a state."""
  return float(state.global_model_weights.trainable[0][0])


def run(built, num_rounds):
  """Runs rounds; returns the models after each, and the last state."""
  models, state = [], None
  for _, state in states(built, num_rounds):
    models.append(model_of(state))
  return models, state
