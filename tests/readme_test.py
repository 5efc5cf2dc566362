"""Runs the Python example of the README."""

import pathlib
import re
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff.datasets import synthetic

_README = pathlib.Path(__file__).parents[1] / 'README.md'


def test_the_example_for_tff_users_runs_and_learns():
  blocks = re.findall(r'```python\n(.*?)```', _README.read_text(), re.DOTALL)
  assert len(blocks) == 1
  data = synthetic.load(num_clients=12, seed=3)
  datasets = [
    tf.data.Dataset.from_tensor_slices((e['x'][:60], e['y'][:60])).batch(20)
    for e in data.train
  ]

  def model_fn():
    return tff.learning.models.from_keras_model(
      tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=(60,))]),
      loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      input_spec=datasets[0].element_spec,
    )

  namespace = {
    'datasets': datasets,
    'model_fn': model_fn,
    'num_examples': np.array([min(60, len(e['y'])) for e in data.train]),
  }
  few_rounds = blocks[0].replace('range(1, 101)', 'range(1, 9)')
  assert few_rounds != blocks[0]
  exec(few_rounds, namespace)
  loss = namespace['metrics']['client_work']['train']['loss']
  assert 0 < loss < 4
  assert namespace['state'].rates.shape == (12,)
  assert (namespace['state'].rates != namespace['rates'].initial(
    namespace['p'], 10, 'kp'
  )).all()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
