"""Availability that depends on the labels of a client's examples.

The hard case: who is seldom available has other data. Both rules are of the
experiments of others, with their numbers.
"""

import numpy as np

from f3ast_tff import randomness
from f3ast_tff.availability import independent


def _check(label_shares: np.ndarray) -> None:
  if label_shares.ndim != 2 or not label_shares.size:
    raise ValueError(
      'label_shares must have a row per client and a column per label, but its '
      f'shape is {label_shares.shape}.'
    )


def labels(
  label_shares: np.ndarray, seed: int = 0, high: float = 1.0, low: float = 0.5
) -> independent.Independent:
  """Labels: q_k is the mean of random weights of the labels of k's examples.

  The weights of the first half of the labels are uniform on [0, high], those of
  the others on [0, low]. That is the base of Xiang et al. (FedAWE, NeurIPS
  2024), on ten labels.

  Args:
    label_shares: The share of each label in each client's examples, shape [N,
      number of labels].
    seed: Decides the weights and the draws.
    high: The most that a label of the first half can weigh.
    low: The most that one of the second half can weigh.

  Returns:
    The model.
  """
  _check(label_shares)
  if not (0 <= low <= 1 and 0 <= high <= 1):
    raise ValueError(
      f'high and low must be in [0, 1], but they are {high} and {low}.'
    )
  num_labels = label_shares.shape[1]
  rng = randomness.generator(seed, 'weights of labels')
  is_first = 2 * np.arange(num_labels) < num_labels
  weights = rng.random(num_labels) * np.where(is_first, high, low)
  # Shares sum to 1 but for rounding.
  return independent.Independent(
    np.minimum(1.0, label_shares @ weights), seed=seed
  )


def majority_label(
  label_shares: np.ndarray, seed: int = 0, least: float = 0.1
) -> independent.Independent:
  """Majority label: q_k grows from `least` to 1 with k's most frequent label.

  That is how Gu et al., "Fast Federated Learning in the Presence of Arbitrary
  Device Unavailability" (MIFA, NeurIPS 2021), have it for clients with shares
  of labels from a Dirichlet distribution.

  Args:
    label_shares: As for `labels`.
    seed: Decides the draws.
    least: q of a client whose most frequent label is the first.

  Returns:
    The model.
  """
  _check(label_shares)
  last = max(1, label_shares.shape[1] - 1)
  place = label_shares.argmax(axis=1) / last
  return independent.Independent(least + (1 - least) * place, seed=seed)
