"""Tables of options: E local steps, F3AST, safe, and a step that decays.

Differences and p are those of the claims, so that all are corrected together.
"""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from experiments.paper import control_claims
from experiments.paper import design
from experiments.paper import paper_tables
from experiments.paper import tables
from experiments.paper import verdict_tables
from experiments.paper import verdicts

_Claims = Mapping[tuple[str, str, str], verdicts.Claim]


def _title(ours: str, other: str) -> str:
  return f'{design.TITLES[ours]} - {design.TITLES[other]}'


def _local_steps(values: pd.DataFrame, claims: _Claims) -> Iterator[tables.Row]:
  """Yields E steps next to one epoch, and the change."""
  steps = design.variant('local_steps', design.LOCAL_STEPS)
  work = {
    'one epoch': ('', 'tables'),
    f'{design.LOCAL_STEPS} steps': (steps, control_claims.LOCAL_STEPS),
  }
  for avail, name in design.AVAILS.items():
    for text, (variant, topic) in work.items():
      yield {
        'availability': name,
        'local work': text,
        **{
          design.TITLES[method]: paper_tables.entry(
            values, design.synthetic(method, avail, variant), 'accuracy'
          )
          for method in design.LOCAL_STEPS_METHODS
        },
        **{
          _title('f3ast', other): verdict_tables.difference(
            claims[topic, name, verdicts.text('f3ast', other)]
          )
          for other in control_claims.FEDAVGS
        },
      }
    yield {
      'availability': name,
      'local work': 'change',
      **{
        design.TITLES[method]: paper_tables.difference(
          values,
          design.synthetic(method, avail, steps),
          design.synthetic(method, avail),
          'accuracy',
        )
        for method in design.LOCAL_STEPS_METHODS
      },
      **{
        _title('f3ast', other): tables.Measured(absent='–')
        for other in control_claims.FEDAVGS
      },
    }


def _safe(values: pd.DataFrame, claims: _Claims) -> Iterator[tables.Row]:
  """Yields F3AST, safe, next to F3AST and both FedAvgs."""
  for rounds, variant in control_claims.SAFE_VARIANTS.items():
    for avail, name in design.AVAILS.items():
      row: dict[str, tables.Entry] = {
        'rounds': f'{rounds} rounds',
        'availability': name,
        **{
          f'test accuracy: {design.TITLES[method]}': paper_tables.entry(
            values, design.synthetic(method, avail, variant), 'accuracy'
          )
          for method in (design.SAFE, *control_claims.SAFE_BASELINES)
        },
      }
      for other in control_claims.SAFE_BASELINES:
        where = control_claims.safe_where(name, rounds)
        text = verdicts.text(design.SAFE, other)
        claim = claims[control_claims.SAFE, where, text]
        over = f'safe minus {design.TITLES[other]}'
        row[f'{over}: difference'] = verdict_tables.difference(claim)
        row[f'{over}: p'] = verdict_tables.p_text(claim.found.p)
        row[f'{over}: corrected'] = verdict_tables.p_text(claim.found.corrected)
      yield row


def _decay(values: pd.DataFrame, claims: _Claims) -> Iterator[tables.Row]:
  """Yields F3AST and FedAvg, each with and without the decay of the step."""
  for avail, name in design.AVAILS.items():
    if avail not in design.DECAY_AVAILS:
      continue
    for way, title in control_claims.DECAY_TITLES.items():
      key = control_claims.decay_key(avail, way)
      row: dict[str, tables.Entry] = {
        'availability': name,
        'method': title,
        'test accuracy': paper_tables.entry(values, key, 'accuracy'),
      }
      for other in (('fedavg', ''), ('fedavg', design.FOLLOWING_RELEASED)):
        topic = control_claims.DECAY
        text = control_claims.decay_text(way, other)
        if (way, other) == (('f3ast', ''), ('fedavg', '')):
          topic = 'tables'  # Of the main grid.
        claim = claims.get((topic, name, text))
        over = f'minus {control_claims.DECAY_TITLES[other]}'
        row[f'{over}: difference'] = (
          tables.Measured(absent='–')
          if claim is None
          else verdict_tables.difference(claim)
        )
        row[f'{over}: p'] = (
          '' if claim is None else verdict_tables.p_text(claim.found.p)
        )
      yield row


def build(
  values: pd.DataFrame, claims: Sequence[verdicts.Claim]
) -> list[tables.Table]:
  """Returns the tables; there is 'not run' where there is nothing."""
  of, on_cifar = (
    {
      (claim.topic, claim.where, claim.text): claim
      for claim in claims
      if (claim.preset, claim.dataset, claim.metric) == (*place, 'accuracy')
    }
    for place in (('paper', 'synthetic'), ('compact', 'cifar100'))
  )
  how = f'{paper_tables.HOW}. Differences are paired by seed.'
  return [
    tables.table(
      'local-steps',
      f'E = {design.LOCAL_STEPS} local steps a client next to one epoch: test '
      'accuracy on Synthetic(1,1)',
      f'{how} {verdict_tables.MARKED} Changes from one epoch are no tests.',
      _local_steps(values, of),
      'local work',
    ),
    tables.table(
      'safe',
      'F3AST, safe (rates annealed, sum of weights at most 1): test accuracy '
      'on Synthetic(1,1)',
      f'{how} p of the paired t-test, and corrected for all tests of this '
      f'page. {verdict_tables.MARKED}',
      _safe(values, of),
      'availability',
    ),
    tables.table(
      'decay',
      'CIFAR-100, compact models: F3AST and a step that decays',
      "Test accuracy in the last test. The released code's weights sum to "
      'less from round to round, which acts as a server learning rate that '
      'decays; the second FedAvg has that sum as its rate, round by round, and '
      'is otherwise the first. p of the paired t-test, uncorrected. '
      f'{verdict_tables.MARKED}',
      _decay(values, on_cifar),
      'method',
    ),
  ]
