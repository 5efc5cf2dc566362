"""FedVARP (Jhunjhunwala et al., UAI 2022), with FedStale's factor.

Like MIFA it keeps every client's last update y_k, but only as a control
variate, Delta = sum p_j y_j + sum over S_t of weight_k (v_k - y_k) with the
old y. With F3AST's weights p_k / r_k that is unbiased, and its variance is that
of v - y. FedStale (Rodio and Neglia, 2024) puts a factor s in [0, 1] before the
part with y: 0 is no memory, 1 is FedVARP.
"""

from f3ast_tff import selection
from f3ast_tff import vectors


def build(factor: float = 1.0) -> selection.Method:
  """Returns the method; `factor` is FedStale's, in [0, 1]."""
  if not 0 <= factor <= 1:
    raise ValueError(
      f'fedvarp: the factor must be in [0, 1], but it is {factor:g}.'
    )
  return selection.Method(
    vectors=vectors.Vectors(
      own=lambda own, server, v, mean_gradient: v,
      model_term=lambda v, own, w: v - factor * own,
      state_term=lambda v, own, after: v - own,
      step=lambda mean, model_sum, state_sum: (
        factor * mean + model_sum, mean + state_sum
      ),
    )
  )
