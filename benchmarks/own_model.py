"""A user's own Keras model: `build_training` against stock TFF.

  python -m benchmarks.own_model

A classifier of two dense layers on a `ClientData`: ten clients a round, batches
of 20, one pass. Stock `build_weighted_fed_avg` runs in TFF's worker and in this
process, ours on arrays and on datasets, one after the other; each ratio is the
median over rounds with the same clients. All start at the same weights, and how
far apart they end up is printed.
"""

import collections
import contextlib
import os
import time
from typing import Any

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from absl import app
from absl import flags
from absl import logging
import numpy as np
import psutil
import tensorflow as tf
import tensorflow_federated as tff

from experiments import cli
from f3ast_tff import methods
from f3ast_tff import selection
from f3ast_tff.datasets import synthetic
from f3ast_tff.execution import context as context_lib
from f3ast_tff.learning import build as build_lib
from f3ast_tff.learning import clients as clients_lib

_ROUNDS = flags.DEFINE_integer(
  'rounds', 20, 'How many rounds each runs.', lower_bound=1
)
_CLIENTS = 10
_RATE = 0.05


def _client_data() -> Any:
  data = synthetic.load(num_clients=100)
  clients = {
    f'client_{k:03}': collections.OrderedDict(
      x=examples['x'][:500], y=examples['y'][:500]
    )
    for k, examples in enumerate(data.train)
  }
  client_data = tff.simulation.datasets.TestClientData(clients)
  return client_data.preprocess(lambda examples: examples.batch(20))


def _model_fn(input_spec: Any) -> Any:
  keras_model = tf.keras.Sequential([
    tf.keras.layers.Dense(100, activation='relu', input_shape=(60,)),
    tf.keras.layers.Dense(10),
  ])
  return tff.learning.models.from_keras_model(
    keras_model,
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    input_spec=input_spec,
  )


@contextlib.contextmanager
def _tffs_worker():
  """Has TFF compute in its worker, which ends with the context."""
  context = tff.backends.native.create_sync_local_cpp_execution_context()
  with tff.framework.get_context_stack().install(context):
    yield
  for child in psutil.Process().children():
    child.kill()


def _weights_of(process: Any, state: Any) -> list[np.ndarray]:
  return list(process.get_model_weights(state).trainable)


def main(argv: list[str]) -> None:
  """Times all ways in turns."""
  del argv
  logging.set_verbosity(logging.ERROR)
  client_data = _client_data()
  spec = client_data.element_type_structure
  sgd = tff.learning.optimizers.build_sgdm
  rng = np.random.default_rng(0)
  cohorts = [
    np.sort(rng.choice(100, _CLIENTS, replace=False))
    for _ in range(_ROUNDS.value + 1)
  ]

  def ours(in_memory):
    clients = clients_lib.read_clients(client_data, in_memory)
    training = build_lib.build_training(
      lambda: _model_fn(spec),
      clients,
      methods.build_selector(clients.p, 'always', _CLIENTS),
      client_optimizer=sgd(_RATE),
    )

    def of_cohort(cohort, t):
      weights = clients.p[cohort] / clients.p[cohort].sum()
      return training.inputs(selection.Cohort(cohort, weights), t)

    return training.process, of_cohort

  stock = tff.learning.algorithms.build_weighted_fed_avg(
    lambda: _model_fn(spec), sgd(_RATE), sgd(1.0)
  )

  def datasets(clients, t):
    del t
    ids = [client_data.client_ids[k] for k in clients]
    return [client_data.create_tf_dataset_for_client(i) for i in ids]

  ways = {
    "stock in TFF's worker": (_tffs_worker, stock, datasets),
    'stock in this process': (context_lib.in_process, stock, datasets),
    'ours on arrays': (context_lib.in_process, *ours(True)),
    'ours on datasets': (context_lib.in_process, *ours(False)),
  }
  first: Any = None
  seconds: dict[str, list[float]] = {name: [] for name in ways}
  states: dict[str, Any] = {}
  for name, (context, process, of_cohort) in ways.items():
    with context():
      state = process.initialize()
      weights = process.get_model_weights(state)
      if first is None:
        first = [np.array(w) for w in weights.trainable]
      kind = type(weights.trainable)
      start = tff.learning.models.ModelWeights(
        kind(first), weights.non_trainable
      )
      state = process.set_model_weights(state, start)
      for t, clients in enumerate(cohorts):
        began = time.perf_counter()
        state = process.next(state, of_cohort(clients, t + 1)).state
        if t:  # The first one compiles.
          seconds[name].append(time.perf_counter() - began)
      states[name] = _weights_of(process, state)
  base = next(iter(ways))
  for name in ways:
    apart = max(
      float(np.abs(a - b).max()) for a, b in zip(states[name], states[base])
    )
    ratio = np.median(np.divide(seconds[base], seconds[name]))
    print(
      f'{name:<24} {1000 * np.median(seconds[name]):8.1f} ms a round, '
      f'{ratio:5.1f} times as fast; weights at most {apart:.1e} apart'
    )


if __name__ == '__main__':
  app.run(main, flags_parser=cli.parse_flags)
