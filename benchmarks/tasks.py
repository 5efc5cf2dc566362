"""The tasks that benchmarks train: data, our model, TFF's model.

Paper-size models; TensorFlow is imported when a model is asked for.
"""

from collections.abc import Callable
from typing import Any

from f3ast_tff.datasets import cifar100
from f3ast_tff.datasets import federated
from f3ast_tff.datasets import shakespeare
from f3ast_tff.datasets import synthetic

BATCH_SIZES = {'synthetic': 20, 'shakespeare': 4, 'cifar100': 20}


def dataset(task: str, data_dir: str) -> federated.FederatedDataset:
  """Returns a task's data.

  Args:
    task: One of `BATCH_SIZES`.
    data_dir: Where real data are; '' for TFF's own cache.

  Returns:
    The data set.
  """
  folder = data_dir or None
  if task == 'shakespeare':
    return shakespeare.load(data_dir=folder)
  if task == 'cifar100':
    return cifar100.load(data_dir=folder)
  return synthetic.load()


def model(task: str) -> Any:
  """Returns our model of a task."""
  from f3ast_tff.models import character_lstm
  from f3ast_tff.models import resnet
  from f3ast_tff.models import softmax

  models: dict[str, Callable[[], Any]] = {
    'synthetic': softmax.build,
    'shakespeare': character_lstm.build,
    'cifar100': resnet.build,
  }
  return models[task]()


def keras_model(task: str) -> Callable[[], Any]:
  """Returns a function that makes TFF's model of a task."""
  import tensorflow as tf
  import tensorflow_federated as tff

  baselines = tff.simulation.baselines
  clients = baselines.ClientSpec(num_epochs=1, batch_size=BATCH_SIZES[task])
  if task == 'shakespeare':
    return baselines.shakespeare.create_character_prediction_task(
      clients,
      sequence_length=80,
      use_synthetic_data=True,  # Only the model is taken.
    ).model_fn
  if task == 'cifar100':
    return baselines.cifar100.create_image_classification_task(
      clients,
      model_id='resnet18',
      crop_height=24,
      crop_width=24,
      use_synthetic_data=True,  # Only the model is taken.
    ).model_fn

  def softmax_regression():
    return tff.learning.models.from_keras_model(
      tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=(60,))]),
      loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      input_spec=(
        tf.TensorSpec([None, 60], tf.float32),
        tf.TensorSpec([None], tf.int32),
      ),
    )

  return softmax_regression
