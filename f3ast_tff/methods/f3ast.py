"""F3AST, Algorithm 1: select greedily by -grad H(r), weight by p_k / r_k."""

import numpy as np

from f3ast_tff import rates
from f3ast_tff import selection


@selection.keeps_quotas
def select(
  s: selection.Situation, rng: np.random.Generator
) -> selection.Cohort:
  """Selects a cohort.

  Args:
    s: The situation in round t.
    rng: Breaks ties.

  Returns:
    The cohort S_t with weights p_k / r_k(t).
  """
  # Line 4: S_t maximises -grad H(r(t-1)) . 1_S over the feasible sets.
  scores = -rates.gradient(s.p, s.r, s.correlation)
  if s.delivery is not None:  # r counts deliveries: dr_k = beta d_k if in S.
    scores = s.delivery * scores
  clients = selection.top_k(scores, s.available, s.k, rng, s.bounds)
  # Line 5: r(t) = (1 - beta) r(t-1) + beta 1_S, here for the members of S.
  r = rates.update(s.r[clients], np.ones(clients.size), s.beta)
  # Line 9: Delta = sum over S of p_k / r_k(t) v_k, with the rates of line 5.
  return selection.Cohort(clients, rates.weights(s.p[clients], r))
