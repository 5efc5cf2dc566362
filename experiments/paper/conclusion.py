"""The conclusion of the report: a few sentences, made from the verdicts.

Nothing here is written by hand that a new run could make wrong: what was not
run is not spoken of.
"""

import collections
from collections.abc import Callable, Sequence
import itertools
import math

import pandas as pd

from experiments.paper import claims as claims_lib
from experiments.paper import design

_ONE_SEED = 'one seed'
_DIVERGED = 'diverged'
# What a verdict says of F3AST, with its number or without, in this order.
_WORDS = {
  claims_lib.HOLDS: ('higher', True),
  claims_lib.FAILS: ('lower', True),
  claims_lib.UNDECIDED: ('not significantly different', False),
  _ONE_SEED: ('undecided with one seed', True),
  _DIVERGED: ('undecided, as a run diverged,', False),
}

# What sentences are about. The first one that names it says what it is.
_IT = '{it}'
_SUBJECT = "F3AST's test accuracy compared with FedAvg's"

_Claims = Sequence[claims_lib.Claim]


def _list(items: Sequence[str]) -> str:
  """Returns `a, b and c`."""
  *first, last = items
  return f'{", ".join(first)} and {last}' if first else last


def _count(number: int, one: str, several: str) -> str:
  return f'{number} {one if number == 1 else several}'


def _kind(claim: claims_lib.Claim) -> str:
  """Returns the verdict, and why it is undecided."""
  found = claim.found
  if found.decision != claims_lib.UNDECIDED:
    return found.decision
  if not math.isfinite(found.mean):
    return _DIVERGED
  return _ONE_SEED if found.seeds == 1 else claims_lib.UNDECIDED


def _gap(claim: claims_lib.Claim) -> str:
  """Returns the difference, with as many digits as seeds agree on."""
  sd = claim.differences.std(skipna=False)
  spread = '' if math.isnan(sd) else f' ± {sd:.3f}'
  return f'{claim.differences.mean():+.3f}{spread}'


def _by_verdict(
  claims: _Claims,
  where: Callable[[claims_lib.Claim], str] = lambda claim: claim.where,
) -> str:
  """Returns where the accuracy is higher, lower, or neither."""
  parts = []
  for kind, (words, has_number) in _WORDS.items():
    places = [
      where(claim) + (f' ({_gap(claim)})' if has_number else '')
      for claim in claims
      if _kind(claim) == kind
    ]
    if places:
      parts.append(f'{words} under {_list(places)}')
  *first, last = parts
  return f'{", ".join(first)}, and {last}' if first else last


def _counts(values: pd.DataFrame, claims: _Claims) -> str:
  shown = [claim for claim in claims if claim.source == claims_lib.PAPER]
  count = collections.Counter(claim.found.decision for claim in shown)
  num_run = len(shown) - count[claims_lib.NOT_RUN]
  verdicts = [
    _count(count[claims_lib.HOLDS], 'holds', 'hold'),
    _count(count[claims_lib.FAILS], 'does not hold', 'do not hold'),
    _count(count[claims_lib.UNDECIDED], 'is undecided', 'are undecided'),
  ]
  return (
    f'In {_count(len(values), "run", "runs")} we tested {num_run} of the '
    f'{len(shown)} claims that the paper shows: {_list(verdicts)}.'
  )


def _on_synthetic(values: pd.DataFrame, claims: _Claims) -> str:
  is_main = (values['dataset'] == 'synthetic') & (values['variant'] == '')
  rounds = int(values[is_main]['rounds'].max())
  return (
    f'On Synthetic(1,1), {rounds:,} rounds, {_IT} is {_by_verdict(claims)}.'
  )


def _with_equal_steps(matched: _Claims, main: _Claims) -> str:
  """Returns what remains of gains when both methods take equal steps."""
  gains, kept = (
    [c.where for c in part if c.found.decision == claims_lib.HOLDS]
    for part in (main, matched)
  )
  explained = [where for where in gains if where in kept]
  end = ''
  if explained:
    end = f': the gain under {_list(explained)} is not that of a larger step'
  return (
    "With FedAvg's server learning rate matched to F3AST's weights "
    f'{_IT} is {_by_verdict(matched)}{end}.'
  )


def _on_real_data(claims: _Claims) -> str:
  def names(of: _Claims) -> str:
    found = [
      f'{design.DATASETS[c.dataset]}, {c.preset}, {c.where}: {_gap(c)}'
      for c in of
    ]
    return f' ({"; ".join(found)})' if found else ''

  higher, lower = (
    [claim for claim in claims if claim.found.decision == decision]
    for decision in (claims_lib.HOLDS, claims_lib.FAILS)
  )
  undecided = [
    c for c in claims if c.found.decision == claims_lib.UNDECIDED
  ]
  one_seed = sum(claim.found.seeds == 1 for claim in undecided)
  end = f', {one_seed} of them with one seed' if one_seed else ''
  datasets = {design.DATASETS[claim.dataset]: None for claim in claims}
  return (
    f'On {_list(list(datasets))} {_IT} is higher in {len(higher)} of '
    f'{_count(len(claims), "comparison", "comparisons")}{names(higher)}, lower '
    f'in {len(lower)}{names(lower)}, and undecided in {len(undecided)}{end}.'
  )


def sentences(values: pd.DataFrame, claims: _Claims) -> list[str]:
  """Returns the conclusion.

  Args:
    values: From `frames.values`.
    claims: From `claims.claims`, on the same values.

  Returns:
    Five sentences if all was run: how many claims hold; F3AST next to FedAvg
    on Synthetic, with equal steps, with settled rates, and on real data. They
    are on test accuracy. Of what was not run there is none.
  """
  pair = claims_lib.text(*design.PAIRS[0])
  run = [
    claim
    for claim in claims
    if claim.metric == 'accuracy' and claim.found.seeds
  ]
  of_tables = [
    claim
    for claim in run
    if claim.topic == 'tables'
    and claim.text == pair
    and claim.where != claims_lib.ALL_AVAILS
  ]
  main = [claim for claim in of_tables if claim.dataset == 'synthetic']
  matched = [claim for claim in run if claim.text == pair + claims_lib.MATCHED]
  settled = [claim for claim in run if claim.where.endswith(claims_lib.SETTLED)]
  real = [claim for claim in of_tables if claim.dataset != 'synthetic']
  found = [_counts(values, claims)]
  if main:
    found.append(_on_synthetic(values, main))
  if matched:
    found.append(_with_equal_steps(matched, main))
  if settled:
    by_verdict = _by_verdict(
      settled,
      lambda claim: claim.where.removesuffix(claims_lib.SETTLED).replace(
        ', ', ' with '
      ),
    )
    found.append(
      f'After {design.SETTLED_ROUNDS:,} rounds {_IT} is {by_verdict}.'
    )
  if real:
    found.append(_on_real_data(real))
  subjects = itertools.chain([_SUBJECT], itertools.repeat('it'))
  return [
    text.replace(_IT, next(subjects)) if _IT in text else text
    for text in found
  ]
