"""The paper's claims, each with the differences of our runs that decide it.

The paper does not say how FedAvg and FedAdam draw clients: its claims about
them are tested next to both ways to draw, and counted once.
"""

from collections.abc import Iterator
import itertools

import pandas as pd

from experiments.grid import pairs
from experiments.paper import control_claims
from experiments.paper import design
from experiments.paper import frames
from experiments.paper import paper_numbers
from experiments.paper import verdicts

ALL_AVAILS = 'mean of the five'
_OTHER_DRAW = '_with_replacement'
_NUM_CANDIDATES = 30  # Of Power-of-Choice.
_PLACES = [
  (preset, dataset)
  for preset, datasets in design.PRESETS.items()
  for dataset in datasets
]


def is_repeated(dataset: str, avail: str) -> bool:
  """Whether a comparison is one with another column: Uneven is Always there."""
  return (dataset, avail) == ('cifar100', 'uneven')


def _source(method: str, is_shown: bool = True) -> str:
  """Returns where a claim about a baseline is from."""
  if method.endswith(_OTHER_DRAW):
    return verdicts.OTHER_DRAW
  return verdicts.PAPER if is_shown else verdicts.CARRIED_OVER


def _is_drawn(
  dataset: str, avail: str, metric: str, pair: tuple[str, str]
) -> bool:
  """Whether a figure, or a table of another kind, shows a pair on Synthetic."""
  if dataset != 'synthetic' or pair[0] != 'f3ast':
    return False
  return avail == 'home_devices' and metric in ('accuracy', 'loss')


def _printed(paper: pd.DataFrame) -> dict[tuple[str, ...], float]:
  """Returns the paper's numbers by metric, dataset, method, availability."""
  of_alphas = paper_numbers.of_heterogeneity(paper)
  return paper_numbers.of_grid(paper) | {
    ('accuracy', 'synthetic', method, design.ALPHA_AVAIL): value
    for (method, alpha), value in of_alphas.items()
    if not design.variant('alpha', alpha)
  }


def _main_grid(
  values: pd.DataFrame, paper: pd.DataFrame
) -> Iterator[verdicts.Claim]:
  """Yields the claims of the four large tables, a claim per column."""
  printed = _printed(paper)
  for (preset, dataset), metric, pair in itertools.product(
    _PLACES,
    ('accuracy', 'loss', 'user_accuracy', 'user_loss'),
    design.COMPARISONS,
  ):
    # On CIFAR-100 users hold equally much, so both averages are one.
    if metric.startswith('user') and dataset == 'cifar100':
      continue
    above = design.is_higher_better(metric)
    place = 'tables', preset, dataset
    claimed = verdicts.text(*pair, above)
    of_avails = []
    for avail, name in design.AVAILS.items():
      of_pair = [
        frames.by_seed(
          values, design.Key(preset, dataset, avail, method), metric
        )
        for method in pair
      ]
      of_avails.append(of_pair)
      if is_repeated(dataset, avail):
        continue
      # Whatever way to draw the paper's own is.
      a, b = (
        printed.get((metric, dataset, method.removesuffix(_OTHER_DRAW), avail))
        for method in pair
      )
      gap = None if a is None or b is None else a - b
      is_shown = (
        _is_drawn(dataset, avail, metric, pair)
        if gap is None
        else gap != 0 and (gap > 0) == above
      )
      yield verdicts.Claim(
        *place,
        name,
        claimed,
        metric,
        pairs.differences(*of_pair),
        above,
        gap,
        _source(pair[1], is_shown),
      )
    # The seeds that all five have. A run that diverged is there, and makes the
    # mean NaN.
    means = (
      pd.concat(five, axis=1, join='inner').mean(axis=1, skipna=False)
      for five in zip(*of_avails)
    )
    yield verdicts.Claim(
      *place,
      ALL_AVAILS,
      claimed,
      metric,
      pairs.differences(*means),
      above,
      source=_source(pair[1], is_shown=False),
    )


def _steadiness(values: pd.DataFrame) -> Iterator[verdicts.Claim]:
  """Yields what the captions of the curves say under Home-devices."""
  metric = 'unsteadiness'
  for place, other in itertools.product(_PLACES, control_claims.BASELINES):
    ours, theirs = (
      design.Key(*place, 'home_devices', method) for method in ('f3ast', other)
    )
    yield verdicts.Claim(
      'curves',
      *place,
      'Home-devices',
      f'F3AST is steadier from test to test than {design.TITLES[other]}',
      metric,
      # Where there are too few tests, nothing is told.
      frames.difference(values, ours, theirs, metric).dropna(),
      says_above=False,
      source=_source(other),
    )


def _heterogeneity(
  values: pd.DataFrame, paper: pd.DataFrame
) -> Iterator[verdicts.Claim]:
  printed = paper_numbers.of_heterogeneity(paper)
  for alpha, other in itertools.product(
    design.ALPHAS, ('fedavg', 'fedavg_with_replacement')
  ):
    variant = design.variant('alpha', alpha)
    if variant:  # The others are in the main grid, and counted there.
      yield control_claims.on_synthetic(
        values,
        'heterogeneity',
        f'Smartphones, alpha = {alpha:g}',
        ('f3ast', other),
        (design.ALPHA_AVAIL, variant),
        source=_source(other),
      )._replace(paper=printed['f3ast', alpha] - printed['fedavg', alpha])


def _k_sweep(values: pd.DataFrame) -> Iterator[verdicts.Claim]:
  topic = 'number of clients'
  small, large = min(design.KS), max(design.KS)
  for other in control_claims.BASELINES:
    gaps = {}
    for k in design.KS:
      variant = design.variant('clients_per_round', str(k))
      claim = control_claims.on_synthetic(
        values,
        topic,
        f'Home-devices, K = {k}',
        ('f3ast', other),
        (design.K_AVAIL, variant),
        source=_source(other),
      )
      gaps[k] = claim.differences
      # K = 10 is in the main grid. With as many clients as candidates
      # Power-of-Choice is FedAvg.
      if variant and (other, k) != ('power_of_choice', _NUM_CANDIDATES):
        yield claim
    yield verdicts.Claim(
      topic,
      'paper',
      'synthetic',
      f'Home-devices, K = {large} against {small}',
      f'the gap between F3AST and {design.TITLES[other]} widens with K',
      'accuracy',
      pairs.differences(gaps[large], gaps[small]),
      source=_source(other),
    )


def claims(
  values: pd.DataFrame, curves: pd.DataFrame, paper: pd.DataFrame
) -> list[verdicts.Claim]:
  """Returns all claims, run or not, with p corrected for all of them.

  Args:
    values: From `frames.values`.
    curves: From `frames.curves`, of the same results.
    paper: From `paper_numbers.load`.
  """
  return verdicts.corrected([
    *_main_grid(values, paper),
    *_heterogeneity(values, paper),
    *_k_sweep(values),
    *_steadiness(values),
    *control_claims.claims(values, curves),
  ])
