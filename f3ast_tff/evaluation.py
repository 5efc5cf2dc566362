"""Test metrics in one batched pass: sample and user averages.

The sample average is over all test predictions; the user average is the mean,
over the clients that have test data, of each client's own average.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from f3ast_tff.datasets import federated
from f3ast_tff.models import functional


class Metrics(NamedTuple):
  """Accuracy and loss on test data."""

  accuracy: float
  loss: float
  user_accuracy: float
  user_loss: float


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
  )


def build_evaluator(
  model: functional.Model,
  dataset: federated.FederatedDataset,
  batch_size: int = 1024,
) -> Callable[[tuple], Metrics]:
  """Returns a function from model weights to test metrics.

  Args:
    model: The model.
    dataset: Whose test examples to use.
    batch_size: How many examples to take at a time.

  Returns:
    A function of (trainable, non-trainable) weights.
  """

  @tf.function(reduce_retracing=True)
  def evaluate_batch(weights, x, y):
    output = model.functional.predict_on_batch(weights, x, training=False)
    return tf.stack(model.per_example(output, y))

  x, y = dataset.test['x'], dataset.test['y']

  def evaluate(weights: tuple) -> Metrics:
    sums = [
      evaluate_batch(
        weights, x[i : i + batch_size], y[i : i + batch_size]
      ).numpy()
      for i in range(0, len(y), batch_size)
    ]
    losses, correct, counts = np.concatenate(sums, axis=1).astype(float)
    return averages(losses, correct, counts, dataset.test_owner)

  return evaluate
