"""What a method does with a vector per client, and with one at the server.

SCAFFOLD, FedDyn, MIFA, FedVARP and FedAWE keep such vectors, of the model's
size. Each of them is a `Vectors`: functions of one tensor of the model at a
time, in plain arithmetic, so that NumPy and TensorFlow both can call them.

  start, gradient       local training of client k; v is how far it moves
  own                   the client's vector afterwards
  model_sum = sum weight_k model_term_k        weights of the selection
  state_sum = sum state_weight_k state_term_k  p_k, unless the method says else
  delta, server = step(server, model_sum, state_sum)

F3AST's weights p_k / r_k belong into the model sum, which stands for all
clients though only some are seen. The state sum keeps the server's vector the
exact mean of the clients' vectors, which move only when they take part, so its
weights are p_k: with p_k / r_k there, SCAFFOLD and FedDyn rest anywhere.
"""

from collections.abc import Callable
import dataclasses
from typing import Any

import numpy as np

# How many tables of all clients' vectors a run in memory needs at most: a round
# makes a new one of the old, whose place TensorFlow does not give back at once,
# and a checkpoint its content. Runs on Shakespeare needed up to 5.3.
TABLES_IN_MEMORY = 6

# All are tensors of the same shape: the model w, a client's vector `own`, the
# server's vector `server`, a gradient, a sum, and the like.
Function = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Vectors:
  """How a method keeps vectors; the defaults are FedAvg's.

  Attributes:
    start: Maps (w, own) to where the client starts.
    gradient: Maps (gradient, own, server, moved) to the one that is followed;
      `moved` is how far the client is from its start.
    own: Maps (own, server, v, mean gradient) to the client's vector after its
      training. The mean is over its local steps, of the gradients of its loss.
    model_term: Maps (v, own, w) to what its weight is for.
    state_term: Maps (v, own, own after training) to what its state weight is
      for.
    step: Maps (server, model sum, state sum) to (Delta, server after it).
    stored: Maps (own after training, w after the round) to what is kept.
    begins_with_model: Whether clients' vectors begin as the first w; else as 0.
    moves_alone: Whether the model moves in rounds in which nobody takes part.
    replaces_sum: Whether Delta is none of updates with the selection's weights,
      so that caps on these bound nothing.
    needs_sgd: Whether the server's step must be that of SGD at rate 1, because
      Delta is no sum of updates.
  """

  start: Function = lambda w, own: w
  gradient: Function = lambda gradient, own, server, moved: gradient
  own: Function = lambda own, server, v, mean_gradient: own
  model_term: Function = lambda v, own, w: v
  state_term: Function = lambda v, own, after: v
  step: Function = lambda server, model_sum, state_sum: (model_sum, server)
  stored: Function = lambda after, w: after
  begins_with_model: bool = False
  moves_alone: bool = False
  replaces_sum: bool = False
  needs_sgd: bool = False

  @property
  def is_linear(self) -> bool:
    """Whether Delta is the model sum, so that it is linear in the weights."""
    # Three points: other steps may give the model sum at one of them.
    server, model_sum, state_sum = np.array(
      [[2, -3, 700], [3, 5, -900], [5, -1, 40]], np.float32
    )
    delta, _ = self.step(server, model_sum, state_sum)
    return not self.replaces_sum and np.array_equal(delta, model_sum)
