"""FedAU (Wang and Ji, ICLR 2024): weights from intervals of absence.

The weight of client k is p_k times the mean length of the intervals between its
participations so far, which tends to 1 / rate of any selection that has a rate.
It is that of earlier rounds, so that it does not depend on who takes part now;
who has no interval yet has the weight p_k. An interval is cut after `cutoff`
rounds, which bounds the weight and underestimates clients that are rarer.
"""

import math

import numpy as np

from f3ast_tff import selection


def _initial(p: np.ndarray) -> dict[str, np.ndarray]:
  return {
    'intervals': np.zeros(p.size),  # How many there have been.
    'length': np.zeros(p.size),  # Of the running one.
    'mean_interval': np.ones(p.size),
  }


def _weigh(policy: selection.Policy) -> selection.Policy:
  """Replaces the weights of a selection."""

  def select(
    s: selection.Situation, rng: np.random.Generator
  ) -> selection.Cohort:
    clients = policy(s, rng).clients
    weights = s.p[clients] * s.kept['mean_interval'][clients]
    return selection.Cohort(clients, weights)

  return selection.like(policy, select, is_mean=False)


def build(cutoff: float = math.inf) -> selection.Method:
  """Returns the method.

  Args:
    cutoff: After how many rounds an interval is cut; by default never. The
      authors use both none and 50.

  Returns:
    The method.
  """
  if not cutoff >= 1:
    raise ValueError(
      f'fedau: the cutoff must be at least 1, but it is {cutoff:g}.'
    )

  def next_kept(
    s: selection.Situation, cohort: selection.Cohort
  ) -> dict[str, np.ndarray]:
    number, mean = s.kept['intervals'], s.kept['mean_interval']
    length = s.kept['length'] + 1
    ends = length >= cutoff
    ends[cohort.clients] = True
    with_this = np.where(
      number > 0, (number * mean + length) / (number + 1), length
    )
    return {
      'intervals': number + ends,
      'length': np.where(ends, 0, length),
      'mean_interval': np.where(ends, with_this, mean),
    }

  return selection.Method(wrap=_weigh, initial=_initial, next=next_kept)
