"""A method of your own, in one file: weights between F3AST's and FedAvg's.

  python -m experiments.synthetic --add=examples/my_method.py \
    --algorithm=half_corrected --avail=uneven

F3AST weights the update of client k by p_k / r_k. That has no bias, but where a
client with much data is seldom available, one update of it moves the model far.
FedAvg's weights 1 / |S| are small and biased. This method selects as F3AST does
and goes half of the way: p_k / sqrt(r_k), scaled to the sum 1, so that no round
makes a larger step than one of FedAvg.
"""

import numpy as np

from f3ast_tff import methods
from f3ast_tff import selection


@selection.averages  # The weights sum to 1: who does not deliver drops out.
def half_corrected(
  s: selection.Situation, rng: np.random.Generator
) -> selection.Cohort:
  """Selects clients in round t.

  Args:
    s: The rates s.r, shares s.p, the mask s.available, the number s.k, ...
    rng: All that is random has to come from it, or runs do not repeat.

  Returns:
    The clients, ascending, and the weights of their updates.
  """
  clients = methods.POLICIES['f3ast'](s, rng).clients
  weights = s.p[clients] / np.sqrt(np.maximum(s.r[clients], s.beta))
  return selection.Cohort(clients, weights / max(weights.sum(), 1e-12))


methods.register('half_corrected', half_corrected)
