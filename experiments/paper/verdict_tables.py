"""Tables of verdicts: which claims of the paper hold in our runs."""

import collections
from collections.abc import Iterator, Sequence
import dataclasses
import itertools
import math

from experiments.grid import metrics as metrics_lib
from experiments.paper import claims as claims_lib
from experiments.paper import control_claims
from experiments.paper import design
from experiments.paper import frames
from experiments.paper import tables
from experiments.paper import verdicts as verdicts_lib
from f3ast_tff.runs import run_tables

_WORDS = (
  verdicts_lib.HOLDS,
  verdicts_lib.FAILS,
  verdicts_lib.UNDECIDED,
  verdicts_lib.NOT_RUN,
)
_Claims = Sequence[verdicts_lib.Claim]
_HOW = (
  f'By a paired t-test across seeds, two-sided, at {verdicts_lib.LEVEL:g}, '
  'with p corrected for all tests of this page (Benjamini and Hochberg)'
)
MARKED = 'A * marks differences that survive the correction for all tests.'


def difference(claim: verdicts_lib.Claim) -> tables.Measured:
  """Returns the difference behind a claim, marked if it is decided."""
  found = tables.measured(claim.differences, signed=True)
  mark = '*' if claim.found.is_decided else ''
  return dataclasses.replace(found, mark=mark)


def p_text(value: float) -> str:
  """Returns p with two digits, '' if there is none."""
  return '' if math.isnan(value) else f'{value:.2g}'


def _with_verdict(table: tables.Table, verdicts: Sequence[str]) -> tables.Table:
  """Returns the rows with a verdict; the note says how many have none."""
  is_run = (table.frame[list(verdicts)] != verdicts_lib.NOT_RUN).any(axis=1)
  absent = int((~is_run).sum())
  if not absent or not is_run.any():
    return table
  rows_are = 'row is' if absent == 1 else 'rows are'
  return table._replace(
    frame=table.frame[is_run],
    note=f'{table.note} {absent} {rows_are} left out: there is nothing to '
    'compare.',
  )


def _counts(claims: _Claims) -> Iterator[tables.Row]:
  """Yields how many claims hold, by where they are from."""
  counts = collections.Counter(
    (claim.source, claim.preset, claim.found.decision) for claim in claims
  )
  for source, preset in itertools.product(verdicts_lib.SOURCES, design.PRESETS):
    found = {word: counts[source, preset, word] for word in _WORDS}
    if any(found.values()):
      yield {
        'claims': source,
        'models': design.SIZES[preset],
        **{word: str(count) for word, count in found.items()},
      }


def _with_one_seed(claims: _Claims) -> str:
  """Returns a sentence on how many one-seed comparisons have the sign."""
  wins = collections.defaultdict(list)
  for claim in claims:
    if claim.source == verdicts_lib.PAPER and claim.found.seeds == 1:
      place = f'{design.DATASETS[claim.dataset]}, {claim.preset}'
      wins[place].append(claim.found.wins)
  texts = [f'{sum(of)} of {len(of)} ({place})' for place, of in wins.items()]
  if not texts:
    return ''
  return (
    ' Of the comparisons that the paper shows and that have one seed here, '
    f'these have the claimed sign: {", ".join(texts)}.'
  )


def _verdicts(claims: _Claims, preset: str) -> tables.Table:
  """Returns the verdicts in the layout of the large tables."""
  found: dict[tuple[str, ...], dict[str, str]] = collections.defaultdict(dict)
  for claim in claims:
    if claim.topic == 'tables' and claim.preset == preset:
      row = found[claim.dataset, claim.metric, claim.text]
      row[claim.where] = claim.found.verdict
  columns = [*design.AVAILS.values(), claims_lib.ALL_AVAILS]
  table = tables.table(
    f'verdicts-{preset}',
    f'Does the claim hold? {design.SIZES[preset].capitalize()}',
    f'{_HOW}. On CIFAR-100 Uneven is Always, and counted once.',
    [
      {
        'dataset': design.DATASETS[dataset],
        'metric': metrics_lib.METRICS[metric],
        'claim': text,
        **{
          column: row.get(column, row[design.AVAILS['always']])
          for column in columns
        },
      }
      for (dataset, metric, text), row in found.items()
    ],
    'claim',
  )
  return _with_verdict(table, columns)


def _on_synthetic(claims: _Claims) -> tables.Table:
  """Returns how F3AST compares on Synthetic, a row per availability model."""
  of = {
    (claim.where, claim.text, claim.metric): claim
    for claim in claims
    if (claim.topic, claim.dataset) == ('tables', 'synthetic')
  }
  columns = [
    *((pair, 'accuracy', '') for pair in design.COMPARISONS),
    (design.PAIRS[0], 'user_accuracy', ', user accuracy'),
  ]
  both = [
    verdicts_lib.text(*pairs[0])
    for pairs in (design.PAIRS, design.PAIRS_WITH_REPLACEMENT)
  ]
  rows = []
  for avail in design.AVAILS.values():
    row: dict[str, tables.Entry] = {
      'availability': avail,
      **{text: of[avail, text, 'accuracy'].found.decision for text in both},
    }
    for pair, metric, ending in columns:
      ours, other = (design.TITLES[method] for method in pair)
      row[f'{ours} - {other}{ending}'] = difference(
        of[avail, verdicts_lib.text(*pair), metric]
      )
    rows.append(row)
  table = tables.table(
    'verdicts-synthetic',
    'Is F3AST above FedAvg? Test accuracy on Synthetic(1,1)',
    f'{_HOW}. Differences of test accuracy, paired by seed: mean ± standard '
    f'deviation [number of seeds]. {MARKED}',
    rows,
    'availability',
  )
  return _with_verdict(table, both)


def _others(claims: _Claims) -> Iterator[tables.Row]:
  for claim in claims:
    if claim.topic in ('tables', control_claims.SAFE):
      continue
    found, dataset = claim.found, design.DATASETS[claim.dataset]
    if claim.topic == 'heterogeneity':
      dataset = 'Synthetic'  # Its alpha is in `where`.
    yield {
      'about': claim.topic,
      'dataset, models': f'{dataset}, {claim.preset}',
      'claim': claim.text,
      'metric': metrics_lib.METRICS.get(claim.metric, claim.metric),
      'where': claim.where,
      'verdict': found.decision,  # The reasons have columns of their own.
      'difference': difference(claim),
      'p': p_text(found.p),
      'p, corrected': p_text(found.corrected),
      'seeds as claimed': f'{found.wins} of {found.seeds}',
    }


def _all_claims(claims: _Claims) -> Iterator[tables.Row]:
  for claim in claims:
    found = claim.found
    yield {
      'about': claim.topic,
      'preset': claim.preset,
      'dataset': claim.dataset,
      'metric': claim.metric,
      'claim': claim.text,
      'where': claim.where,
      'verdict': found.verdict,
      'difference': difference(claim),
      "paper's difference": tables.Printed(claim.paper, 3),
      'p': p_text(found.p),
      'p, corrected': p_text(found.corrected),
      'seeds as claimed': f'{found.wins} of {found.seeds}',
      'sign test p': p_text(found.sign_p) if found.seeds else '',
    }


def build(claims: _Claims) -> list[tables.Table]:
  """Returns the tables of verdicts; the last one holds all claims.

  Args:
    claims: From `claims.claims`.

  Returns:
    First the one that the conclusion shows: F3AST on Synthetic.
  """
  others = tables.table(
    'verdicts-other',
    'Does the claim hold? Heterogeneity, number of clients, curves, controls',
    f'{_HOW}. {MARKED} Steadiness: the standard deviation of the accuracy '
    f'over the tests of the last {run_tables.LAST_ROUNDS} rounds (the last '
    'third of shorter runs), where these have at least '
    f'{frames.ENOUGH_TESTS} tests. K = 10 and alpha = 1 are in the table '
    'above; with K = 30 PoC is FedAvg; F3AST, safe, has a table of its own.',
    _others(claims),
    'where',
  )
  return [
    _on_synthetic(claims),
    tables.table(
      'verdict-counts',
      'How many claims hold',
      'A claim is one comparison of two methods in one column of a table or '
      'one panel of a figure, and is counted once. Two seeds or more are '
      f'needed to decide.{_with_one_seed(claims)}',
      _counts(claims),
      'models',
    ),
    *(_verdicts(claims, preset) for preset in design.PRESETS),
    _with_verdict(others, ['verdict']),
    tables.table(
      'claims',
      'All claims and their statistics',
      'Differences are ours minus theirs, paired by seed: mean ± standard '
      'deviation [seeds]; p of the paired t-test, and corrected for all of '
      'them; in how many seeds the sign is as claimed, and p of the exact '
      f'sign test. {MARKED}',
      _all_claims(claims),
      'where',
    ),
  ]
