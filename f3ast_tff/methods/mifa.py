"""MIFA (Gu et al., NeurIPS 2021): the last update of every client counts.

Clients that are away take part with the update of their last time; one that
never came counts as zero. The server keeps D = sum p_k y_k, y_k the last update
of client k, and moves by D in every round, also if nobody is there.
"""

from f3ast_tff import selection
from f3ast_tff import vectors


def build() -> selection.Method:
  """Returns the method."""

  def step(mean, model_sum, state_sum):
    mean = mean + state_sum
    return mean, mean

  return selection.Method(
    vectors=vectors.Vectors(
      own=lambda own, server, v, mean_gradient: v,
      model_term=lambda v, own, w: 0 * v,  # The selection's weights are unused.
      state_term=lambda v, own, after: v - own,
      step=step,
      moves_alone=True,
      replaces_sum=True,
    )
  )
