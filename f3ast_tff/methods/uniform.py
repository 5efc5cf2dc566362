"""Uniform selection: all available clients equally likely."""

import numpy as np

from f3ast_tff import selection


@selection.averages
@selection.keeps_quotas
def select(
  s: selection.Situation, rng: np.random.Generator
) -> selection.Cohort:
  """Draws K_t of A_t without replacement; equal weights."""
  # All scores tie, so chance decides.
  scores = np.zeros(s.available.size)
  clients = selection.top_k(scores, s.available, s.k, rng, s.bounds)
  return selection.with_equal_weights(clients)


@selection.averages
@selection.keeps_quotas
def select_by_data(
  s: selection.Situation, rng: np.random.Generator
) -> selection.Cohort:
  """Draws K_t of A_t; weights in proportion to the data of those drawn."""
  clients = select(s, rng).clients
  share = s.p[clients]
  total = share.sum()
  return selection.Cohort(clients, share / total if total else share)
