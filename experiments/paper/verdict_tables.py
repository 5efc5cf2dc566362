"""Tables of verdicts: which claims of the paper hold in our runs."""

import collections
from collections.abc import Sequence
import itertools
import math

from experiments.paper import claims as claims_lib
from experiments.paper import frames
from experiments.paper import names
from experiments.paper import tables
from f3ast_tff.runs import run_tables


def _run(
  rows: list[list[tables.Entry]], verdicts: slice
) -> tuple[list[list[tables.Entry]], str]:
  """Returns the rows with a verdict, and a sentence on how many have none."""
  run = [row for row in rows if set(row[verdicts]) != {claims_lib.NOT_RUN}]
  absent = len(rows) - len(run)
  if not run or not absent:
    return rows, ''
  rows_are = 'row is' if absent == 1 else 'rows are'
  return run, f' {absent} {rows_are} left out: there is nothing to compare.'


def _counts(claims: Sequence[claims_lib.Claim]) -> tables.Table:
  """Returns how many claims hold, by where they are from."""
  words = (
    claims_lib.HOLDS,
    claims_lib.FAILS,
    claims_lib.UNDECIDED,
    claims_lib.NOT_RUN,
  )
  counts = collections.Counter(
    (claim.source, claim.preset, claims_lib.decision(claim.found))
    for claim in claims
  )
  rows: list[list[tables.Entry]] = []
  for source, preset in itertools.product(claims_lib.SOURCES, names.PRESETS):
    found = [counts[source, preset, word] for word in words]
    if any(found):
      rows.append([source, names.SIZES[preset], *map(str, found)])
  return tables.Table(
    'verdict-counts',
    'How many claims hold',
    'A claim is one comparison of two methods in one column of a table or one '
    'panel of a figure. Two seeds or more are needed to decide. Some runs '
    'count twice: those with K = 10 and alpha = 1 are also in the main grid, '
    'and on CIFAR-100 Uneven is Always.',
    ['claims', 'models', *words],
    rows,
  )


def _verdicts(
  claims: Sequence[claims_lib.Claim], preset: str
) -> tables.Table:
  """Returns the verdicts in the layout of the large tables."""
  rows: dict[tuple[str, str, str], list[tables.Entry]] = {}
  for claim in claims:
    if claim.topic == 'tables' and claim.preset == preset:
      place = claim.dataset, claim.metric, claim.text
      texts = names.DATASETS[claim.dataset], names.METRICS[claim.metric]
      row = rows.setdefault(place, [*texts, claim.text])
      row.append(claims_lib.verdict(claim.found))
  run, absent = _run(list(rows.values()), slice(3, None))
  return tables.Table(
    f'verdicts-{preset}',
    f'Does the claim hold? {names.SIZES[preset].capitalize()}',
    'By a paired t-test across seeds, two-sided, at 0.05. The tests are not '
    'corrected for their number: of twenty claims about nothing, one would '
    f'seem decided.{absent}',
    [
      'dataset',
      'metric',
      'claim',
      *names.AVAILS.values(),
      claims_lib.ALL_AVAILS,
    ],
    run,
    label=2,
  )


def _p(value: float) -> str:
  return '' if math.isnan(value) else f'{value:.2g}'


def _dataset(claim: claims_lib.Claim) -> str:
  if claim.topic == 'heterogeneity':
    return 'Synthetic'  # Its alpha is in `where`.
  return names.DATASETS[claim.dataset]


def _other_verdicts(claims: Sequence[claims_lib.Claim]) -> tables.Table:
  rows: list[list[tables.Entry]] = []
  for claim in claims:
    if claim.topic == 'tables':
      continue
    found = claim.found
    rows.append([
      claim.topic,
      f'{_dataset(claim)}, {claim.preset}',
      claim.where,
      claim.text,
      claims_lib.decision(found),  # The reasons have columns of their own.
      tables.measured(claim.differences, signed=True),
      _p(found.p),
      f'{found.wins} of {found.seeds}',
    ])
  run, absent = _run(rows, slice(4, 5))
  return tables.Table(
    'verdicts-other',
    'Does the claim hold? Heterogeneity, number of clients, curves, controls',
    'By a paired t-test across seeds, as above. Steadiness: by how much the '
    'accuracy scatters about its trend from test to test in the last '
    f'{run_tables.LAST_ROUNDS} rounds (the last third of shorter runs), where '
    f'these have at least {frames.ENOUGH_TESTS} tests. How much runs differ '
    'from seed to seed is in docs/reproduction.md.'
    f'{absent}',
    [
      'about',
      'dataset, models',
      'where',
      'claim',
      'verdict',
      'difference',
      'p',
      'seeds as claimed',
    ],
    run,
    label=3,
  )


def _all_claims(claims: Sequence[claims_lib.Claim]) -> tables.Table:
  """Returns every claim with its statistics."""
  rows: list[list[tables.Entry]] = []
  for claim in claims:
    found = claim.found
    rows.append([
      claim.topic,
      claim.preset,
      claim.dataset,
      claim.where,
      claim.metric,
      claim.text,
      claims_lib.verdict(found),
      tables.measured(claim.differences, signed=True),
      tables.Printed(claim.paper, 3),
      _p(found.p),
      f'{found.wins} of {found.seeds}',
      _p(found.sign_p) if found.seeds else '',
    ])
  return tables.Table(
    'claims',
    'All claims and their statistics',
    'Differences are ours minus theirs, paired by seed: mean ± standard '
    'deviation [seeds]; p of the paired t-test; in how many seeds the sign is '
    'as claimed, and p of the exact sign test.',
    [
      'about',
      'preset',
      'dataset',
      'where',
      'metric',
      'claim',
      'verdict',
      'difference',
      "paper's difference",
      'p',
      'seeds as claimed',
      'sign test p',
    ],
    rows,
    label=5,
  )


def build(claims: Sequence[claims_lib.Claim]) -> list[tables.Table]:
  """Returns the tables of verdicts; the last one holds all claims."""
  return [
    _counts(claims),
    *(_verdicts(claims, preset) for preset in names.PRESETS),
    _other_verdicts(claims),
    _all_claims(claims),
  ]
