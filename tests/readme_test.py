"""Runs the Python example of the README."""

import pathlib
import re
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff.datasets import synthetic

_ROOT = pathlib.Path(__file__).parents[1]
_README = _ROOT / 'README.md'


def test_what_the_readme_points_at_is_there():
  text = _README.read_text()
  assert '@' not in text.replace('@SERVER', '')
  for path in re.findall(r'\]\(([^)#:]+)\)', text):
    assert (_ROOT / path).exists(), path


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
  losses = []
  for rounds in (1, 30):
    text = f'range(1, {rounds + 1})'
    exec(blocks[0].replace('range(1, 101)', text), namespace)
    losses.append(namespace['metrics']['client_work']['train']['loss'])
  assert losses[1] < 0.8 * losses[0]
  assert namespace['state'].rates.shape == (12,)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
