"""What a benchmark says, in sentences."""

from collections.abc import Sequence
import math

import pandas as pd

from experiments.benchmark import statistics
from experiments.benchmark import tables
from f3ast_tff import wording


def _listed(names: Sequence[str]) -> str:
  """Returns `a`, `a and b`, or `a, b and c`."""
  if len(names) < 2:
    return ''.join(names)
  return f'{", ".join(names[:-1])} and {names[-1]}'


def _counts(differences: pd.DataFrame, reference: str) -> str:
  counts = differences['verdict'].value_counts()
  above, below, undecided = (
    int(counts.get(each, 0))
    for each in (statistics.ABOVE, statistics.BELOW, statistics.UNDECIDED)
  )
  of_all = wording.count(len(differences), 'comparison')
  return (
    f'Of {of_all} with {reference}, {above} {"is" if above == 1 else "are"} '
    f'significantly above it, {below} significantly below, and {undecided} '
    f'{"is" if undecided == 1 else "are"} undecided.'
  )


def _of_method(method: str, rows: pd.DataFrame, reference: str) -> str:
  """Returns where a method is above and below the reference; '' if nowhere."""
  where = {
    each: rows.loc[rows['verdict'] == each, 'avail'].tolist()
    for each in (statistics.ABOVE, statistics.BELOW)
  }
  parts = [
    f'{side} {reference} under {_listed(models)}'
    for side, models in where.items()
    if models
  ]
  if not parts:
    return ''
  num_left = len(rows) - sum(map(len, where.values()))
  rest = f'; {num_left} of {len(rows)} undecided' if num_left else ''
  return f'{method} is significantly {" and ".join(parts)}{rest}.'


def _ranking(table: pd.DataFrame) -> str:
  """Returns who ranks first and last over all models."""
  ranks = table.groupby('method', sort=False)['mean_rank'].first()
  num_models = table['avail'].nunique()
  best, worst = ranks.min(), ranks.max()
  over = 'under the one model' if num_models == 1 else (
    f'over {num_models} availability models'
  )
  if best == worst:
    return f'All methods have the same mean rank {over}.'
  first, last = (ranks.index[ranks == each].tolist() for each in (best, worst))
  come = 'comes' if len(first) == 1 else 'come'
  top, bottom = tables.rank_text(best), tables.rank_text(worst)
  return (
    f'By mean rank {over}, {_listed(first)} {come} first ({top} of '
    f'{len(ranks)}) and {_listed(last)} last ({bottom}). Ranks ignore whether '
    'differences are significant.'
  )


def _seeds(differences: pd.DataFrame) -> str:
  least = int(differences['seeds'].min())
  if least < 2:
    return (
      'Some comparisons have fewer than two seeds: a t-test cannot decide them.'
    )
  if least < 5:
    return (
      f'With {least} seeds a paired t-test decides large differences only: '
      'undecided does not mean equal.'
    )
  return 'Undecided does not mean equal.'


def sentences(
  table: pd.DataFrame, differences: pd.DataFrame, reference: str
) -> list[str]:
  """Returns the conclusion, the most important sentence first.

  Args:
    table: From `statistics.summary`, with a column `diverged`.
    differences: From the reference: `statistics.compare`.
    reference: The method that others are compared with.

  Returns:
    Sentences.
  """
  found = []
  if not differences.empty:
    found.append(_counts(differences, reference))
    of_methods = [
      _of_method(str(method), rows, reference)
      for method, rows in differences.groupby('method', sort=False)
    ]
    found += filter(None, of_methods)
    silent = [
      str(method)
      for (method, _), text in zip(
        differences.groupby('method', sort=False), of_methods
      )
      if not text
    ]
    if silent:
      found.append(
        f'No difference from {reference} is significant for {_listed(silent)}.'
      )
    found.append(_seeds(differences))
  if table['method'].nunique() > 1:
    found.append(_ranking(table))
  diverged = table[table['diverged'] > 0]
  if not diverged.empty:
    found.append(
      'Runs diverged: '
      + ', '.join(
        f'{math.ceil(row.diverged * row.seeds - 1e-9)} of {row.seeds} of '
        f'{row.method} under {row.avail}'
        for row in diverged.itertuples()
      )
      + '.'
    )
  return found
