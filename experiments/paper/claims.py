"""Verdicts on what the paper claims, from differences paired by seed.

A claim holds where a paired t-test finds the difference and its sign is the
claim's; next to the test stands in how many seeds the sign is the claim's, with
the exact sign test, which assumes no distribution.
"""

from collections.abc import Iterator, Sequence
import itertools
import math
from typing import NamedTuple, Optional

import numpy as np
import pandas as pd
from scipy import stats

from experiments.grid import pairs
from experiments.paper import design
from experiments.paper import frames
from experiments.paper import paper_numbers
from f3ast_tff import wording

LEVEL = 0.05  # Of the t-test, two-sided, not corrected for how many there are.

NOT_RUN = 'not run'
HOLDS = 'holds'
FAILS = 'does not hold'
UNDECIDED = 'undecided'
ALL_AVAILS = 'mean of the five'

# Where a claim is from.
PAPER = 'the paper prints, draws or says it'
CARRIED_OVER = "the paper's claim, where it does not show it"
OURS = 'our controls'
SOURCES = (PAPER, CARRIED_OVER, OURS)
_PLACES = [
  (preset, dataset)
  for preset, datasets in design.PRESETS.items()
  for dataset in datasets
]
_CONTROLS = 'controls (ours)'  # The topic of what is ours.
# What a control is about: equal steps, and settled rates.
MATCHED = ' with a matched server rate'
SETTLED = f', {design.SETTLED_ROUNDS} rounds'


class Paired(NamedTuple):
  """Statistics of differences, one per seed; positive is as claimed.

  Attributes:
    seeds: How many there are.
    mean: Their mean.
    p: Of the two-sided paired t-test; NaN for fewer than two.
    wins: How many are positive.
    sign_p: Of the exact two-sided sign test, without the zeros.
  """

  seeds: int
  mean: float
  p: float
  wins: int
  sign_p: float

  @property
  def decision(self) -> str:
    """`holds`, `does not hold`, `undecided` or `not run`."""
    if self.seeds == 0:
      return NOT_RUN
    if self.p < LEVEL:  # NaN for one seed, and where a run diverged.
      return HOLDS if self.mean > 0 else FAILS
    return UNDECIDED

  @property
  def verdict(self) -> str:
    """The decision, and why it is undecided if it is."""
    if self.decision != UNDECIDED:
      return self.decision
    seeds = wording.count(self.seeds, 'seed')
    if not math.isfinite(self.mean):
      return f'{UNDECIDED} (a run diverged, {seeds})'
    if self.seeds == 1:
      return f'{UNDECIDED} ({seeds})'
    return f'{UNDECIDED} ({seeds}, p = {self.p:.2g})'


def paired(differences: Sequence[float]) -> Paired:
  """Returns the statistics of differences that were taken within seeds."""
  d = np.asarray(differences, float)
  wins, losses = int((d > 0).sum()), int((d < 0).sum())
  sign_p = 1.0
  if wins + losses:
    sign_p = stats.binomtest(wins, wins + losses).pvalue
  mean = float(d.mean()) if d.size else math.nan
  return Paired(d.size, mean, pairs.t_test(differences), wins, float(sign_p))


class Claim(NamedTuple):
  """A claim and the values that decide it.

  Attributes:
    topic: What table or figure it is about.
    preset: The preset of the values.
    dataset: Their dataset.
    where: The condition: an availability model, a K, an alpha.
    text: The claim.
    metric: What is compared.
    differences: Ours minus theirs, by seed.
    says_above: Whether ours is claimed to be the higher one.
    paper: The paper's own difference, if it prints numbers.
    source: Where the claim is from.
  """

  topic: str
  preset: str
  dataset: str
  where: str
  text: str
  metric: str
  differences: pd.Series
  says_above: bool = True
  paper: Optional[float] = None
  source: str = PAPER

  @property
  def found(self) -> Paired:
    """The statistics of the differences, positive where it is right."""
    return paired(self.differences if self.says_above else -self.differences)


def text(ours: str, other: str, is_above: bool = True) -> str:
  """Returns the claim that a method is better than another."""
  word = 'above' if is_above else 'below'
  return f'{design.TITLES[ours]} {word} {design.TITLES[other]}'


def _is_drawn(
  dataset: str, avail: str, metric: str, pair: tuple[str, str]
) -> bool:
  """Whether a figure, or a table of another kind, shows a pair on Synthetic."""
  if dataset != 'synthetic' or pair[0] != 'f3ast':
    return False
  if (avail, metric, pair[1]) == (design.ALPHA_AVAIL, 'accuracy', 'fedavg'):
    return True  # tab:heterogeneity, alpha = 1.
  return avail == 'home_devices' and metric in ('accuracy', 'loss')


def _main_grid(values: pd.DataFrame, paper: pd.DataFrame) -> Iterator[Claim]:
  """Yields the claims of the four large tables, a claim per column."""
  printed = paper_numbers.of_grid(paper)
  for (preset, dataset), metric, pair in itertools.product(
    _PLACES,
    ('accuracy', 'loss', 'user_accuracy', 'user_loss'),
    design.COMPARISONS,
  ):
    # On CIFAR-100 users hold equally much, so both averages are one.
    if metric.startswith('user') and dataset == 'cifar100':
      continue
    above = design.is_higher_better(metric)
    place, claimed = ('tables', preset, dataset), text(*pair, above)
    of_avails = []
    for avail, name in design.AVAILS.items():
      of_pair = [
        frames.by_seed(
          values, design.Key(preset, dataset, avail, method), metric
        )
        for method in pair
      ]
      of_avails.append(of_pair)
      differences = pairs.differences(*of_pair)
      a, b = (printed.get((metric, dataset, method, avail)) for method in pair)
      printed_gap = None if a is None or b is None else a - b
      is_shown = (
        _is_drawn(dataset, avail, metric, pair)
        if printed_gap is None
        else printed_gap != 0 and (printed_gap > 0) == above
      )
      source = PAPER if is_shown else CARRIED_OVER
      yield Claim(
        *place, name, claimed, metric, differences, above, printed_gap, source
      )
    # The seeds that all five have. A run that diverged is there, and makes the
    # mean NaN.
    means = (
      pd.concat(five, axis=1, join='inner').mean(axis=1, skipna=False)
      for five in zip(*of_avails)
    )
    gap = pairs.differences(*means)
    yield Claim(
      *place, ALL_AVAILS, claimed, metric, gap, above, source=CARRIED_OVER
    )


def _steadiness(values: pd.DataFrame) -> Iterator[Claim]:
  """Yields what the captions of the curves say under Home-devices."""
  metric = 'unsteadiness'
  for place, other in itertools.product(_PLACES, ('fedavg', 'power_of_choice')):
    ours, theirs = (
      design.Key(*place, 'home_devices', method) for method in ('f3ast', other)
    )
    yield Claim(
      'curves',
      *place,
      'Home-devices',
      f'F3AST is steadier from test to test than {design.TITLES[other]}',
      metric,
      # Where there are too few tests, nothing is told.
      frames.difference(values, ours, theirs, metric).dropna(),
      says_above=False,
    )


def _on_synthetic(
  values: pd.DataFrame,
  topic: str,
  where: str,
  claimed: str,
  ours: design.Key,
  other: design.Key,
  metric: str = 'accuracy',
  paper: Optional[float] = None,
) -> Claim:
  """Returns a claim that ours is above another."""
  return Claim(
    topic,
    'paper',
    'synthetic',
    where,
    claimed,
    metric,
    frames.difference(values, ours, other, metric),
    paper=paper,
    source=OURS if topic == _CONTROLS else PAPER,
  )


def _heterogeneity(
  values: pd.DataFrame, paper: pd.DataFrame
) -> Iterator[Claim]:
  printed = paper_numbers.of_heterogeneity(paper)
  for alpha in design.ALPHAS:
    place = design.ALPHA_AVAIL, design.variant('alpha', alpha)
    yield _on_synthetic(
      values,
      'heterogeneity',
      f'Smartphones, alpha = {alpha:g}',
      text('f3ast', 'fedavg'),
      design.synthetic('f3ast', *place),
      design.synthetic('fedavg', *place),
      paper=printed['f3ast', alpha] - printed['fedavg', alpha],
    )


def _k_sweep(values: pd.DataFrame) -> Iterator[Claim]:
  topic = 'number of clients'
  small, large = min(design.KS), max(design.KS)
  for other in ('fedavg', 'power_of_choice'):
    gaps = {}
    for k in design.KS:
      place = design.K_AVAIL, design.variant('clients_per_round', str(k))
      claim = _on_synthetic(
        values,
        topic,
        f'Home-devices, K = {k}',
        text('f3ast', other),
        design.synthetic('f3ast', *place),
        design.synthetic(other, *place),
      )
      gaps[k] = claim.differences
      yield claim
    yield Claim(
      topic,
      'paper',
      'synthetic',
      f'Home-devices, K = {large} against {small}',
      f'the gap between F3AST and {design.TITLES[other]} widens with K',
      'accuracy',
      pairs.differences(gaps[large], gaps[small]),
    )


def _controls(values: pd.DataFrame) -> Iterator[Claim]:
  """Yields our own: is F3AST ahead with equal steps, and with settled rates?"""
  from_p = design.variant('rate_init', 'p')
  pairs = [
    (
      text('f3ast', other) + MATCHED,
      '',
      (other, design.MATCHED),
    )
    for other in design.MATCHED_METHODS
  ] + [
    (
      f'F3AST with r(0) = p above FedAvg{MATCHED}',
      from_p,
      ('fedavg', design.MATCHED_TO_P),
    )
  ]
  for (claimed, variant, (other, matched)), avail in itertools.product(
    pairs, design.CONTROL_AVAILS
  ):
    yield _on_synthetic(
      values,
      _CONTROLS,
      design.AVAILS[avail],
      claimed,
      design.synthetic('f3ast', avail, variant),
      design.synthetic(other, avail, matched),
    )
  for metric, (avail, variant, title) in itertools.product(
    ('accuracy', 'user_accuracy'), design.LONG_RUNS
  ):
    yield _on_synthetic(
      values,
      _CONTROLS,
      title + SETTLED,
      text('f3ast', 'fedavg'),
      design.synthetic('f3ast', avail, variant),
      design.synthetic('fedavg', avail, variant),
      metric,
    )


def claims(values: pd.DataFrame, paper: pd.DataFrame) -> list[Claim]:
  """Returns all claims, run or not."""
  return [
    *_main_grid(values, paper),
    *_heterogeneity(values, paper),
    *_k_sweep(values),
    *_steadiness(values),
    *_controls(values),
  ]
