"""Claims of our own: what is left of a gain when something else is equal."""

from collections.abc import Iterator
import itertools
from typing import Optional

import pandas as pd

from experiments.paper import design
from experiments.paper import frames
from experiments.paper import local_work
from experiments.paper import verdicts

# Next to what F3AST is set, FedAvg with both ways to draw.
FEDAVGS = ('fedavg', 'fedavg_with_replacement')
BASELINES = (*FEDAVGS, 'power_of_choice')
# Topics.
CONTROLS = 'controls (ours)'
LOCAL_STEPS = f'{design.LOCAL_STEPS} local steps (ours)'
SETTLED = f'{design.SETTLED_ROUNDS} rounds (ours)'
SAFE = 'F3AST, safe (ours)'
RELEASED = 'the released code (ours)'
DECAY = 'decay of the step (ours)'
UNEVEN_BY = 'Uneven by batches (ours)'
EQUAL_WORK = 'equal local work (ours)'
# What a control is about, at the end of its claim.
MATCHED = ' with a matched server rate'
FOLLOWING = ", F3AST's step in each round"
# Four ways on CIFAR-100: F3AST and FedAvg, each with and without the decay.
DECAY_TITLES = {
  ('fedavg', ''): 'FedAvg',
  ('fedavg', design.FOLLOWING_RELEASED): "FedAvg, the released F3AST's step",
  ('f3ast', ''): 'F3AST',
  ('f3ast', design.RELEASED): 'F3AST as released',
}
DECAY_PAIRS = (
  (('fedavg', design.FOLLOWING_RELEASED), ('fedavg', '')),
  (('f3ast', ''), ('fedavg', '')),
  (('f3ast', design.RELEASED), ('fedavg', '')),
  (('f3ast', design.RELEASED), ('fedavg', design.FOLLOWING_RELEASED)),
  (('f3ast', ''), ('fedavg', design.FOLLOWING_RELEASED)),
)
# F3AST, safe, is compared with what it is made of and with FedAvg, after:
SAFE_BASELINES = ('f3ast', *FEDAVGS)
SAFE_VARIANTS = {500: '', design.SETTLED_ROUNDS: design.SETTLED}


def on_synthetic(
  values: pd.DataFrame,
  topic: str,
  where: str,
  pair: tuple[str, str],
  place: tuple[str, str],
  ending: str = '',
  other: Optional[str] = None,
  metric: str = 'accuracy',
  source: str = verdicts.OURS,
) -> verdicts.Claim:
  """Returns a claim that a method is above another.

  Args:
    values: From `frames.values`.
    topic: What it is about.
    where: The condition, in words.
    pair: Both methods.
    place: Availability model and variant.
    ending: Of the claim's text.
    other: The variant of the second method; that of both if it is None.
    metric: What is compared.
    source: Where the claim is from.
  """
  avail, variant = place
  return verdicts.Claim(
    topic,
    'paper',
    'synthetic',
    where,
    verdicts.text(*pair) + ending,
    metric,
    frames.difference(
      values,
      design.synthetic(pair[0], avail, variant),
      design.synthetic(pair[1], avail, variant if other is None else other),
      metric,
    ),
    source=source,
  )


def _steps(values: pd.DataFrame) -> Iterator[verdicts.Claim]:
  """Yields: is F3AST ahead where both take equal steps?"""
  equal = [
    *((other, design.MATCHED, MATCHED) for other in design.MATCHED_METHODS),
    *(
      (other, design.FOLLOWING, FOLLOWING)
      for other in design.FOLLOWING_METHODS
    ),
  ]
  for (other, variant, ending), avail in itertools.product(
    equal, design.CONTROL_AVAILS
  ):
    yield on_synthetic(
      values,
      CONTROLS,
      design.AVAILS[avail],
      ('f3ast', other),
      (avail, ''),
      ending,
      variant,
    )
  for avail in design.CONTROL_AVAILS:
    yield on_synthetic(
      values,
      CONTROLS,
      design.AVAILS[avail],
      ('f3ast', 'fedavg'),
      (avail, design.variant('rate_init', 'p')),
      f'{MATCHED}, r(0) = p',
      design.MATCHED_TO_P,
    )


def _settled(values: pd.DataFrame) -> Iterator[verdicts.Claim]:
  """Yields: is F3AST ahead where rates have settled?"""
  for metric, other, (avail, variant, title) in itertools.product(
    ('accuracy', 'user_accuracy'), FEDAVGS, design.LONG_RUNS
  ):
    if variant == design.SETTLED or other in design.OTHER_ROUNDS_METHODS:
      yield on_synthetic(
        values,
        SETTLED,
        title,
        ('f3ast', other),
        (avail, variant),
        metric=metric,
      )


def _local_steps(values: pd.DataFrame) -> Iterator[verdicts.Claim]:
  """Yields: is F3AST ahead where all clients make E steps?"""
  variant = design.variant('local_steps', design.LOCAL_STEPS)
  for other, (avail, name) in itertools.product(
    FEDAVGS, design.AVAILS.items()
  ):
    yield on_synthetic(
      values, LOCAL_STEPS, name, ('f3ast', other), (avail, variant)
    )


def safe_where(avail: str, rounds: int) -> str:
  """Returns the condition of a claim about F3AST, safe."""
  return f'{avail}, {rounds} rounds'


def _safe(values: pd.DataFrame) -> Iterator[verdicts.Claim]:
  """Yields: is F3AST, safe, ahead?"""
  for (rounds, variant), other, (avail, name) in itertools.product(
    SAFE_VARIANTS.items(), SAFE_BASELINES, design.AVAILS.items()
  ):
    yield on_synthetic(
      values,
      SAFE,
      safe_where(name, rounds),
      (design.SAFE, other),
      (avail, variant),
    )


def _released(values: pd.DataFrame) -> Iterator[verdicts.Claim]:
  """Yields: is F3AST ahead by the rules of the released code?"""
  variant = design.variant('protocol', 'released')
  for pair, (avail, name) in itertools.product(
    design.PAIRS, design.AVAILS.items()
  ):
    yield on_synthetic(values, RELEASED, name, pair, (avail, variant))


def decay_key(avail: str, way: tuple[str, str]) -> design.Key:
  """Returns the key, without a seed, of one of the four ways."""
  method, variant = way
  return design.Key('compact', 'cifar100', avail, method, variant)


def decay_text(ours: tuple[str, str], other: tuple[str, str]) -> str:
  """Returns the claim that one of the four ways is above another."""
  return f'{DECAY_TITLES[ours]} above {DECAY_TITLES[other]}'


def _decay(values: pd.DataFrame) -> Iterator[verdicts.Claim]:
  """Yields: is F3AST on CIFAR-100 ahead of a step that decays?"""
  for (ours, other), avail in itertools.product(
    DECAY_PAIRS, design.DECAY_AVAILS
  ):
    is_in_grid = (ours, other) == (('f3ast', ''), ('fedavg', ''))
    if not is_in_grid:  # Else it would be counted twice.
      yield verdicts.Claim(
        DECAY,
        'compact',
        'cifar100',
        design.AVAILS[avail],
        decay_text(ours, other),
        'accuracy',
        frames.difference(
          values,
          decay_key(avail, ours),
          decay_key(avail, other),
          'accuracy',
        ),
        source=verdicts.OURS,
      )


def _uneven_by_batches(values: pd.DataFrame) -> Iterator[verdicts.Claim]:
  """Yields: is F3AST ahead on Shakespeare with the released code's Uneven?"""
  for preset in design.PRESETS:
    ours, other = (
      design.Key(preset, 'shakespeare', 'uneven', method, design.BY_BATCHES)
      for method in ('f3ast', 'fedavg')
    )
    yield verdicts.Claim(
      UNEVEN_BY,
      preset,
      'shakespeare',
      'Uneven, by batches',
      verdicts.text('f3ast', 'fedavg'),
      'accuracy',
      frames.difference(values, ours, other, 'accuracy'),
      source=verdicts.OURS,
    )


def _equal_work(curves: pd.DataFrame) -> Iterator[verdicts.Claim]:
  """Yields: is F3AST ahead after equally many examples of Shakespeare?"""
  dataset = 'shakespeare'
  for preset, other, (avail, name) in itertools.product(
    design.PRESETS, FEDAVGS, design.AVAILS.items()
  ):
    keys = [
      design.Key(preset, dataset, avail, method) for method in ('f3ast', other)
    ]
    yield verdicts.Claim(
      EQUAL_WORK,
      preset,
      dataset,
      name,
      verdicts.text('f3ast', other),
      'accuracy',
      local_work.compare(curves, keys)['difference'],
      source=verdicts.OURS,
    )


def claims(
  values: pd.DataFrame, curves: pd.DataFrame
) -> Iterator[verdicts.Claim]:
  """Yields all of them, run or not."""
  yield from _steps(values)
  yield from _local_steps(values)
  yield from _settled(values)
  yield from _safe(values)
  yield from _released(values)
  yield from _decay(values)
  yield from _uneven_by_batches(values)
  yield from _equal_work(curves)
