"""Your own model and data: a Keras model, clients as `tf.data` datasets.

  python examples/own_model.py

Twenty clients have points of a spiral, each from its own part of it. Half of
them are available in one round of ten, the others nearly always. To compare,
the same model is trained with the clients that FedAvg selects.
"""

import argparse

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
import tqdm

import f3ast_tff

NUM_CLIENTS, NUM_ROUNDS = 20, 150


def spiral(begin, end, num_examples, seed):
  """Returns points of two arms, from one place on them to another."""
  rng = np.random.default_rng(seed)
  y = rng.integers(2, size=num_examples)
  angle = rng.uniform(begin, end, num_examples)
  place = angle + np.pi * y
  x = angle[:, None] * np.stack([np.cos(place), np.sin(place)], axis=1)
  x += rng.normal(0, 0.1, x.shape)
  return x.astype(np.float32), y.astype(np.int32)


def client_dataset(client_id):
  """Returns the training examples of a client, in batches."""
  k = int(client_id)
  examples = spiral(0.3 * k, 0.3 * (k + 1), 60, seed=k)
  return tf.data.Dataset.from_tensor_slices(examples).shuffle(60).batch(20)


def keras_model():
  """Returns a small network; a fixed seed gives the same weights each time."""
  def dense(units, activation, seed):
    initializer = tf.keras.initializers.GlorotUniform(seed=seed)
    return tf.keras.layers.Dense(
      units, activation, kernel_initializer=initializer
    )

  inputs = tf.keras.Input([2])
  hidden = dense(32, 'relu', 2)(dense(32, 'relu', 1)(inputs))
  return tf.keras.Model(inputs, dense(2, None, 3)(hidden))


def model_fn():
  """Returns the model as TFF wants it."""
  return tff.learning.models.from_keras_model(
    keras_model(),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    input_spec=client_dataset('0').element_spec,
  )


def accuracy(weights):
  """Returns the accuracy of a model on points from all of the spiral."""
  x, y = spiral(0, 0.3 * NUM_CLIENTS, 2000, seed=1000)
  model = keras_model()
  weights.assign_weights_to(model)
  return (model(x).numpy().argmax(axis=1) == y).mean()


def train(policy, num_rounds):
  """Trains with the clients that a policy selects; returns the accuracy."""
  client_data = tff.simulation.datasets.ClientData.from_clients_and_tf_fn(
    [f'{k:02}' for k in range(NUM_CLIENTS)], client_dataset
  )
  clients = f3ast_tff.read_clients(client_data)
  is_rare = np.arange(NUM_CLIENTS) < NUM_CLIENTS // 2
  training = f3ast_tff.build_training(
    model_fn,
    clients,
    f3ast_tff.build_selector(
      clients.p,
      f3ast_tff.availability.Independent(np.where(is_rare, 0.1, 0.9)),
      clients_per_round=5,
      policy=policy,
      beta=0.01,
    ),
    client_optimizer=tff.learning.optimizers.build_sgdm(0.1),
  )
  state = training.initialize()
  for t in tqdm.trange(1, num_rounds + 1, desc=policy, disable=None):
    state, _ = training.next(state, t)
  return accuracy(training.process.get_model_weights(state))


def main():
  """Trains with both policies and prints the accuracies."""
  parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
  parser.add_argument('--rounds', type=int, default=NUM_ROUNDS)
  num_rounds = parser.parse_args().rounds
  f3ast_tff.set_in_process()  # TFF computes here, not in a second process.
  for policy in ('proportional', 'f3ast'):
    print(f'{policy}: accuracy {train(policy, num_rounds):.3f}')


if __name__ == '__main__':
  main()
