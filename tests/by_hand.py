"""Softmax regression in plain NumPy, in float64, for tests to compare with."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np

NUM_FEATURES, NUM_CLASSES = 60, 10  # As in `models.softmax`.


class Trained(NamedTuple):
  """A client after its local steps.

  Attributes:
    update: v = trained - received, of the kernel and of the bias.
    loss: The mean over its examples, each before the step it is in.
  """

  update: list[np.ndarray]
  loss: float


def zeros() -> list[np.ndarray]:
  """Returns the kernel and the bias that `models.softmax` starts at."""
  return [np.zeros((NUM_FEATURES, NUM_CLASSES)), np.zeros(NUM_CLASSES)]


def log_probabilities(
  weights: Sequence[np.ndarray], x: np.ndarray
) -> np.ndarray:
  """Returns the logarithm of the probability of each class."""
  logits = x.astype(np.float64) @ weights[0] + weights[1]
  logits -= logits.max(axis=1, keepdims=True)
  return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def mean_loss(
  weights: Sequence[np.ndarray], examples: Mapping[str, np.ndarray]
) -> float:
  """Returns the mean cross-entropy of some examples."""
  log_p = log_probabilities(weights, examples['x'])
  return -log_p[np.arange(len(log_p)), examples['y']].mean()


def in_order(num_examples: int, batch_size: int) -> list[np.ndarray]:
  """Returns the rows of batches that go through examples as they are."""
  rows = np.arange(num_examples)
  return [rows[i : i + batch_size] for i in range(0, rows.size, batch_size)]


def local_sgd(
  examples: Mapping[str, np.ndarray],
  batches: Iterable[np.ndarray],
  learning_rate: float,
  weights: Optional[Sequence[np.ndarray]] = None,
  proximal: float = 0.0,
  clip: float = np.inf,
) -> Trained:
  """Trains on batches of rows, from zeros if no weights are given."""
  received = [np.asarray(w, np.float64) for w in weights or zeros()]
  trained, loss_sum, num_examples = received, 0.0, 0
  for rows in batches:
    x, y = examples['x'][rows].astype(np.float64), examples['y'][rows]
    loss_sum += len(y) * mean_loss(trained, {'x': x, 'y': y})
    num_examples += len(y)
    error = np.exp(log_probabilities(trained, x))
    error[np.arange(len(y)), y] -= 1
    gradients = [
      g + proximal * (w - start)
      for g, w, start in zip(
        (x.T @ error / len(y), error.mean(axis=0)), trained, received
      )
    ]
    norm = np.sqrt(sum((g**2).sum() for g in gradients))
    step = learning_rate * min(1.0, clip / norm)
    trained = [w - step * g for w, g in zip(trained, gradients)]
  return Trained(
    [w - start for w, start in zip(trained, received)],
    loss_sum / max(1, num_examples),
  )
