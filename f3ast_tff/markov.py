"""Two-state Markov chains whose state in round t needs no history.

A chain is on or off and moves with given probabilities. Asking for round t must
not mean simulating rounds 1 .. t-1, and must not depend on which rounds were
asked for before. Each round has one uniform number u per chain, and the chain
moves by a rule that is common to both states:

  u below  P(off next | either state)  -> off, wherever it was,
  u at or above the larger bound       -> on, wherever it was,
  in between                           -> the two states part.

So looking back from round t, the first round whose u falls outside the band
"in between" tells the state, whatever came before it. A round is outside it
with probability min(a + b, 2 - a - b), so the look back is short unless the
chain hardly ever moves, or nearly always does.
"""

from collections.abc import Callable

import numpy as np


def two_state(
  uniforms: Callable[[int], np.ndarray],
  round_num: int,
  on_to_off: np.ndarray,
  off_to_on: np.ndarray,
) -> np.ndarray:
  """Returns which chains are on in round `round_num`.

  In round 1 each chain has its stationary distribution.

  Args:
    uniforms: Maps a round to one uniform number in [0, 1) per chain.
    round_num: The round t >= 1.
    on_to_off: Per chain, the probability to go off when on.
    off_to_on: Per chain, the probability to go on when off. The two must not
      both be 0, or the chain would have no stationary distribution.

  Returns:
    A boolean array with one entry per chain.
  """
  a, b = np.asarray(on_to_off, float), np.asarray(off_to_on, float)
  # From on: off if u < a. From off: off if u < 1 - b.
  low, high = np.minimum(a, 1 - b), np.maximum(a, 1 - b)
  # In the band, a chain with a + b <= 1 keeps its state; otherwise it swaps.
  swaps = a + b > 1
  state = np.zeros(a.shape, bool)
  flipped = np.zeros(a.shape, bool)
  open_ = np.ones(a.shape, bool)
  for t in range(round_num, 1, -1):
    u = uniforms(t)
    decided = open_ & ((u < low) | (u >= high))
    state[decided] = (u >= high)[decided]
    open_ &= ~decided
    if not open_.any():
      break
    flipped ^= open_ & swaps
  else:
    state[open_] = (uniforms(1) < b / (a + b))[open_]
  return state ^ flipped
