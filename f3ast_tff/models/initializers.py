"""Distributions that initial weights are drawn from."""

import numpy as np

_STD = 0.87962566103423978  # Of a standard normal cut off at two deviations.


def truncated_normal(
  rng: np.random.Generator, shape: tuple[int, ...]
) -> np.ndarray:
  """Returns normal numbers within two deviations, scaled to variance 1."""
  values = rng.standard_normal(shape)
  while (outside := np.abs(values) > 2).any():
    values[outside] = rng.standard_normal(np.count_nonzero(outside))
  return values / _STD
