"""Clients that come and go together: clusters with a common on/off chain.

A cluster may be a house, a network or a country. Its chain is the two-state one
by which Rodio et al., "Federated Learning under Heterogeneous and Correlated
Client Availability" (CA-Fed, INFOCOM 2023), model single clients.
"""

import dataclasses
import itertools

import numpy as np

from f3ast_tff import markov
from f3ast_tff import randomness
from f3ast_tff.availability import checks
from f3ast_tff.availability import groups as groups_lib
from f3ast_tff.availability import long_run as long_run_lib

_MAX_LONG_RUN = 12  # 2^12 kinds of rounds.


@dataclasses.dataclass(frozen=True, eq=False)
class Clusters:
  """Client k is available with probability q_k while its cluster is on.

  With P(z) = off_to_on / (on_to_off + off_to_on) a client is available with
  probability q_k P(z), and the covariance of two clients of one cluster is
  q_k q_l P(z) (1 - P(z)), positive. Clusters are independent of each other.

  Attributes:
    q: One probability per client.
    groups: The cluster of each client, from 0.
    num_groups: How many clusters.
    on_to_off: The probability that a cluster goes off when it is on.
    off_to_on: The probability that it returns.
    seed: Decides the draws.
  """

  q: np.ndarray
  groups: np.ndarray
  num_groups: int
  on_to_off: float
  off_to_on: float
  seed: int = 0

  def __post_init__(self) -> None:
    checks.probabilities(self.q, 'q')
    checks.group_of(self.groups, self.q.size, self.num_groups)
    for name in ('on_to_off', 'off_to_on'):
      checks.probabilities(np.array([getattr(self, name)]), name)
    if self.on_to_off + self.off_to_on == 0:
      raise ValueError(
        'on_to_off and off_to_on must not both be 0, or clusters would never '
        'change.'
      )

  @property
  def num_clients(self) -> int:
    """N."""
    return self.q.size

  @property
  def _share_on(self) -> float:
    """P(z)."""
    return self.off_to_on / (self.on_to_off + self.off_to_on)

  @property
  def positively_correlated(self) -> bool:
    """True when a cluster that comes and goes has two clients."""
    largest = np.bincount(self.groups[self.q > 0], minlength=1).max()
    return bool(largest > 1 and 0 < self._share_on < 1)

  def probabilities(self, round_num: int) -> np.ndarray:
    """Returns q_k P(z), the same in every round."""
    randomness.check_round(round_num)
    return self.q * self._share_on

  def __call__(self, round_num: int) -> np.ndarray:
    """Returns the boolean mask A_t."""
    randomness.check_round(round_num)

    def uniforms(t: int) -> np.ndarray:
      rng = randomness.generator(self.seed, 'availability of clusters', t)
      return rng.random(self.num_groups)

    is_on = markov.two_state(
      uniforms,
      round_num,
      np.full(self.num_groups, float(self.on_to_off)),
      np.full(self.num_groups, float(self.off_to_on)),
    )
    rng = randomness.generator(self.seed, 'availability', round_num)
    return (rng.random(self.num_clients) < self.q) & is_on[self.groups]

  def long_run(self) -> long_run_lib.LongRun:
    """Returns the kinds of rounds: which clusters are on.

    Raises:
      ValueError: For many clusters, and for ones that turn in every round.
    """
    if self.num_groups > _MAX_LONG_RUN:
      raise ValueError(
        f'The long run of clusters is known for at most {_MAX_LONG_RUN}, but '
        f'there are {self.num_groups}.'
      )
    if self.on_to_off + self.off_to_on == 2:
      raise ValueError(
        'The long run is not known where clusters turn in every round; make '
        'on_to_off or off_to_on less than 1.'
      )
    states = itertools.product((0.0, 1.0), repeat=self.num_groups)
    factors = np.array(list(states))
    chances = np.where(factors, self._share_on, 1 - self._share_on)
    return long_run_lib.LongRun(
      self.q, self.groups, factors, chances.prod(axis=1), is_cycle=False
    )


def clusters(
  q: np.ndarray,
  seed: int = 0,
  groups: int = 5,
  on_to_off: float = 0.1,
  off_to_on: float = 0.1,
) -> Clusters:
  """Clusters: clients are dealt at random to clusters that come and go.

  Args:
    q: One probability per client, while its cluster is on.
    seed: Decides who is in which cluster, and the draws.
    groups: How many clusters.
    on_to_off: The probability that a cluster goes off when it is on.
    off_to_on: The probability that it returns.

  Returns:
    The model.
  """
  checks.probabilities(q, 'q')
  dealt = groups_lib.deal(q.size, groups, seed)
  return Clusters(q, dealt, groups, on_to_off, off_to_on, seed)
