"""How long a round takes: ours beside TFF's own FedAvg, in one run.

  python -m benchmarks.round_time
  python -m benchmarks.round_time --task=shakespeare --data_dir=DIR

Same machine, same ten clients a round with all their data in random order, same
batch size, one local epoch. "Stock" is TFF's `build_weighted_fed_avg` on
`tf.data` datasets, with the Keras model that TFF ships for the task (a dense
layer for Synthetic). Each has a worker of its own; blocks of rounds alternate,
so that a noisy neighbour hits both. What counts is the ratio of the medians.
Both have oneDNN, which TFF's worker would not turn on by itself on every CPU.
"""

from collections.abc import Callable
import itertools
import os
import resource
import statistics
import time
from typing import Any, NamedTuple

from absl import app
from absl import flags
from absl import logging

from experiments import cli

_TASK = flags.DEFINE_enum(
  'task',
  'synthetic',
  ('synthetic', 'shakespeare', 'cifar100'),
  'What to train; paper-size models.',
)
_DATA_DIR = flags.DEFINE_string(
  'data_dir', None, "Where the data are; by default TFF's own cache."
)
_BLOCKS = flags.DEFINE_integer(
  'blocks', 3, 'How many blocks each has.', lower_bound=1
)
_ROUNDS = flags.DEFINE_integer(
  'rounds', 10, 'Rounds in a block that are timed.', lower_bound=1
)
_BY_SHARE = flags.DEFINE_bool(
  'by_share', False, 'Draw clients by their data, as FedAvg does.'
)
_COHORT = 10


# Starts with a worker; returns a function that plays a round with a cohort.
Starter = Callable[[Any], Callable[[Any], None]]


class Contender(NamedTuple):
  """Something to time.

  Attributes:
    start: Maps a worker to a function that plays a round with a cohort.
    worker: The arguments of `runtime.worker`.
  """

  start: Starter
  worker: dict[str, Any]


def _tasks():
  """Returns by task its `engine.Task`, batch size and stock model."""
  import tensorflow as tf
  import tensorflow_federated as tff

  from f3ast_tff import engine
  from f3ast_tff.datasets import cifar100
  from f3ast_tff.datasets import shakespeare
  from f3ast_tff.datasets import synthetic
  from f3ast_tff.models import character_lstm
  from f3ast_tff.models import resnet
  from f3ast_tff.models import softmax

  baselines = tff.simulation.baselines

  def synthetic_task():
    model = softmax.build()

    def keras_model():
      return tff.learning.models.from_keras_model(
        tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=(60,))]),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        input_spec=model.functional.input_spec,
      )

    return engine.Task(synthetic.load(), model), 20, keras_model

  def shakespeare_task():
    stock = baselines.shakespeare.create_character_prediction_task(
      baselines.ClientSpec(num_epochs=1, batch_size=4),
      sequence_length=80,
      use_synthetic_data=True,  # Only the model is taken.
    )
    dataset = shakespeare.load(data_dir=cli.data_dir(_DATA_DIR.value))
    task = engine.Task(dataset, character_lstm.build())
    return task, 4, stock.model_fn

  def cifar100_task():
    stock = baselines.cifar100.create_image_classification_task(
      baselines.ClientSpec(num_epochs=1, batch_size=20),
      model_id='resnet18',
      crop_height=24,
      crop_width=24,
      use_synthetic_data=True,  # Only the model is taken.
    )
    dataset = cifar100.load(data_dir=cli.data_dir(_DATA_DIR.value))
    task = engine.Task(dataset, resnet.build())
    return task, 20, stock.model_fn

  return {
    'synthetic': synthetic_task,
    'shakespeare': shakespeare_task,
    'cifar100': cifar100_task,
  }


def _ours(task, batch_size: int) -> Contender:
  """Returns the rounds that the experiments play."""
  import numpy as np

  from f3ast_tff import config as config_lib
  from f3ast_tff import engine
  from f3ast_tff import selection

  config = config_lib.Config(
    clients_per_round=str(_COHORT), batch_size=batch_size, avail='always'
  ).resolve({'sgd': config_lib.LearningRates(client=0.01, server=1.0)})
  upcoming: list[Any] = []
  built = engine.build(config, task)
  equal = np.full(_COHORT, 1 / _COHORT)
  # Who takes part is given; all else is as it is.
  built = built._replace(
    environment=built.environment._replace(
      policy=lambda situation, rng: selection.Cohort(upcoming.pop(), equal)
    )
  )

  def start(worker):
    server = engine.Server(built, worker)
    rounds = itertools.count(1)

    def play(cohort):
      upcoming.append(np.sort(cohort))
      server.play(next(rounds))

    return play

  return Contender(
    start,
    {
      'threads': engine.threads(config),
      'parallel': config.parallel_clients,
    },
  )


def _stock(task, batch_size: int, keras_model) -> Contender:
  """Returns the rounds of TFF's own FedAvg."""
  import numpy as np
  import tensorflow as tf
  import tensorflow_federated as tff

  dataset, rng = task.dataset, np.random.default_rng(0)
  augment = dataset.augment or (lambda examples, rng: examples)
  sgd = tff.learning.optimizers.build_sgdm
  with tf.Graph().as_default():  # Keeps the variables out of the way.
    x_spec, y_spec = keras_model().input_spec

  def dataset_of(k):
    examples = augment(dataset.train[k], rng)
    x = tf.data.Dataset.from_tensor_slices(examples['x'])
    if examples['x'].dtype == np.uint8 and x_spec.dtype.is_floating:
      x = x.map(tf.image.per_image_standardization)
    x = x.map(lambda value: tf.cast(value, x_spec.dtype))
    y = tf.data.Dataset.from_tensor_slices(examples['y'])
    y = y.map(lambda value: tf.cast(value, y_spec.dtype))
    pairs = tf.data.Dataset.zip((x, y)).shuffle(len(examples['y']))
    return pairs.batch(batch_size)

  process = tff.learning.algorithms.build_weighted_fed_avg(
    keras_model, sgd(0.01), sgd(1.0)
  )

  def start(worker):
    del worker  # TFF finds it by its context.
    state = process.initialize()

    def play(cohort):
      nonlocal state
      state = process.next(state, [dataset_of(k) for k in cohort]).state

    return play

  return Contender(start, {})


def _time_block(contender: Contender, cohorts) -> tuple[list[float], int]:
  """Returns the seconds of each round and the worker's peak memory in MB."""
  from f3ast_tff import runtime

  seconds = []
  with runtime.worker(**contender.worker) as worker:
    play = contender.start(worker)
    play(cohorts[0])  # The first round is slower.
    for cohort in cohorts:
      began = time.perf_counter()
      play(cohort)
      seconds.append(time.perf_counter() - began)
    with open(f'/proc/{worker.pid}/status') as status:
      peak = next(line for line in status if line.startswith('VmHWM'))
  return seconds, int(peak.split()[1]) // 1000


def main(argv: list[str]) -> None:
  """Times both and prints the ratio."""
  del argv
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
  logging.set_verbosity(logging.WARNING)
  # Here, because TensorFlow reads the variable above when it is imported.
  import numpy as np

  with cli.one_sentence(ValueError, 2):
    task, batch_size, keras_model = _tasks()[_TASK.value]()
  contenders = {
    'ours': _ours(task, batch_size),
    'stock TFF': _stock(task, batch_size, keras_model),
  }
  rng = np.random.default_rng(1)
  share = task.dataset.p if _BY_SHARE.value else None
  cohorts = [
    rng.choice(len(task.dataset.train), _COHORT, replace=False, p=share)
    for _ in range(_ROUNDS.value)
  ]
  seconds: dict[str, list[float]] = {name: [] for name in contenders}
  peaks = dict.fromkeys(contenders, 0)
  for _ in range(_BLOCKS.value):
    for name, contender in contenders.items():
      block, peak = _time_block(contender, cohorts)
      seconds[name] += block
      peaks[name] = max(peaks[name], peak)
  num_examples = task.dataset.num_examples
  mean = statistics.mean(int(num_examples[c].sum()) for c in cohorts)
  print(
    f'{task.dataset.name}: {_COHORT} clients and {mean:.0f} examples a round, '
    f'batch {batch_size}, {_BLOCKS.value} blocks of {_ROUNDS.value} rounds'
  )
  for name, times in seconds.items():
    low, median, high = np.percentile(times, [25, 50, 75]) * 1000
    print(
      f'  {name:<10} median {median:8.1f} ms, quartiles {low:.1f} to '
      f'{high:.1f}; worker at most {peaks[name]} MB'
    )
  ratio = statistics.median(seconds['stock TFF']) / statistics.median(
    seconds['ours']
  )
  print(f'  stock TFF takes {ratio:.1f} times as long as ours')
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
  print(f'  the driver, which both share, at most {peak} MB')


if __name__ == '__main__':
  app.run(main, flags_parser=cli.parse_flags)
