"""Tables of verdicts: which claims of the paper hold in our runs."""

import collections
from collections.abc import Iterator, Sequence
import itertools
import math

from experiments.grid import metrics as metrics_lib
from experiments.paper import claims as claims_lib
from experiments.paper import design
from experiments.paper import frames
from experiments.paper import tables
from f3ast_tff.runs import run_tables

_WORDS = (
  claims_lib.HOLDS,
  claims_lib.FAILS,
  claims_lib.UNDECIDED,
  claims_lib.NOT_RUN,
)


def _with_verdict(table: tables.Table, verdicts: Sequence[str]) -> tables.Table:
  """Returns the rows with a verdict; the note says how many have none."""
  is_run = (table.frame[list(verdicts)] != claims_lib.NOT_RUN).any(axis=1)
  absent = int((~is_run).sum())
  if not absent or not is_run.any():
    return table
  rows_are = 'row is' if absent == 1 else 'rows are'
  return table._replace(
    frame=table.frame[is_run],
    note=f'{table.note} {absent} {rows_are} left out: there is nothing to '
    'compare.',
  )


def _counts(claims: Sequence[claims_lib.Claim]) -> Iterator[tables.Row]:
  """Yields how many claims hold, by where they are from."""
  counts = collections.Counter(
    (claim.source, claim.preset, claim.found.decision) for claim in claims
  )
  for source, preset in itertools.product(claims_lib.SOURCES, design.PRESETS):
    found = {word: counts[source, preset, word] for word in _WORDS}
    if any(found.values()):
      yield {
        'claims': source,
        'models': design.SIZES[preset],
        **{word: str(count) for word, count in found.items()},
      }


def _verdicts(
  claims: Sequence[claims_lib.Claim], preset: str
) -> tables.Table:
  """Returns the verdicts in the layout of the large tables."""
  rows: dict[tuple[str, ...], dict[str, tables.Entry]] = {}
  for claim in claims:
    if claim.topic == 'tables' and claim.preset == preset:
      row = rows.setdefault(
        (claim.dataset, claim.metric, claim.text),
        {
          'dataset': design.DATASETS[claim.dataset],
          'metric': metrics_lib.METRICS[claim.metric],
          'claim': claim.text,
        },
      )
      row[claim.where] = claim.found.verdict
  table = tables.table(
    f'verdicts-{preset}',
    f'Does the claim hold? {design.SIZES[preset].capitalize()}',
    'By a paired t-test across seeds, two-sided, at 0.05. The tests are not '
    'corrected for their number: of twenty claims about nothing, one would '
    'seem decided.',
    rows.values(),
    'claim',
  )
  return _with_verdict(table, [*design.AVAILS.values(), claims_lib.ALL_AVAILS])


def _on_synthetic(claims: Sequence[claims_lib.Claim]) -> tables.Table:
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
  first = claims_lib.text(*design.PAIRS[0])
  rows = []
  for avail in design.AVAILS.values():
    row: dict[str, tables.Entry] = {
      'availability': avail,
      first: of[avail, first, 'accuracy'].found.decision,
    }
    for pair, metric, ending in columns:
      claim = of[avail, claims_lib.text(*pair), metric]
      ours, other = (design.TITLES[method] for method in pair)
      row[f'{ours} - {other}{ending}'] = tables.measured(
        claim.differences, signed=True
      )
    rows.append(row)
  table = tables.table(
    'verdicts-synthetic',
    'Is F3AST above FedAvg? Test accuracy on Synthetic(1,1)',
    'The verdict is on F3AST - FedAvg, by a paired t-test across seeds at '
    f'{claims_lib.LEVEL:g}, not corrected for the number of tests. '
    'Differences of test accuracy, paired by seed: mean ± standard deviation '
    '[number of seeds].',
    rows,
    'availability',
  )
  return _with_verdict(table, [first])


def _p(value: float) -> str:
  return '' if math.isnan(value) else f'{value:.2g}'


def _others(claims: Sequence[claims_lib.Claim]) -> Iterator[tables.Row]:
  for claim in claims:
    if claim.topic == 'tables':
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
      'difference': tables.measured(claim.differences, signed=True),
      'p': _p(found.p),
      'seeds as claimed': f'{found.wins} of {found.seeds}',
    }


def _all_claims(claims: Sequence[claims_lib.Claim]) -> Iterator[tables.Row]:
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
      'difference': tables.measured(claim.differences, signed=True),
      "paper's difference": tables.Printed(claim.paper, 3),
      'p': _p(found.p),
      'seeds as claimed': f'{found.wins} of {found.seeds}',
      'sign test p': _p(found.sign_p) if found.seeds else '',
    }


def build(claims: Sequence[claims_lib.Claim]) -> list[tables.Table]:
  """Returns the tables of verdicts; the last one holds all claims.

  Args:
    claims: From `claims.claims`.

  Returns:
    First the one that the conclusion shows: F3AST on Synthetic.
  """
  others = tables.table(
    'verdicts-other',
    'Does the claim hold? Heterogeneity, number of clients, curves, controls',
    'By a paired t-test across seeds, as above. Steadiness: by how much the '
    'accuracy scatters about its trend from test to test in the last '
    f'{run_tables.LAST_ROUNDS} rounds (the last third of shorter runs), where '
    f'these have at least {frames.ENOUGH_TESTS} tests. How much runs differ '
    'from seed to seed is in docs/reproduction.md.',
    _others(claims),
    'where',
  )
  return [
    _on_synthetic(claims),
    tables.table(
      'verdict-counts',
      'How many claims hold',
      'A claim is one comparison of two methods in one column of a table or '
      'one panel of a figure. Two seeds or more are needed to decide. Some '
      'runs count twice: those with K = 10 and alpha = 1 are also in the main '
      'grid, and on CIFAR-100 Uneven is Always.',
      _counts(claims),
      'models',
    ),
    *(_verdicts(claims, preset) for preset in design.PRESETS),
    _with_verdict(others, ['verdict']),
    tables.table(
      'claims',
      'All claims and their statistics',
      'Differences are ours minus theirs, paired by seed: mean ± standard '
      'deviation [seeds]; p of the paired t-test; in how many seeds the sign '
      'is as claimed, and p of the exact sign test.',
      _all_claims(claims),
      'where',
    ),
  ]
