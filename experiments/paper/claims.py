"""Verdicts on what the paper claims, from differences paired by seed.

A seed decides data, availability and first weights of all methods alike, so
that the difference within a seed is not blurred by how seeds differ. A claim
holds where a paired t-test finds the difference and its sign is the claim's;
beside the test stands in how many seeds the sign is the claim's, with the exact
sign test, which assumes no distribution.
"""

from collections.abc import Iterator, Sequence
import math
from typing import NamedTuple, Optional

import numpy as np
import pandas as pd
from scipy import stats

from experiments.paper import design
from experiments.paper import frames
from experiments.paper import names
from experiments.paper import results

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


class Paired(NamedTuple):
  """Statistics of differences, one per seed; positive is as claimed.

  Attributes:
    seeds: How many there are.
    mean: Their mean.
    sd: Their sample standard deviation; NaN for fewer than two.
    p: Of the two-sided paired t-test; NaN for fewer than two.
    wins: How many are positive.
    losses: How many are negative.
    sign_p: Of the exact two-sided sign test, without the zeros.
  """

  seeds: int
  mean: float
  sd: float
  p: float
  wins: int
  losses: int
  sign_p: float


def paired(differences: Sequence[float]) -> Paired:
  """Returns the statistics of differences that were taken within seeds."""
  d = np.asarray(differences, float)
  wins, losses = int((d > 0).sum()), int((d < 0).sum())
  sd = float(d.std(ddof=1)) if d.size > 1 else math.nan
  p = math.nan
  if d.size > 1 and np.isfinite(d).all():
    # The t-test divides by sd.
    p = float(stats.ttest_1samp(d, 0.0).pvalue) if sd > 0 else float(not d[0])
  return Paired(
    seeds=d.size,
    mean=float(d.mean()) if d.size else math.nan,
    sd=sd,
    p=p,
    wins=wins,
    losses=losses,
    sign_p=(
      float(stats.binomtest(wins, wins + losses).pvalue)
      if wins + losses
      else 1.0
    ),
  )


def decision(found: Paired) -> str:
  """Returns the verdict on a claim, without reasons.

  Args:
    found: From differences that are positive where the claim is right.

  Returns:
    `holds`, `does not hold`, `undecided` or `not run`.
  """
  if found.seeds == 0:
    return NOT_RUN
  if found.p < LEVEL:  # NaN for one seed, and where a run diverged.
    return HOLDS if found.mean > 0 else FAILS
  return UNDECIDED


def verdict(found: Paired) -> str:
  """Returns the verdict on a claim, and why it is undecided.

  Args:
    found: From differences that are positive where the claim is right.

  Returns:
    `holds`, `does not hold`, `undecided (...)` or `not run`.
  """
  word = decision(found)
  if word != UNDECIDED:
    return word
  if not math.isfinite(found.mean):
    return f'{word} (a run diverged, {found.seeds} seeds)'
  if found.seeds == 1:
    return f'{word} (1 seed)'
  return f'{word} ({found.seeds} seeds, p = {found.p:.2g})'


class Claim(NamedTuple):
  """A claim and the values that decide it.

  Attributes:
    topic: What table or figure it is about.
    preset: The preset of the values.
    dataset: Their dataset.
    where: The condition: an availability model, a K, an alpha.
    text: The claim.
    metric: What is compared.
    ours: By seed.
    other: By seed.
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
  ours: pd.Series
  other: pd.Series
  says_above: bool
  paper: Optional[float] = None
  source: str = PAPER

  @property
  def differences(self) -> pd.Series:
    """Ours minus theirs, by seed."""
    return frames.paired_differences(self.ours, self.other)

  @property
  def found(self) -> Paired:
    """The statistics of the differences, positive where it is right."""
    return paired(self.differences if self.says_above else -self.differences)


def _text(ours: str, other: str, is_above: bool) -> str:
  word = 'above' if is_above else 'below'
  return f'{names.METHODS[ours]} {word} {names.METHODS[other]}'


def _mean_of_avails(
  values: pd.DataFrame, key: results.Key, metric: str
) -> pd.Series:
  """Returns by seed the mean over the five models, where all five are there."""
  columns = [
    frames.by_seed(
      values,
      results.Key(key.preset, key.dataset, avail, key.method, key.variant),
      metric,
    )
    for avail in names.AVAILS
  ]
  # A run that diverged is there, and makes the mean NaN.
  return pd.concat(columns, axis=1, join='inner').mean(axis=1, skipna=False)


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
  printed = design.printed(paper)
  for preset, datasets in names.PRESETS.items():
    for dataset in datasets:
      for metric in ('accuracy', 'loss', 'user_accuracy', 'user_loss'):
        # On CIFAR-100 users hold equally much, so both averages are one.
        if metric.startswith('user') and dataset == 'cifar100':
          continue
        above = names.is_higher_better(metric)
        for pair in names.COMPARISONS:
          keys = [results.Key(preset, dataset, '', method) for method in pair]
          for avail in names.AVAILS:
            ours, other = (
              frames.by_seed(
                values, results.Key(preset, dataset, avail, key.method), metric
              )
              for key in keys
            )
            a, b = (
              printed.get((metric, dataset, key.method, avail)) for key in keys
            )
            difference = None if a is None or b is None else a - b
            is_shown = (
              _is_drawn(dataset, avail, metric, pair)
              if difference is None
              else difference != 0 and (difference > 0) == above
            )
            yield Claim(
              'tables',
              preset,
              dataset,
              names.AVAILS[avail],
              _text(*pair, above),
              metric,
              ours,
              other,
              above,
              difference,
              PAPER if is_shown else CARRIED_OVER,
            )
          ours, other = (
            _mean_of_avails(values, key, metric) for key in keys
          )
          yield Claim(
            'tables',
            preset,
            dataset,
            ALL_AVAILS,
            _text(*pair, above),
            metric,
            ours,
            other,
            above,
            source=CARRIED_OVER,
          )


def _steadiness(values: pd.DataFrame) -> Iterator[Claim]:
  """Yields what the captions of the curves say under Home-devices."""
  for preset, datasets in names.PRESETS.items():
    for dataset in datasets:
      for other in ('fedavg', 'power_of_choice'):
        ours, theirs = (
          frames.by_seed(
            values,
            results.Key(preset, dataset, 'home_devices', method),
            'unsteadiness',
          ).dropna()  # Where there are too few tests, nothing is told.
          for method in ('f3ast', other)
        )
        yield Claim(
          'curves',
          preset,
          dataset,
          'Home-devices',
          f'F3AST is steadier from test to test than {names.METHODS[other]}',
          'unsteadiness',
          ours,
          theirs,
          False,
        )


def _heterogeneity(
  values: pd.DataFrame, paper: pd.DataFrame
) -> Iterator[Claim]:
  table = paper[paper['table'] == 'heterogeneity']
  numbers = table.set_index(['method', 'alpha'])['value']
  for alpha in design.ALPHAS:
    ours, other = (
      frames.by_seed(
        values,
        design.synthetic(
          method, design.ALPHA_AVAIL, design.variant('alpha', alpha)
        ),
        'accuracy',
      )
      for method in ('f3ast', 'fedavg')
    )
    yield Claim(
      'heterogeneity',
      'paper',
      'synthetic',
      f'Smartphones, alpha = {alpha:g}',
      _text('f3ast', 'fedavg', True),
      'accuracy',
      ours,
      other,
      True,
      float(numbers[('f3ast', alpha)] - numbers[('fedavg', alpha)]),
    )


def _k_sweep(values: pd.DataFrame) -> Iterator[Claim]:
  def accuracy(method: str, k: int) -> pd.Series:
    variant = design.variant('clients_per_round', str(k))
    key = design.synthetic(method, design.K_AVAIL, variant)
    return frames.by_seed(values, key, 'accuracy')

  for other in ('fedavg', 'power_of_choice'):
    for k in design.KS:
      yield Claim(
        'number of clients',
        'paper',
        'synthetic',
        f'Home-devices, K = {k}',
        _text('f3ast', other, True),
        'accuracy',
        accuracy('f3ast', k),
        accuracy(other, k),
        True,
      )
    small, large = min(design.KS), max(design.KS)
    gap_of_large, gap_of_small = (
      frames.paired_differences(accuracy('f3ast', k), accuracy(other, k))
      for k in (large, small)
    )
    yield Claim(
      'number of clients',
      'paper',
      'synthetic',
      f'Home-devices, K = {large} against {small}',
      f'the gap between F3AST and {names.METHODS[other]} widens with K',
      'accuracy',
      gap_of_large,
      gap_of_small,
      True,
    )


def _controls(values: pd.DataFrame) -> Iterator[Claim]:
  """Yields our own: does the advantage survive an equal step size?"""
  from_p = design.variant('rate_init', 'p')
  pairs = [
    (
      f'F3AST above {names.METHODS[other]} with a matched server rate',
      ('f3ast', ''),
      (other, design.MATCHED),
    )
    for other in design.MATCHED_METHODS
  ] + [
    (
      'F3AST with r(0) = p above FedAvg with a matched server rate',
      ('f3ast', from_p),
      ('fedavg', design.MATCHED_TO_P),
    )
  ]
  for avail in design.CONTROL_AVAILS:
    for text, *sides in pairs:
      ours, other = (
        frames.by_seed(
          values, design.synthetic(method, avail, variant), 'accuracy'
        )
        for method, variant in sides
      )
      yield Claim(
        'controls (ours)',
        'paper',
        'synthetic',
        names.AVAILS[avail],
        text,
        'accuracy',
        ours,
        other,
        True,
        source=OURS,
      )


def _settled(values: pd.DataFrame) -> Iterator[Claim]:
  """Yields our own: is F3AST ahead once its rates have settled?"""
  for avail, variant, title in design.LONG_RUNS:
    for metric in ('accuracy', 'user_accuracy'):
      ours, other = (
        frames.by_seed(values, design.synthetic(method, avail, variant), metric)
        for method in ('f3ast', 'fedavg')
      )
      yield Claim(
        'controls (ours)',
        'paper',
        'synthetic',
        f'{title}, {design.SETTLED_ROUNDS} rounds',
        _text('f3ast', 'fedavg', True),
        metric,
        ours,
        other,
        True,
        source=OURS,
      )


def claims(values: pd.DataFrame, paper: pd.DataFrame) -> list[Claim]:
  """Returns all claims, run or not.

  Args:
    values: From `frames.values`.
    paper: The paper's numbers, as `experiments.paper.paper_numbers` has them.

  Returns:
    The claims.
  """
  return [
    *_main_grid(values, paper),
    *_heterogeneity(values, paper),
    *_k_sweep(values),
    *_steadiness(values),
    *_controls(values),
    *_settled(values),
  ]
