"""When to give up on a run: numbers that are not finite any more, or absurd.

Updates that are not finite are left out, so that a run that has diverged stands
still instead of filling up with NaN. NumPy only.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

import numpy as np

from f3ast_tff.datasets import federated

# One client whose data are broken may be alone in a round; that is no reason.
MAX_ROUNDS = 10
# Models that still learn have test losses up to thousands.
MAX_LOSS = 1e10
_NAMED = 5  # How many clients a message names.


class DivergenceError(RuntimeError):
  """The run has diverged; its last good state is on the disk."""


class Problem(NamedTuple):
  """Why a run has diverged.

  Attributes:
    what: The rest of a sentence, such as `the test loss is nan`.
    split: Which examples may be the cause, `training` or `test`; empty if none.
  """

  what: str
  split: str = ''


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
) -> Optional[Problem]:
  """Returns why a run has diverged, or None.

  Args:
    without_update: From `rounds_without_update`.
    weights: The model's weights, if they are at hand.
    test_losses: The losses on test data, if it was tested.

  Returns:
    The first problem found.
  """
  for loss in test_losses:
    if not np.isfinite(loss):
      return Problem(f'the test loss is {loss}', 'test')
    if loss > MAX_LOSS:
      return Problem(f'the test loss is {loss:.2g}, above {MAX_LOSS:g}')
  if not all(np.isfinite(w).all() for w in weights):
    return Problem('the model has weights that are not finite')
  if without_update >= MAX_ROUNDS:
    return Problem(
      f'no client gave a finite update in {without_update} rounds; the log '
      'says why each was left out',
      'training',
    )
  return None


def _names(clients: Sequence[int]) -> str:
  """Returns `client 3`, `clients 3, 5`, or the first few and how many more."""
  first = ', '.join(map(str, clients[:_NAMED]))
  more = len(clients) - _NAMED
  return (
    f'client{"s" if len(clients) > 1 else ""} {first}'
    f'{f" and {more} more" if more > 0 else ""}'
  )


def cause_in_data(
  found: Problem, dataset: federated.FederatedDataset
) -> Optional[str]:
  """Returns which clients' data explain a problem, as a sentence, or None.

  To look through all examples takes a while, so it is done only here.

  Args:
    found: The problem.
    dataset: The data set.

  Returns:
    None if the data are not the cause.
  """
  bad = federated.not_finite(dataset, found.split) if found.split else []
  has_examples = np.flatnonzero(dataset.num_examples)
  if not bad or (found.split == 'training' and set(has_examples) - set(bad)):
    return None  # Where others give no update, either, there is another cause.
  return (
    f'the {found.split} examples of {_names(bad)} hold values that are not '
    'finite: correct them or leave them out, and begin again'
  )
