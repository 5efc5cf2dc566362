"""Clients that are Markov chains, on or off, independent of each other."""

import dataclasses

import numpy as np

from f3ast_tff import markov
from f3ast_tff import randomness
from f3ast_tff.availability import checks
from f3ast_tff.availability import long_run as long_run_lib


@dataclasses.dataclass(frozen=True, eq=False)
class Markov:
  """Each client is a two-state Markov chain, on or off, in equilibrium.

  Attributes:
    on_to_off: Per client, the probability to leave when available.
    off_to_on: Per client, the probability to return when not.
    seed: Decides the draws.
  """

  on_to_off: np.ndarray
  off_to_on: np.ndarray
  seed: int = 0

  def __post_init__(self) -> None:
    checks.probabilities(self.on_to_off, 'on_to_off')
    checks.probabilities(self.off_to_on, 'off_to_on')
    if self.on_to_off.shape != self.off_to_on.shape:
      raise ValueError(
        'on_to_off and off_to_on must have one entry per client each, but '
        f'have {self.on_to_off.size} and {self.off_to_on.size}.'
      )
    if not (self.on_to_off + self.off_to_on > 0).all():
      raise ValueError(
        'on_to_off and off_to_on must not both be 0 for a client, or its '
        'availability would never change.'
      )

  @property
  def num_clients(self) -> int:
    """N."""
    return self.on_to_off.size

  @property
  def positively_correlated(self) -> bool:
    """False: the chains are independent of each other."""
    return False

  def probabilities(self, round_num: int) -> np.ndarray:
    """Returns the stationary probability to be available."""
    randomness.check_round(round_num)
    return self.off_to_on / (self.on_to_off + self.off_to_on)

  def __call__(self, round_num: int) -> np.ndarray:
    """Returns the boolean mask A_t."""
    randomness.check_round(round_num)

    def uniforms(t: int) -> np.ndarray:
      rng = randomness.generator(self.seed, 'availability', t)
      return rng.random(self.num_clients)

    return markov.two_state(
      uniforms, round_num, self.on_to_off, self.off_to_on
    )

  def long_run(self) -> long_run_lib.LongRun:
    """Returns one kind of round: the chains are independent of each other.

    Raises:
      ValueError: For chains that turn in every round: who meets whom is then
        decided once and for ever.
    """
    turns = self.on_to_off + self.off_to_on == 2
    if turns.any():
      raise ValueError(
        'The best rates are not known where a client turns in every round, as '
        f'client {np.argmax(turns)} does; make one of its probabilities less '
        'than 1.'
      )
    return long_run_lib.of_one_group(self.probabilities(1), np.ones(1))


def equal_chains(
  p: np.ndarray, seed: int, on_to_off: float, off_to_on: float
) -> Markov:
  """Markov: every client is a chain with the same two probabilities.

  Args:
    p: Each client's share of the data; only their number counts.
    seed: Decides the draws.
    on_to_off: The probability to leave when available.
    off_to_on: The probability to return when not.

  Returns:
    The model.
  """
  n = p.size
  return Markov(
    np.full(n, float(on_to_off)), np.full(n, float(off_to_on)), seed
  )


def persistent(
  q: np.ndarray, seed: int = 0, off_to_on: float = 0.05
) -> Markov:
  """Persistent: chains that are on for q_k of the rounds, and change seldom.

  As Wang and Ji, "A Lightweight Method for Tackling Unknown Participation
  Statistics in Federated Averaging" (FedAU, ICLR 2024), have it: a client
  returns with probability `off_to_on` and leaves with off_to_on (1 - q) / q, or
  both are less, so that none exceeds 1.

  Args:
    q: One probability per client.
    seed: Decides the draws.
    off_to_on: The most that the probability to return can be.

  Returns:
    The model.
  """
  checks.probabilities(q, 'q')
  if not 0 < off_to_on <= 1:
    raise ValueError(f'off_to_on must be in (0, 1], but it is {off_to_on}.')
  odds = np.divide(q, 1 - q, out=np.full(q.size, np.inf), where=q < 1)
  returns = np.minimum(off_to_on, odds)
  leaves = np.divide(returns, odds, out=np.ones(q.size), where=odds > 0)
  return Markov(leaves, returns, seed)
