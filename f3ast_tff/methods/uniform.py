"""Uniform selection: all available clients equally likely, equal weights."""

import numpy as np

from f3ast_tff import selection


@selection.averages
@selection.keeps_quotas
def select(
  s: selection.Situation, rng: np.random.Generator
) -> selection.Cohort:
  """Draws K_t of A_t without replacement."""
  # All scores tie, so chance decides.
  scores = np.zeros(s.available.size)
  clients = selection.top_k(scores, s.available, s.k, rng, s.bounds)
  return selection.with_equal_weights(clients)
