"""What a benchmark makes of its runs: means, ranks, tests. Pure functions.

The values of runs are a table with a row per run and the columns `avail`,
`method`, `seed` and those that are measured.
"""

from collections.abc import Iterable, Sequence
import itertools
import math

import numpy as np
import pandas as pd

from experiments.grid import pairs

ABOVE, BELOW, UNDECIDED = 'above', 'below', 'undecided'
LEVEL = 0.05  # The share of false ones among the differences that are decided.

_COMPARISON = (
  'avail',
  'method',
  'other',
  'seeds',
  'mean',
  'sd',
  'p',
  'p_adjusted',
  'verdict',
)


def misplaced(
  cohorts: Iterable[tuple[Sequence[int], Sequence[float]]], p: np.ndarray
) -> float:
  """Returns the bias of weights: half the sum of |share of weights - p|.

  Args:
    cohorts: The clients of each round and the weights of their updates.
    p: Each client's share of the objective.

  Returns:
    The part of the weight that the wrong clients got: 0 if every client has its
    share, 1 at worst; NaN if nobody has any weight.
  """
  total = np.zeros(p.size)
  for clients, weights in cohorts:
    np.add.at(total, np.asarray(clients, int), np.asarray(weights, float))
  if not total.sum() > 0:
    return math.nan
  return float(np.abs(total / total.sum() - p).sum() / 2)


def _mean(column: pd.Series) -> float:
  return column.mean(skipna=False)


def _std(column: pd.Series) -> float:
  return column.std(skipna=False)


def summary(
  values: pd.DataFrame, metric: str, others: Sequence[str] = ()
) -> pd.DataFrame:
  """Returns a row per availability model and method, in the order of values.

  Args:
    values: Of all runs.
    metric: By what methods are ranked; more is better.
    others: Columns of which there is a mean over the seeds, too.

  Returns:
    `avail`, `method`, `seeds`, then `METRIC_mean` and `METRIC_std` over seeds;
    `rank` of the mean within the availability model, 1 for the best and the
    mean of their places for equal ones; `mean_rank` of the method over models;
    the others.
  """
  groups = values.groupby(['avail', 'method'], sort=False)
  table = groups.agg(
    seeds=('seed', 'size'),
    **{
      f'{metric}_mean': (metric, _mean),
      f'{metric}_std': (metric, _std),
    },
  )
  table['rank'] = table.groupby('avail')[f'{metric}_mean'].rank(
    ascending=False, na_option='bottom'
  )
  table['mean_rank'] = table.groupby('method')['rank'].transform('mean')
  # Not of every run, perhaps: older ones did not record all.
  table = table.join(groups[list(others)].mean())
  return table.reset_index()


def compare(
  values: pd.DataFrame, metric: str, of: Sequence[tuple[str, str]]
) -> pd.DataFrame:
  """Returns differences between methods, paired by seed.

  Args:
    values: Of all runs.
    metric: What is compared.
    of: Pairs of methods: how much the first is above the second.

  Returns:
    A row per availability model and pair that has runs: `avail`, `method`,
    `other`; `seeds`, how many both have; `mean` and `sd` of the differences;
    `p` of a paired t-test; `p_adjusted` for all rows of the table (Benjamini
    and Hochberg); `verdict`.
  """
  rows = []
  for avail, of_avail in values.groupby('avail', sort=False):
    by_method = {
      method: runs.set_index('seed')[metric]
      for method, runs in of_avail.groupby('method')
    }
    for method, other in of:
      if method not in by_method or other not in by_method:
        continue
      gain = pairs.differences(by_method[method], by_method[other])
      rows.append({
        'avail': avail,
        'method': method,
        'other': other,
        'seeds': len(gain),
        'mean': _mean(gain),
        'sd': _std(gain),
        'p': pairs.t_test(gain),
      })
  table = pd.DataFrame(rows, columns=list(_COMPARISON[:-2]))
  table['p_adjusted'] = pairs.adjusted(table['p'])
  table['verdict'] = [
    verdict(mean, p) for mean, p in zip(table['mean'], table['p_adjusted'])
  ]
  return table


def verdict(mean: float, p_adjusted: float) -> str:
  """Returns whether a difference is decided, and which way."""
  if not p_adjusted < LEVEL:  # NaN is undecided.
    return UNDECIDED
  return ABOVE if mean > 0 else BELOW


def with_reference(
  methods: Sequence[str], reference: str
) -> list[tuple[str, str]]:
  """Returns the pairs of each other method and the reference."""
  return [(each, reference) for each in methods if each != reference]


def all_pairs(methods: Sequence[str]) -> list[tuple[str, str]]:
  """Returns each pair of methods once."""
  return list(itertools.combinations(methods, 2))
