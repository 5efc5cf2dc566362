"""FedAvg: clients drawn in proportion to their data, equal weights.

FedAdam and F3AST's other baselines select in the same way and differ in the
server's optimizer. The paper draws without replacement; `with_replacement` is
scheme I of Li et al. (2020), whose mean weights are the shares of the data.
"""

import numpy as np

from f3ast_tff import selection


@selection.averages
@selection.keeps_quotas
def select(
  s: selection.Situation, rng: np.random.Generator
) -> selection.Cohort:
  """Draws K_t of A_t without replacement, with probability p_k."""
  return selection.with_equal_weights(
    selection.draw_by_share(s.p, s.available, s.k, rng, s.bounds)
  )


@selection.averages
def select_with_replacement(
  s: selection.Situation, rng: np.random.Generator
) -> selection.Cohort:
  """Draws K_t times from A_t with replacement, with probability p_k.

  Who is drawn m times trains once, with the weight of m. So the mean of the
  weights over the draws is p_k over its sum in A_t, which is not so without
  replacement. There are K_t draws also where fewer clients are available.

  Args:
    s: The situation in round t.
    rng: Draws the clients.

  Returns:
    The cohort with weights m / K_t.
  """
  drawn = selection.draw_by_share_with_replacement(s.p, s.available, s.k, rng)
  clients, times = np.unique(drawn, return_counts=True)
  return selection.Cohort(clients, times / max(1, s.k))
