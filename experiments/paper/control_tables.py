"""Tables of what the paper does not show: controls, and its released code."""

from collections.abc import Iterator
import math

import pandas as pd

from experiments.paper import design
from experiments.paper import frames
from experiments.paper import names
from experiments.paper import paper_tables
from experiments.paper import results
from experiments.paper import tables
from f3ast_tff.runs import run_tables

# Of long runs: where the paper's end, and on the way from there.
_ENDS = (500, 1000, 2000, 3000, 4000, design.SETTLED_ROUNDS)


def _departures(values: pd.DataFrame) -> tables.Table:
  """Returns what each departure of the released code contributes."""
  few = values[values['seed'].isin(list(design.FEW_SEEDS))]
  concerned = {
    'paper': tuple(names.METHODS),
    **design.CONCERNED,
    'released': tuple(names.METHODS),
  }
  rows = []
  for protocol, methods in concerned.items():
    # A method that a departure does not concern stays as in the paper.
    keys = {
      method: design.synthetic(
        method,
        design.PROTOCOL_AVAIL,
        design.variant('protocol', protocol) if method in methods else '',
      )
      for method in names.METHODS
    }
    row: list[tables.Entry] = [protocol]
    for method, key in keys.items():
      baseline = design.synthetic(method, design.PROTOCOL_AVAIL)
      if method not in methods:
        row.append(tables.Measured(math.nan, seeds=0, absent='as in the paper'))
      else:
        other = baseline if key != baseline else None
        row.append(paper_tables.entry(few, key, 'accuracy', other))
    row += [
      paper_tables.difference(few, keys[ours], keys[other], 'accuracy')
      for ours, other in names.PAIRS
    ]
    row.append(paper_tables.entry(few, keys['f3ast'], 'sum_of_weights'))
    rows.append(row)
  return tables.Table(
    'departures',
    'What each departure of the released code contributes: test accuracy on '
    'Synthetic(1,1) under Smartphones',
    f'{paper_tables.HOW}; in parentheses the change from the first row. "As in '
    'the paper": the departure does not concern the method. Differences are '
    'paired by seed.',
    [
      'protocol',
      *names.METHODS.values(),
      'F3AST - FedAvg',
      'F3AST+Adam - FedAdam',
      'sum of weights, F3AST',
    ],
    rows,
  )


def _released(values: pd.DataFrame) -> tables.Table:
  variant = design.variant('protocol', 'released')
  rows = []
  for metric in ('accuracy', 'loss'):
    for method, name in names.METHODS.items():
      row: list[tables.Entry] = [names.METRICS[metric], name]
      for avail in names.AVAILS:
        for v in ('', variant):
          baseline = paper_tables.BASELINES.get(method)
          row.append(
            paper_tables.entry(
              values,
              design.synthetic(method, avail, v),
              metric,
              design.synthetic(baseline, avail, v) if baseline else None,
              seeds=[0],
            )
          )
      rows.append(row)
  return tables.Table(
    'released',
    "Synthetic(1,1) by the paper and by the authors' released code",
    'Our runs in both columns, seed 0: the mean over the last 100 rounds [1]'
    + paper_tables.GAIN,
    [
      'metric',
      'method',
      *["the paper's rules", "the released code's"] * len(names.AVAILS),
    ],
    rows,
    ['', '', *(n for n in names.AVAILS.values() for _ in range(2))],
    label=1,
  )


def _control_rows(
  values: pd.DataFrame, avail: str
) -> Iterator[list[tables.Entry]]:
  reference = design.synthetic('f3ast', avail)
  keys = {
    **{
      f'F3AST, r(0) = {text}': design.synthetic(
        'f3ast', avail, design.variant('rate_init', rate_init)
      )
      for rate_init, text in (('kp', 'Kp'), ('p', 'p'), ('uniform', 'K/N'))
    },
    f'F3AST, beta = {design.FASTER_BETA:g}': design.synthetic(
      'f3ast', avail, design.variant('beta', design.FASTER_BETA)
    ),
    **{
      f'{names.METHODS[method]}{text}': design.synthetic(method, avail, variant)
      for method in design.MATCHED_METHODS
      for variant, text in (('', ''), (design.MATCHED, ', matched server rate'))
    },
    'FedAvg, server rate matched to r(0) = p': design.synthetic(
      'fedavg', avail, design.MATCHED_TO_P
    ),
  }
  for text, key in keys.items():
    step = frames.by_seed(values, key, 'mean_sum_of_weights')
    step = step * frames.by_seed(values, key, 'server_learning_rate')
    difference = (
      tables.Measured(math.nan, seeds=0, absent='–')
      if key == reference
      else paper_tables.difference(values, reference, key, 'accuracy')
    )
    yield [
      names.AVAILS[avail],
      text,
      paper_tables.entry(values, key, 'accuracy'),
      paper_tables.entry(values, key, 'loss'),
      paper_tables.entry(values, key, 'user_accuracy'),
      tables.measured(step, key.group),
      difference,
    ]


def _controls(values: pd.DataFrame) -> tables.Table:
  return tables.Table(
    'controls',
    'Controls on Synthetic(1,1): r(0), beta, and baselines with the server '
    "learning rate at F3AST's sum of weights",
    f'{paper_tables.HOW}; the step is the server learning rate times the sum '
    'of weights, a mean over all rounds. An advantage that a matched baseline '
    "shares is not the selection rule's. Differences are paired by seed.",
    [
      'availability',
      'method',
      'test accuracy',
      'test loss',
      'user accuracy',
      'step',
      'F3AST with Kp - this, accuracy',
    ],
    [
      row
      for avail in design.CONTROL_AVAILS
      for row in _control_rows(values, avail)
    ],
    label=1,
  )


def _up_to(
  curves: pd.DataFrame, key: results.Key, metric: str, end: int
) -> pd.Series:
  """Returns by seed the mean over the rounds up to one amid the runs."""
  is_it = (curves['round'] <= end) & (
    curves['round'] > end - run_tables.LAST_ROUNDS
  )
  for field in ('preset', 'dataset', 'avail', 'method', 'variant'):
    is_it &= curves[field] == getattr(key, field)
  by_seed = curves[is_it].groupby('seed')[metric]
  # NaN, which is told, if a run diverged.
  return by_seed.agg(lambda column: column.mean(skipna=False))


def _settled(curves: pd.DataFrame) -> tables.Table:
  """Returns F3AST beside FedAvg before and after its rates have settled."""
  rows: list[list[tables.Entry]] = []
  for avail, variant, title in design.LONG_RUNS:
    fedavg, f3ast = (
      design.synthetic(method, avail, variant)
      for method in design.SETTLED_METHODS
    )
    for end in _ENDS:
      theirs, ours = (
        _up_to(curves, key, 'accuracy', end) for key in (fedavg, f3ast)
      )
      rows.append([
        title,
        str(end),
        tables.measured(theirs, fedavg.group),
        tables.measured(ours, f3ast.group),
        tables.measured(frames.paired_differences(ours, theirs), signed=True),
        *(
          tables.measured(_up_to(curves, f3ast, metric, end), f3ast.group)
          for metric in ('loss', 'user_accuracy')
        ),
      ])
  return tables.Table(
    'settled',
    'Synthetic(1,1) before and after the rates have settled',
    f'Means over {run_tables.LAST_ROUNDS} rounds up to the one that is named, '
    '± standard deviation over seeds [number of seeds], of runs of '
    f'{design.SETTLED_ROUNDS} rounds. Differences are paired by seed. With '
    "beta = .001 rates take about 3,000 rounds to settle; the paper's runs "
    'have 500.',
    [
      'availability',
      'round',
      'test accuracy, FedAvg',
      'test accuracy, F3AST',
      'F3AST - FedAvg',
      'test loss, F3AST',
      'user accuracy, F3AST',
    ],
    rows,
    label=1,
  )


def build(values: pd.DataFrame, curves: pd.DataFrame) -> list[tables.Table]:
  """Returns the tables; there is 'not run' where there is nothing.

  Args:
    values: From `frames.values`.
    curves: From `frames.curves`.

  Returns:
    The tables.
  """
  return [
    _settled(curves),
    _controls(values),
    _departures(values),
    _released(values),
  ]
