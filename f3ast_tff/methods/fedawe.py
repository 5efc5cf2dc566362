"""FedAWE (Xiang et al., NeurIPS 2024): echoes make up for absence.

Client k keeps its own model x_k and trains from there, not from w. Who was away
for e_k rounds reports x_k + e_k v_k. The new model is the plain mean of the
reports, which those who took part keep. Its aim is the mean over clients; times
N p_k, the echo has p as its aim.
"""

import numpy as np

from f3ast_tff import selection
from f3ast_tff import vectors


def _last(p: np.ndarray) -> dict[str, np.ndarray]:
  return {'last_round': np.zeros(p.size)}


def _seen(
  s: selection.Situation, cohort: selection.Cohort
) -> dict[str, np.ndarray]:
  last = s.kept['last_round'].copy()
  last[cohort.clients] = s.round_num
  return {'last_round': last}


def _echoes(s: selection.Situation, cohort: selection.Cohort) -> np.ndarray:
  """Returns the weights of updates: echo N p_k over the number of reports."""
  echo = s.round_num - s.kept['last_round'][cohort.clients]
  share = s.p.size * s.p[cohort.clients]
  return echo * share / max(1, cohort.clients.size)


def _mean(policy: selection.Policy) -> selection.Policy:
  """Gives all reports the same weight, whatever the selection."""

  def select(
    s: selection.Situation, rng: np.random.Generator
  ) -> selection.Cohort:
    return selection.with_equal_weights(policy(s, rng).clients)

  return selection.averages(selection.like(policy, select))


def build() -> selection.Method:
  """Returns the method."""
  return selection.Method(
    wrap=_mean,
    initial=_last,
    next=_seen,
    state_weights=_echoes,
    vectors=vectors.Vectors(
      start=lambda w, own: own,
      model_term=lambda v, own, w: own - w,
      step=lambda server, model_sum, state_sum: (
        model_sum + state_sum, server
      ),
      stored=lambda after, w: w,
      begins_with_model=True,
      replaces_sum=True,
      needs_sgd=True,
    ),
  )
