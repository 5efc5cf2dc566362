"""Differences within seeds, and whether they are more than chance.

A seed decides data, availability and first weights of all runs alike, so that
the difference within a seed is not blurred by how seeds differ.
"""

from collections.abc import Sequence
import math

import numpy as np
import pandas as pd
from scipy import stats


def differences(ours: pd.Series, other: pd.Series) -> pd.Series:
  """Returns what two results differ by in the seeds that both have.

  They are NaN, not left out, where a run diverged.
  """
  seeds = ours.index.intersection(other.index)
  return ours[seeds] - other[seeds]


def t_test(of_seeds: Sequence[float]) -> float:
  """Returns p of the two-sided paired t-test; NaN for fewer than two seeds."""
  d = np.asarray(of_seeds, float)
  if d.size < 2 or not np.isfinite(d).all():
    return math.nan
  if np.ptp(d) == 0:  # The test divides by the spread.
    return float(not d[0])
  return float(stats.ttest_1samp(d, 0.0).pvalue)


def adjusted(p_values: Sequence[float]) -> np.ndarray:
  """Returns p-values adjusted for how many they are (Benjamini, Hochberg).

  To call those below a level significant keeps the expected share of false ones
  among them below that level. NaN stays NaN and does not count.
  """
  p = np.asarray(p_values, float)
  order = np.argsort(p)  # NaN last.
  num = np.isfinite(p).sum()
  scaled = p[order] * num / np.arange(1, p.size + 1)
  # No smaller than those of smaller p: the least of itself and all after it.
  least = np.minimum.accumulate(scaled[:num][::-1])[::-1]
  result = np.full(p.size, math.nan)
  result[order[:num]] = np.minimum(least, 1.0)
  return result
