"""Rounds on TFF as contenders: ours, and TFF's own federated averaging.

  python -m benchmarks.tff_rounds CONTENDER WORK [DATA_DIR]

The ways in which ours runs are `fedavg` and `f3ast`, which differ in what they
do to choose clients and weights; `fedavg-grid` leaves a core to another run, as
a grid of runs does; `stock` is TFF's `build_weighted_fed_avg` on `tf.data`
datasets with the Keras model that TFF ships for the task (a dense layer for
Synthetic).
"""

from collections.abc import Callable
import dataclasses
import itertools
import os
import sys
from typing import Any

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
# TensorFlow turns oneDNN on by itself only on some CPUs.
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')

from absl import logging
import numpy as np
import psutil
import tensorflow as tf
import tensorflow_federated as tff

from benchmarks import tasks
from benchmarks import timed_process
from f3ast_tff import selection
from f3ast_tff.execution import rounds as rounds_lib
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import task as task_lib

OURS = {
  'fedavg': dict(algorithm='fedavg'),
  'f3ast': dict(algorithm='f3ast'),
  'fedavg-grid': dict(algorithm='fedavg', parallel_clients=1),
}


def _ours(
  work: timed_process.Work, settings: Any, data_dir: str
) -> Callable[[np.ndarray], None]:
  """Returns what runs our rounds."""
  config = config_lib.Config(
    clients_per_round=str(work.cohorts.shape[1]),
    batch_size=work.batch_size,
    avail='always',
    rounds=10**6,
    **settings,
  ).resolve({'sgd': config_lib.LearningRates(client=0.01, server=1.0)})
  tf.config.threading.set_intra_op_parallelism_threads(
    config.threads_per_client
  )
  training = task_lib.build(
    config,
    task_lib.Task(tasks.dataset(work.task, data_dir), tasks.model(work.task)),
  )
  policy = training.selector.policy
  # The next round is prepared ahead, so that the order must be known.
  upcoming = itertools.cycle(work.cohorts)

  def told(situation, rng):
    """Chooses as the method does, and then takes those that all train."""
    chosen = policy(situation, rng)
    cohort = np.sort(next(upcoming))
    weights = np.full(cohort.size, chosen.weights.mean())
    return selection.Cohort(cohort, weights)

  selector = dataclasses.replace(training.selector, policy=told)
  rounds = rounds_lib.Rounds(dataclasses.replace(training, selector=selector))
  numbers = itertools.count(1)

  def run_round(cohort):
    done = rounds.run(next(numbers))
    assert set(done.cohort.clients) == set(cohort), 'not in order'

  return run_round


def _stock(work: timed_process.Work) -> Callable[[np.ndarray], None]:
  """Returns what runs TFF's own rounds, in TFF's worker."""
  keras_model = tasks.keras_model(work.task)
  sgd = tff.learning.optimizers.build_sgdm
  with tf.Graph().as_default():  # Keeps the variables out of the way.
    x_spec, y_spec = keras_model().input_spec

  def dataset_of(k):
    examples = work.examples[int(k)]
    x = tf.data.Dataset.from_tensor_slices(examples['x'])
    if examples['x'].dtype == np.uint8 and x_spec.dtype.is_floating:
      x = x.map(tf.image.per_image_standardization)
    x = x.map(lambda value: tf.cast(value, x_spec.dtype))
    y = tf.data.Dataset.from_tensor_slices(examples['y'])
    y = y.map(lambda value: tf.cast(value, y_spec.dtype))
    pairs = tf.data.Dataset.zip((x, y)).shuffle(len(examples['y']))
    return pairs.batch(work.batch_size)

  process = tff.learning.algorithms.build_weighted_fed_avg(
    keras_model, sgd(0.01), sgd(1.0)
  )
  state = process.initialize()

  def run_round(cohort):
    nonlocal state
    state = process.next(state, [dataset_of(k) for k in cohort]).state

  return run_round


def main() -> None:
  """Serves rounds of the work in the file that is named."""
  logging.set_verbosity(logging.WARNING)
  name, path, data_dir = (*sys.argv[1:], '')[:3]
  work = timed_process.load(path)
  if name != 'stock':
    timed_process.serve(_ours(work, OURS[name], data_dir), work.cohorts)
    return
  run_round = _stock(work)
  # TFF's worker would outlive this program.
  (worker,) = psutil.Process().children()
  try:
    timed_process.serve(run_round, work.cohorts, worker.pid)
  finally:
    worker.kill()


if __name__ == '__main__':
  main()
