"""Test metrics in one batched pass: sample and user averages.

The sample average is over all test predictions; the user average is the mean,
over the clients that have test data, of each client's own average.
"""

from collections.abc import Callable
from concurrent import futures
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

from f3ast_tff import randomness
from f3ast_tff.datasets import federated
from f3ast_tff.models import functional


class Metrics(NamedTuple):
  """Accuracy and loss on test data, and on how many examples."""

  accuracy: float
  loss: float
  user_accuracy: float
  user_loss: float
  test_examples: int


def averages(
  losses: np.ndarray,
  correct: np.ndarray,
  counts: np.ndarray,
  owner: np.ndarray,
) -> Metrics:
  """Returns sample and user averages from per-example sums.

  Args:
    losses: The summed loss of each example's predictions.
    correct: How many of them are right.
    counts: How many there are.
    owner: Which client each example belongs to.

  Returns:
    The four averages.
  """
  by_user = [
    np.bincount(owner, weights=values) for values in (losses, correct, counts)
  ]
  user_losses, user_correct, user_counts = by_user
  has_data = user_counts > 0
  total = counts.sum()
  return Metrics(
    accuracy=float(correct.sum() / total),
    loss=float(losses.sum() / total),
    user_accuracy=float(
      np.mean(user_correct[has_data] / user_counts[has_data])
    ),
    user_loss=float(np.mean(user_losses[has_data] / user_counts[has_data])),
    test_examples=len(owner),
  )


def build_evaluator(
  model: functional.Model,
  dataset: federated.FederatedDataset,
  batch_size: int = 500,
  num_threads: int = 1,
) -> Callable[[tuple, Optional[np.ndarray]], Metrics]:
  """Returns a function from model weights to test metrics.

  Args:
    model: The model.
    dataset: Whose test examples to use.
    batch_size: How many examples to take at a time.
    num_threads: How many batches are computed at a time.

  Returns:
    A function of (trainable, non-trainable) weights and of the rows to test on,
    None for all.
  """
  shapes, types = (
    {name: getattr(array, what) for name, array in dataset.test.items()}
    for what in ('shape', 'dtype')
  )

  predict = functional.forward_pass(model.functional)

  # A signature, so that a last batch of another size is not traced again.
  @tf.function(
    autograph=False,
    input_signature=[
      tf.nest.map_structure(
        lambda w: tf.TensorSpec(w.shape, w.dtype),
        model.functional.initial_weights,
      ),
      tf.TensorSpec([None, *shapes['x'][1:]], types['x']),
      tf.TensorSpec([None, *shapes['y'][1:]], types['y']),
    ]
  )
  def evaluate_batch(weights, x, y):
    output = predict(weights, x, training=False)
    return tf.stack(model.per_example(output, y))

  x, y = dataset.test['x'], dataset.test['y']
  threads = futures.ThreadPoolExecutor(num_threads)
  lengths = None if model.length is None else model.length(x).numpy()

  def evaluate(weights: tuple, rows: Optional[np.ndarray] = None) -> Metrics:
    if rows is None:
      rows = np.arange(len(y))
    if lengths is not None:
      rows = rows[np.argsort(lengths[rows], kind='stable')]
    batches = np.split(rows, range(batch_size, len(rows), batch_size))
    sums = list(
      threads.map(
        lambda batch: evaluate_batch(weights, x[batch], y[batch]).numpy(),
        batches,
      )
    )
    losses, correct, counts = np.concatenate(sums, axis=1).astype(float)
    return averages(losses, correct, counts, dataset.test_owner[rows])

  return evaluate


def subset(num_examples: int, size: int, seed: int) -> Optional[np.ndarray]:
  """Returns `size` random rows, ascending, or None for all.

  Args:
    num_examples: How many rows there are.
    size: How many to take; 0, or more than there are, for all.
    seed: Decides which.

  Returns:
    Row numbers.
  """
  if size == 0 or size >= num_examples:
    return None
  rng = randomness.generator(seed, 'test examples')
  return np.sort(rng.choice(num_examples, size, replace=False))
