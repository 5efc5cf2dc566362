"""CA-Fed (Rodio et al., INFOCOM 2023): who is correlated may be left out.

Client k is available with probability pi_k, as a Markov chain with second
eigenvalue lambda_k. Those of A_t report their loss before they train. A walk
over the clients, first by falling |lambda_k|, then by rising pi_k, excludes
each whose exclusion lowers

  eps = sum outside X of p_k e_k / (1 - P) + kappa P^2 max e,

e the losses above their least values, P the share of the excluded X. The others
have the weights p_k / pi_k, which are not normalised. The equations are those
of the authors' code; pi and lambda are estimated from earlier rounds, whereas
that code takes the true ones.

If only some of those left are selected, uniformly, their weights grow by how
many there were for each, which is biased where not all of them take part alike,
as with quotas or loss after selection. Another selection keeps its own weights.
"""

from collections.abc import Callable
from typing import Optional

import numpy as np

from f3ast_tff import selection
from f3ast_tff.methods import uniform

_KAPPA = 1.0  # As in the authors' code; so is that least losses are 0.


def _initial(p: np.ndarray) -> dict[str, np.ndarray]:
  names = ('rounds_on', 'stayed_on', 'stayed_off', 'was_on', 'loss')
  return {name: np.zeros(p.size) for name in names}


def estimates(s: selection.Situation) -> tuple[np.ndarray, np.ndarray]:
  """Returns pi and lambda by the rounds before this one, with flat priors."""
  kept, before = s.kept, s.round_num - 1
  on_before = kept['rounds_on'] - kept['was_on']  # With a round after it.
  off_before = max(0, before - 1) - on_before
  pi = (kept['rounds_on'] + 1) / (before + 2)
  on_on = (kept['stayed_on'] + 1) / (on_before + 2)
  off_off = (kept['stayed_off'] + 1) / (off_before + 2)
  return pi, on_on + off_off - 1


def _losses(s: selection.Situation) -> np.ndarray:
  """Returns the newest loss of each client."""
  known = s.kept['loss'].copy()
  there = np.flatnonzero(s.available)
  if not there.size:
    return known
  reported = np.asarray(s.losses_of(there), float)
  reported = np.where(np.isfinite(reported), reported, known[there])
  if not s.kept['rounds_on'].any():  # The first losses stand for all others.
    known[:] = reported.mean()
  known[there] = reported
  return known


def bound(
  sum_of_losses: float, share: float, worst: float, kappa: float = _KAPPA
) -> float:
  """Returns eps.

  Args:
    sum_of_losses: The sum of p_k e_k of those who are not excluded.
    share: P, the share of the excluded.
    worst: max e.
    kappa: What the bias costs.

  Returns:
    The bound on the error.
  """
  return sum_of_losses / (1 - share) + kappa * share**2 * worst


def excluded(
  p: np.ndarray,
  losses: np.ndarray,
  pi: np.ndarray,
  eigenvalues: np.ndarray,
  kappa: float = _KAPPA,
) -> np.ndarray:
  """Returns the mask of the clients that are left out."""
  out = np.zeros(p.size, bool)
  share, sum_of_losses, worst = 0.0, float(p @ losses), float(losses.max())
  least = bound(sum_of_losses, share, worst, kappa)
  for order in (np.argsort(-np.abs(eigenvalues), kind='stable'),
                np.argsort(pi, kind='stable')):
    for k in order:
      if out[k] or share + p[k] >= 1 - 1e-12:
        continue
      others = sum_of_losses - p[k] * losses[k]
      with_k = share + p[k]
      lower = bound(others, with_k, worst, kappa)
      if lower < least:
        out[k] = True
        share, sum_of_losses, least = with_k, others, lower
  return out


def build(
  pi_of: Optional[Callable[[int], np.ndarray]] = None,
  eigenvalues: Optional[np.ndarray] = None,
) -> selection.Method:
  """Returns the method.

  Args:
    pi_of: Maps a round to the probabilities to be available, if they are known,
      as in the authors' code; None to estimate them and the eigenvalues.
    eigenvalues: lambda, if pi is known; None for 0.

  Returns:
    The method.
  """

  def wrap(policy: selection.Policy) -> selection.Policy:
    has_own_weights = policy is uniform.select

    def select(
      s: selection.Situation, rng: np.random.Generator
    ) -> selection.Cohort:
      chances, lambdas = estimates(s)
      if pi_of is not None:
        chances = pi_of(s.round_num)
        lambdas = np.zeros(s.p.size) if eigenvalues is None else eigenvalues
      out = excluded(s.p, _losses(s), chances, lambdas)
      left = s.available & ~out
      cohort = policy(s._replace(available=left), rng)
      if not has_own_weights:
        return cohort
      clients = cohort.clients
      taken = np.count_nonzero(left) / max(1, clients.size)
      return selection.Cohort(clients, taken * s.p[clients] / chances[clients])

    return selection.needs_losses(
      selection.like(policy, select, is_mean=not has_own_weights)
    )

  def next_kept(
    s: selection.Situation, cohort: selection.Cohort
  ) -> dict[str, np.ndarray]:
    del cohort
    kept, on = s.kept, s.available.astype(float)
    is_first = s.round_num == 1
    return {
      'rounds_on': kept['rounds_on'] + on,
      'stayed_on': kept['stayed_on'] + on * kept['was_on'],
      'stayed_off': kept['stayed_off']
      + (0 if is_first else (1 - on) * (1 - kept['was_on'])),
      'was_on': on,
      'loss': _losses(s),
    }

  return selection.Method(wrap=wrap, initial=_initial, next=next_kept)
