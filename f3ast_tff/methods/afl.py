"""Agnostic Federated Learning (Mohri, Sivek, Suresh, ICML 2019).

min over w, max over lambda of sum lambda_k F_k(w), lambda on the simplex. Here
lambda takes the place of p in the selection and in the weights lambda_k / r_k.
The step of lambda along the losses is a sum over clients that are seen in part,
so that their losses are divided by r_k as well; without that the clients that
are often there would look worst. Losses are those of the model before the
round.
"""

import numpy as np

from f3ast_tff import rates
from f3ast_tff import selection

# The least lambda_k of who has p_k > 0, as a multiple of 1 / the number of
# these: who is at 0 is never selected and would never come back.
_FLOOR = 0.1


def project(x: np.ndarray, floor: float = 0.0) -> np.ndarray:
  """Returns the nearest point with sum 1 whose numbers are all >= floor."""
  x = x - x.max()  # The same point; 1 is lost in sums of large numbers.
  room = 1 - x.size * floor
  falling = np.sort(x - floor)[::-1]
  shifts = (room - np.cumsum(falling)) / np.arange(1, x.size + 1)
  last = np.flatnonzero(falling + shifts > 0)[-1]
  return floor + np.maximum(x - floor + shifts[last], 0)


def _kept(shares: np.ndarray, p: np.ndarray) -> dict[str, np.ndarray]:
  """Returns lambda nearest to shares; who has no p_k has none of it."""
  has, kept = p > 0, np.zeros(p.size)
  kept[has] = project(shares[has], _FLOOR / np.count_nonzero(has))
  return {'shares': kept}


def _initial(p: np.ndarray) -> dict[str, np.ndarray]:
  return _kept(p, p)


def _rates_of(s: selection.Situation, clients: np.ndarray) -> np.ndarray:
  """Returns r(t) of clients that take part."""
  return rates.update(s.r[clients], np.ones(clients.size), s.beta)


def _aim_at_shares(policy: selection.Policy) -> selection.Policy:
  """Lets a selection aim at lambda instead of p."""

  def select(
    s: selection.Situation, rng: np.random.Generator
  ) -> selection.Cohort:
    shares = s.kept['shares']
    clients = policy(s._replace(p=shares), rng).clients
    weights = rates.weights(shares[clients], _rates_of(s, clients))
    return selection.Cohort(clients, weights)

  return selection.needs_losses(selection.like(policy, select, is_mean=False))


def build(learning_rate: float = 0.0001) -> selection.Method:
  """Returns the method.

  Args:
    learning_rate: That of lambda. It should be small against the step of the
      rates, which have to follow lambda.

  Returns:
    The method.
  """
  if not learning_rate >= 0:
    raise ValueError(
      'afl: the learning rate must be at least 0, but it is '
      f'{learning_rate:g}.'
    )

  def next_kept(
    s: selection.Situation, cohort: selection.Cohort
  ) -> dict[str, np.ndarray]:
    clients, shares = cohort.clients, s.kept['shares'].copy()
    if clients.size:
      losses = np.nan_to_num(s.losses_of(clients), posinf=0, neginf=0)
      shares[clients] += learning_rate * losses / _rates_of(s, clients)
    return _kept(shares, s.p)

  return selection.Method(
    wrap=_aim_at_shares, initial=_initial, next=next_kept
  )
