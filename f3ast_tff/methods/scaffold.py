"""SCAFFOLD, option II (Karimireddy et al., ICML 2020).

Each client keeps c_k, the mean of its last gradients, the server c, the mean of
all c_k. Local steps follow grad F_k - c_k + c. With plain SGD the paper's
c_k - c - v_k / (E eta) is the mean of the gradients that the client has seen,
which is what is computed here; so no step size enters.
"""

from f3ast_tff import selection
from f3ast_tff import vectors


def build() -> selection.Method:
  """Returns the method."""
  return selection.Method(
    vectors=vectors.Vectors(
      gradient=lambda gradient, own, server, moved: gradient - own + server,
      own=lambda own, server, v, mean_gradient: mean_gradient,
      state_term=lambda v, own, after: after - own,
      step=lambda c, model_sum, state_sum: (model_sum, c + state_sum),
    )
  )
