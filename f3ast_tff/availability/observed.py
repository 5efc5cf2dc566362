"""What some rounds of an availability model show: correlation, run lengths."""

from typing import NamedTuple

import numpy as np

from f3ast_tff import protocols


def record(model: protocols.Availability, num_rounds: int) -> np.ndarray:
  """Returns A_1 .. A_T, a boolean array of shape [rounds, N]."""
  return np.array([model(t) for t in range(1, num_rounds + 1)])


def mean_correlation(masks: np.ndarray) -> float:
  """Returns the correlation of two clients over rounds, averaged over pairs.

  Args:
    masks: A_t, shape [rounds, N].

  Returns:
    The mean over all pairs of clients that come and go; NaN if there is none.
    For independent clients it is 0 but for chance.
  """
  masks = masks[:, masks.any(axis=0) & ~masks.all(axis=0)]
  num_rounds, n = masks.shape
  if n < 2:
    return float('nan')
  share = masks.mean(axis=0)
  # Of standardised z the correlations of all pairs, and of each client with
  # itself, sum to the mean square of the sum of z.
  total = ((masks - share) / np.sqrt(share * (1 - share))).sum(axis=1)
  return float((total @ total / num_rounds - n) / (n * (n - 1)))


class RunLengths(NamedTuple):
  """For how many rounds in a row clients are available, or not.

  Attributes:
    on: The lengths of all runs of rounds with a client.
    off: The lengths of all runs without it.
  """

  on: np.ndarray
  off: np.ndarray


def run_lengths(masks: np.ndarray) -> RunLengths:
  """Returns the run lengths of all clients.

  Args:
    masks: A_t, shape [rounds, N].

  Returns:
    The lengths, also of runs that the first or the last round cuts off.
  """
  num_rounds, n = masks.shape
  # All clients behind each other; each begins a run.
  states = masks.T.ravel()
  begins = np.ones(states.size, bool)
  begins[1:] = states[1:] != states[:-1]
  begins[::num_rounds] = True
  places = np.flatnonzero(begins)
  lengths = np.diff(np.append(places, n * num_rounds))
  is_on = states[places]
  return RunLengths(lengths[is_on], lengths[~is_on])
