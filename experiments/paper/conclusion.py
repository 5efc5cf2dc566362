"""The conclusion of the report: a few sentences, made from the verdicts.

Nothing here is written by hand that a new run could make wrong: what was not
run is not spoken of.
"""

import collections
from collections.abc import Sequence
import itertools
import math

import pandas as pd

from experiments.paper import claims as claims_lib
from experiments.paper import control_claims
from experiments.paper import design
from experiments.paper import verdicts

# What a verdict says of F3AST, in this order.
_WORDS = {verdicts.HOLDS: 'higher', verdicts.FAILS: 'lower'}
_FEW = 2  # As many undecided ones have their names told.

# What sentences are about. The first one that names it says what it is.
_IT = '{it}'
_SUBJECT = "F3AST's test accuracy compared with FedAvg's"
_OTHER_DRAW = 'FedAvg drawn with replacement'

_Claims = Sequence[verdicts.Claim]


def _list(items: Sequence[str]) -> str:
  """Returns `a, b and c`."""
  *first, last = items
  return f'{", ".join(first)} and {last}' if first else last


def _count(number: int, one: str, several: str) -> str:
  return f'{number} {one if number == 1 else several}'


def _gap(claim: verdicts.Claim) -> str:
  """Returns the difference; tables have its spread."""
  if not math.isfinite(claim.found.mean):
    return 'a run diverged'
  return f'{claim.differences.mean():+.3f}'


def _by_verdict(claims: _Claims) -> str:
  """Returns where the accuracy is higher, lower, or undecided."""
  parts = []
  for decision, word in _WORDS.items():
    of = [claim for claim in claims if claim.found.decision == decision]
    if of:
      parts.append(f'{word} under {_places(of)}')
  undecided = [
    claim for claim in claims if claim.found.decision == verdicts.UNDECIDED
  ]
  if 0 < len(undecided) <= _FEW:
    parts.append(f'undecided under {_places(undecided)}')
  elif undecided:
    where = 'elsewhere' if parts else 'everywhere'
    means = [claim.differences.mean(skipna=False) for claim in undecided]
    known = list(filter(math.isfinite, means))  # Without those that diverged.
    span = f' ({min(known):+.3f} to {max(known):+.3f})' if known else ''
    parts.append(f'undecided {where}{span}')
  *first, last = parts
  return f'{", ".join(first)}, and {last}' if first else last


def _places(claims: _Claims) -> str:
  """Returns the conditions of claims, and the differences there."""
  return _list([
    f'{claim.where.replace(", ", " with ")} ({_gap(claim)})' for claim in claims
  ])


def _counts(values: pd.DataFrame, claims: _Claims) -> str:
  shown = [claim for claim in claims if claim.source == verdicts.PAPER]
  count = collections.Counter(claim.found.decision for claim in shown)
  num_run = len(shown) - count[verdicts.NOT_RUN]
  found = [
    _count(count[verdicts.HOLDS], 'holds', 'hold'),
    _count(count[verdicts.FAILS], 'does not hold', 'do not hold'),
    _count(count[verdicts.UNDECIDED], 'is undecided', 'are undecided'),
  ]
  return (
    f'In {_count(len(values), "run", "runs")} we tested {num_run} of the '
    f'{len(shown)} claims that the paper shows: {_list(found)}.'
  )


def _next_to_both(before: str, first: _Claims, second: _Claims = ()) -> str:
  """Returns a sentence on FedAvg, and on FedAvg drawn with replacement."""
  end = f'; with {_OTHER_DRAW}, {_by_verdict(second)}' if second else ''
  return f'{before} {_IT} is {_by_verdict(first)}{end}.'


def _on_decay(claims: _Claims) -> str:
  """Returns a sentence on what a step that decays does by itself."""
  plain, decaying = ('fedavg', ''), ('fedavg', design.FOLLOWING_RELEASED)
  with_decay, more = (
    [
      claim
      for claim in claims
      if claim.text == control_claims.decay_text(ours, other)
    ]
    for ours, other in (
      (decaying, plain), (('f3ast', design.RELEASED), decaying)
    )
  )
  end = (
    f'; the released F3AST, compared with that, is {_by_verdict(more)}'
    if more
    else ''
  )
  return (
    "On CIFAR-100, compact, FedAvg with the released F3AST's decaying step, "
    f'compared with FedAvg, is {_by_verdict(with_decay)}{end}.'
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
    for decision in (verdicts.HOLDS, verdicts.FAILS)
  )
  undecided = [
    c for c in claims if c.found.decision == verdicts.UNDECIDED
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
    Seven sentences if all was run: how many claims hold; F3AST next to FedAvg
    on Synthetic, with both ways to draw; with equal steps, with E local steps,
    with settled rates, and on real data; and what a decaying step does there.
    They are on test accuracy. Of what was not run there is none.
  """
  run = [
    claim
    for claim in claims
    if claim.metric == 'accuracy'
    and claim.found.seeds
    and claim.where != claims_lib.ALL_AVAILS
  ]

  def both(topic: str, ending: str = '') -> list[_Claims]:
    """Returns the claims on F3AST and each FedAvg."""
    texts = [
      verdicts.text('f3ast', other) + ending
      for other in control_claims.FEDAVGS
    ]
    return [
      [claim for claim in run if (claim.topic, claim.text) == (topic, text)]
      for text in texts
    ]

  is_main = (values['dataset'] == 'synthetic') & (values['variant'] == '')
  rounds = values[is_main]['rounds'].max()
  on_synthetic: list[_Claims] = [
    [claim for claim in part if claim.dataset == 'synthetic']
    for part in both('tables')
  ]
  real = [
    claim for claim in both('tables')[0] if claim.dataset != 'synthetic'
  ]
  found = [_counts(values, claims)]
  for before, of_both in (
    (f'On Synthetic(1,1), {rounds:,.0f} rounds,', on_synthetic),
    # Of these, tables have the other way to draw.
    (
      "With F3AST's step for FedAvg in each round",
      both(control_claims.CONTROLS, control_claims.FOLLOWING)[:1],
    ),
    (
      f'With {design.LOCAL_STEPS} local steps instead of an epoch',
      both(control_claims.LOCAL_STEPS)[:1],
    ),
    (
      f'After {design.SETTLED_ROUNDS:,} rounds',
      both(control_claims.SETTLED)[:1],
    ),
  ):
    if of_both[0]:
      found.append(_next_to_both(before, *of_both))
  if real:
    found.append(_on_real_data(real))
  decay = [claim for claim in run if claim.topic == control_claims.DECAY]
  if decay:
    found.append(_on_decay(decay))
  subjects = itertools.chain([_SUBJECT], itertools.repeat('it'))
  return [
    text.replace(_IT, next(subjects)) if _IT in text else text
    for text in found
  ]
