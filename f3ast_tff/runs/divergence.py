"""When to give up on a run: numbers that are not finite any more.

Updates that are not finite are left out, so that a run that has diverged stands
still instead of filling up with NaN. NumPy only.
"""

from collections.abc import Iterable
from typing import Optional

import numpy as np

# One client whose data are broken may be alone in a round; that is no reason.
MAX_ROUNDS = 10


class DivergenceError(RuntimeError):
  """The run has diverged; its last good state is on the disk."""


def rounds_without_update(before: int, expected: int, counted: int) -> int:
  """Returns how many rounds in a row gave no update that counts.

  Args:
    before: How many it was before this round.
    expected: How many updates were to be expected in this round; a round
      without any neither counts nor interrupts.
    counted: How many came and are finite.

  Returns:
    The number after this round.
  """
  if expected == 0:
    return before
  return 0 if counted > 0 else before + 1


def problem(
  without_update: int,
  weights: Iterable[np.ndarray] = (),
  test_losses: Iterable[float] = (),
) -> Optional[str]:
  """Returns why a run has diverged, as the rest of a sentence, or None.

  Args:
    without_update: From `rounds_without_update`.
    weights: The model's weights, if they are at hand.
    test_losses: The losses on test data, if it was tested.

  Returns:
    Such as `the test loss is nan`.
  """
  for loss in test_losses:
    if not np.isfinite(loss):
      return f'the test loss is {loss}'
  if not all(np.isfinite(w).all() for w in weights):
    return 'the model has weights that are not finite'
  if without_update >= MAX_ROUNDS:
    return (
      f'no client gave a finite update in {without_update} rounds; the log '
      'says why each was left out'
    )
  return None
