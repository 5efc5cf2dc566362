"""Checks that the availability models share."""

import numpy as np


def probabilities(q: np.ndarray, name: str) -> None:
  """Raises a ValueError unless q holds a probability for each client."""
  if q.ndim != 1 or q.size < 1:
    raise ValueError(
      f'{name} must hold one number for each of N >= 1 clients, but its shape '
      f'is {q.shape}.'
    )
  if not ((q >= 0) & (q <= 1)).all():
    raise ValueError(
      f'{name} must hold probabilities in [0, 1], but it ranges from '
      f'{q.min()} to {q.max()}.'
    )


def at_least_one(value: int, name: str) -> None:
  """Raises a ValueError unless a number, such as a period, is at least 1."""
  if value < 1:
    raise ValueError(f'{name} must be at least 1, but it is {value}.')


def group_of(groups: np.ndarray, num_clients: int, num_groups: int) -> None:
  """Raises a ValueError unless each client has one of the groups."""
  if groups.shape != (num_clients,) or groups.dtype.kind not in 'iu':
    raise ValueError(
      f'groups must hold a whole number for each of the {num_clients} clients, '
      f'but it is {groups.dtype} of shape {groups.shape}.'
    )
  if groups.min() < 0 or groups.max() >= num_groups:
    raise ValueError(
      f'groups must be from 0 to {num_groups - 1}, but range from '
      f'{groups.min()} to {groups.max()}.'
    )
