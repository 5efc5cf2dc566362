"""Which group a client is in, for models whose clients come in groups."""

import numpy as np

from f3ast_tff import randomness
from f3ast_tff.availability import checks


def deal(num_clients: int, num_groups: int, seed: int) -> np.ndarray:
  """Returns a group for each client, at random and of like sizes.

  Args:
    num_clients: N.
    num_groups: How many groups; some stay empty if there are more than N.
    seed: Decides who is in which.

  Returns:
    The groups, from 0.
  """
  checks.at_least_one(num_groups, 'The number of groups')
  rng = randomness.generator(seed, 'groups of clients')
  return rng.permutation(np.arange(num_clients) % num_groups)
