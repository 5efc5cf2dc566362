"""FedDyn (Acar et al., ICLR 2021).

Each client keeps g_k, an estimate of its gradient, the server h, their mean.
Client k descends F_k(y) - <g_k, y> + alpha / 2 |y - w|^2 and then takes
g_k - alpha v_k; the server adds the updates and subtracts h / alpha.
"""

from f3ast_tff import selection
from f3ast_tff import vectors


def build(alpha: float = 0.01) -> selection.Method:
  """Returns the method.

  Args:
    alpha: The strength of the quadratic term, above 0. The local learning rate
      times (the curvature + alpha) should be below 2.

  Returns:
    The method.
  """
  if not alpha > 0:
    raise ValueError(f'feddyn: alpha must be above 0, but it is {alpha:g}.')

  def step(h, model_sum, state_sum):
    h = h - alpha * state_sum
    return model_sum - h / alpha, h

  return selection.Method(
    vectors=vectors.Vectors(
      gradient=lambda gradient, own, server, moved: (
        gradient - own + alpha * moved
      ),
      own=lambda own, server, v, mean_gradient: own - alpha * v,
      step=step,
      needs_sgd=True,
    )
  )
