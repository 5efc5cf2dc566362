"""What an availability model comes to in the long run, for `theory`."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class LongRun:
  """Rounds are of several kinds; given the kind, clients are independent.

  In a round of kind m client k of group g is available with probability
  q_k f_{m,g}. Most models have one group: then all clients have the same good
  rounds.

  Attributes:
    q: One probability per client.
    groups: The group of each client, from 0.
    factors: f, shape [number of kinds, number of groups].
    shares: The share of the rounds that are of each kind; sums to 1.
    is_cycle: Whether the kinds come in their order, over and over. Otherwise
      they are random, and all orders occur.
  """

  q: np.ndarray
  groups: np.ndarray
  factors: np.ndarray
  shares: np.ndarray
  is_cycle: bool

  @property
  def chances(self) -> np.ndarray:
    """The probability of each client in each kind of round, [kinds, N]."""
    return self.q * self.factors[:, self.groups]


def of_one_group(q: np.ndarray, factors: np.ndarray) -> LongRun:
  """Returns the long run of clients with probabilities q_k f_t.

  Args:
    q: One probability per client.
    factors: f_1 .. f_P, which repeat.

  Returns:
    One group, and a kind for each factor.
  """
  return LongRun(
    q,
    np.zeros(q.size, int),
    factors[:, None],
    np.full(factors.size, 1 / factors.size),
    is_cycle=True,
  )
