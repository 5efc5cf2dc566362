"""The conclusion of the report: a few points, made from the verdicts.

Nothing here is written by hand that a new run could make wrong: what was not
run is not spoken of.
"""

import collections
from collections.abc import Sequence
import itertools
import math
import statistics

import pandas as pd

from experiments.paper import claims as claims_lib
from experiments.paper import control_claims
from experiments.paper import design
from experiments.paper import verdicts
from f3ast_tff import wording

# What a verdict says of F3AST, in this order.
_WORDS = {verdicts.HOLDS: 'higher', verdicts.FAILS: 'lower'}
_FEW = 2  # As many undecided ones have their names told.

# What points are about. The first one that names it says what it is.
_SUBJECT = '{subject}'
_FIRST = "F3AST's test accuracy, compared with FedAvg's,"
_LATER = "F3AST's accuracy"
_OTHER_DRAW = 'FedAvg drawn with replacement'

_Claims = Sequence[verdicts.Claim]


def _list(items: Sequence[str]) -> str:
  """Returns `a, b and c`."""
  *first, last = items
  return f'{", ".join(first)} and {last}' if first else last


def _count(number: int, one: str, several: str) -> str:
  return f'{number} {one if number == 1 else several}'


def _gap(claim: verdicts.Claim, usual_seeds: int) -> str:
  """Returns the difference; tables have its spread.

  Args:
    claim: A claim that was tested.
    usual_seeds: How many seeds others have. Fewer are named.
  """
  if not math.isfinite(claim.found.mean):
    return 'a run diverged'
  gap, seeds = f'{claim.differences.mean():+.3f}', claim.found.seeds
  if seeds < usual_seeds:
    return f'{gap}, {wording.count(seeds, "seed")}'
  return gap


def _usual_seeds(claims: _Claims) -> int:
  """Returns how many seeds most of the claims have."""
  return statistics.mode(claim.found.seeds for claim in claims)


def _by_verdict(claims: _Claims) -> str:
  """Returns where the accuracy is higher, lower, or undecided."""
  seeds = _usual_seeds(claims)
  parts = []
  for decision, word in _WORDS.items():
    of = [claim for claim in claims if claim.found.decision == decision]
    if of:
      parts.append(f'{word} under {_places(of, seeds)}')
  undecided = [
    claim for claim in claims if claim.found.decision == verdicts.UNDECIDED
  ]
  if 0 < len(undecided) <= _FEW:
    parts.append(f'undecided under {_places(undecided, seeds)}')
  elif undecided:
    where = 'elsewhere' if parts else 'everywhere'
    means = [claim.differences.mean(skipna=False) for claim in undecided]
    known = list(filter(math.isfinite, means))  # Without those that diverged.
    span = f' ({min(known):+.3f} to {max(known):+.3f})' if known else ''
    parts.append(f'undecided {where}{span}')
  *first, last = parts
  return f'{", ".join(first)}, and {last}' if first else last


def _places(claims: _Claims, usual_seeds: int) -> str:
  """Returns the conditions of claims, and the differences there."""
  return _list([
    f'{claim.where.replace(", ", " with ")} ({_gap(claim, usual_seeds)})'
    for claim in claims
  ])


def _counts(values: pd.DataFrame, claims: _Claims) -> str:
  """Returns how many claims hold, with the paper's baselines and others."""

  def of(source: str) -> tuple[int, int, collections.Counter[str]]:
    """Returns how many there are, how many were run, and each verdict's."""
    count = collections.Counter(
      claim.found.decision for claim in claims if claim.source == source
    )
    return count.total(), count.total() - count[verdicts.NOT_RUN], count

  num_shown, num_run, count = of(verdicts.PAPER)
  found = [
    _count(count[verdicts.HOLDS], 'holds', 'hold'),
    _count(count[verdicts.FAILS], 'does not hold', 'do not hold'),
    _count(count[verdicts.UNDECIDED], 'is undecided', 'are undecided'),
  ]
  first = (
    f'In {wording.count(len(values), "run")} we tested {num_run} of the '
    f"paper's {num_shown} claims: {_list(found)} (not significant after "
    'correction).'
  )
  _, num_run, count = of(verdicts.OTHER_DRAW)
  if not num_run:
    return first
  return (
    f'{first} With baselines drawn with replacement {count[verdicts.HOLDS]} of '
    f'{num_run} hold and {count[verdicts.FAILS]} do not.'
  )


def _next_to_both(before: str, first: _Claims, second: _Claims = ()) -> str:
  """Returns a point on FedAvg, and on FedAvg drawn with replacement."""
  point = f'{before} {_SUBJECT} is {_by_verdict(first)}.'
  if not second:
    return point
  return f'{point} With {_OTHER_DRAW} it is {_by_verdict(second)}.'


def _on_decay(claims: _Claims) -> str:
  """Returns a point on what a step that decays does by itself."""
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
  point = (
    "On CIFAR-100, compact, FedAvg with the authors' decaying step, compared "
    f'with FedAvg, is {_by_verdict(with_decay)}.'
  )
  if not more:
    return point
  return (
    f'{point} F3AST as they released it, compared with that, is '
    f'{_by_verdict(more)}.'
  )


def _on_real_data(claims: _Claims) -> str:
  def names(of: _Claims) -> str:
    found = [
      f'{design.DATASETS[c.dataset]}, {c.preset}, {c.where}: '
      + _gap(c, len(design.SEEDS))
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
    f'On {_list(list(datasets))} {_SUBJECT} is higher in {len(higher)} of '
    f'{_count(len(claims), "comparison", "comparisons")}{names(higher)}, lower '
    f'in {len(lower)}{names(lower)}, and undecided in {len(undecided)}{end}.'
  )


def sentences(values: pd.DataFrame, claims: _Claims) -> list[str]:
  """Returns the conclusion, a point of one or two sentences each.

  Args:
    values: From `frames.values`.
    claims: From `claims.claims`, on the same values.

  Returns:
    Seven points if all was run: how many claims hold; F3AST next to FedAvg on
    Synthetic, with both ways to draw; with equal steps, with E local steps,
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
      "If FedAvg takes F3AST's steps,",
      both(control_claims.CONTROLS, control_claims.FOLLOWING)[:1],
    ),
    (
      f'With {design.LOCAL_STEPS} local steps instead of an epoch,',
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
  subjects = itertools.chain([_FIRST], itertools.repeat(_LATER))
  return [
    text.replace(_SUBJECT, next(subjects)) if _SUBJECT in text else text
    for text in found
  ]
