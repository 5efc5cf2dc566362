"""Power-of-Choice (Cho et al., 2020): the highest losses of d candidates."""

import numpy as np

from f3ast_tff import selection

# Losses are sums in float32, so that equal ones differ by this much.
_TIE = 1e-5


def highest(
  losses: np.ndarray, k: int, rng: np.random.Generator
) -> np.ndarray:
  """Returns the places of the k highest losses, ties broken at random.

  Args:
    losses: One loss per candidate; one that is not finite ranks below all.
      Losses that are equal but for rounding tie.
    k: How many; all if there are fewer.
    rng: Breaks ties.

  Returns:
    Indices into `losses`, ascending.
  """
  losses = np.where(np.isfinite(losses), losses, -np.inf)
  if k >= losses.size:
    return np.arange(losses.size)
  if k == 0:
    return np.arange(0)
  kth_highest = np.sort(losses)[-k]
  is_tied = np.isclose(losses, kth_highest, rtol=_TIE, atol=0)
  sure = np.flatnonzero((losses > kth_highest) & ~is_tied)
  drawn = rng.choice(np.flatnonzero(is_tied), k - sure.size, replace=False)
  return np.sort(np.concatenate([sure, drawn]))


@selection.averages
@selection.needs_losses
def select(
  s: selection.Situation, rng: np.random.Generator
) -> selection.Cohort:
  """Selects a cohort.

  Args:
    s: The situation in round t; `num_candidates` is the method's d. Fewer are
      drawn when fewer are available; all of them train when d <= K_t. Nobody is
      queried when K_t = 0.
    rng: Draws the candidates and breaks ties.

  Returns:
    The cohort with equal weights, 1 / |S_t|.
  """
  candidates = selection.draw_by_share(
    s.p, s.available, s.num_candidates if s.k > 0 else 0, rng
  )
  if s.k >= candidates.size:
    return selection.with_equal_weights(candidates)
  best = highest(np.asarray(s.losses_of(candidates)), s.k, rng)
  return selection.with_equal_weights(np.sort(candidates[best]))
