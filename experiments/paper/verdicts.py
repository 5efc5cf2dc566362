"""A claim, the differences by seed that decide it, and the verdict.

A claim holds where a paired t-test finds the difference and its sign is the
claim's, after a correction for how many tests there are; next to the test
stands in how many seeds the sign is the claim's, with the exact sign test,
which assumes no distribution.
"""

from collections.abc import Iterable, Sequence
import math
from typing import NamedTuple, Optional

import numpy as np
import pandas as pd
from scipy import stats

from experiments.grid import pairs
from experiments.paper import design
from f3ast_tff import wording

# The share of false ones among all that are decided.
LEVEL = 0.05

NOT_RUN = 'not run'
HOLDS = 'holds'
FAILS = 'does not hold'
UNDECIDED = 'undecided'

# Where a claim is from.
PAPER = 'the paper prints, draws or says it'
CARRIED_OVER = "the paper's claim, where it does not show it"
OTHER_DRAW = 'the same, next to baselines drawn with replacement'
OURS = 'our controls'
SOURCES = (PAPER, CARRIED_OVER, OTHER_DRAW, OURS)


class Paired(NamedTuple):
  """Statistics of differences, one per seed; positive is as claimed.

  Attributes:
    seeds: How many there are.
    mean: Their mean.
    p: Of the two-sided paired t-test; NaN for fewer than two.
    wins: How many are positive.
    sign_p: Of the exact two-sided sign test, without the zeros.
    corrected: p, corrected for the number of tests.
  """

  seeds: int
  mean: float
  p: float
  wins: int
  sign_p: float
  corrected: float

  @property
  def decision(self) -> str:
    """`holds`, `does not hold`, `undecided` or `not run`."""
    if self.seeds == 0:
      return NOT_RUN
    if self.is_decided:
      return HOLDS if self.mean > 0 else FAILS
    return UNDECIDED

  @property
  def is_decided(self) -> bool:
    """Whether the difference survives the correction."""
    return self.corrected < LEVEL  # NaN for one seed, or if a run diverged.

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
    return f'{UNDECIDED} ({seeds}, p = {self.corrected:.2g})'


def paired(
  differences: Sequence[float], corrected: Optional[float] = None
) -> Paired:
  """Returns the statistics of differences that were taken within seeds.

  Args:
    differences: One per seed.
    corrected: Their corrected p; p itself if there is no other test.
  """
  d = np.asarray(differences, float)
  wins, losses = int((d > 0).sum()), int((d < 0).sum())
  sign_p = 1.0
  if wins + losses:
    sign_p = stats.binomtest(wins, wins + losses).pvalue
  mean, p = float(d.mean()) if d.size else math.nan, pairs.t_test(differences)
  return Paired(
    d.size, mean, p, wins, float(sign_p), p if corrected is None else corrected
  )


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
    corrected: p, corrected for the number of tests; None if there are no
      others.
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
  corrected: Optional[float] = None

  @property
  def found(self) -> Paired:
    """The statistics of the differences, positive where it is right."""
    differences = self.differences if self.says_above else -self.differences
    return paired(differences, self.corrected)


def corrected(claims: Iterable[Claim]) -> list[Claim]:
  """Returns claims with p corrected for all of them (Benjamini, Hochberg)."""
  claims = list(claims)
  p_values = pairs.adjusted([claim.found.p for claim in claims])
  return [
    claim._replace(corrected=float(p)) for claim, p in zip(claims, p_values)
  ]


def text(ours: str, other: str, is_above: bool = True) -> str:
  """Returns the claim that a method is better than another."""
  word = 'above' if is_above else 'below'
  return f'{design.TITLES[ours]} {word} {design.TITLES[other]}'
