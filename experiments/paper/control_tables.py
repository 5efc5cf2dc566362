"""Tables of what the paper does not show: controls, and its released code."""

from collections.abc import Iterator
import itertools

import pandas as pd

from experiments.grid import metrics as metrics_lib
from experiments.paper import design
from experiments.paper import frames
from experiments.paper import local_work
from experiments.paper import paper_tables
from experiments.paper import tables
from f3ast_tff.runs import run_tables

# Of long runs: where the paper's end, and on the way from there.
_ENDS = (500, 1000, 2000, 3000, 4000, design.SETTLED_ROUNDS)
_FROM_KP = f'{design.SETTLED}-{design.KP}'
_LONG_RUNS = (
  *design.LONG_RUNS,
  ('smartphones', _FROM_KP, 'Smartphones, F3AST from r(0) = K p as at first'),
)
_SETTLED_PAIRS = (
  ('f3ast', 'fedavg'),
  ('f3ast', 'fedavg_with_replacement'),
  *((design.SAFE, other) for other in design.SETTLED_METHODS[:-1]),
)


def _departures(values: pd.DataFrame) -> Iterator[tables.Row]:
  """Yields what each departure of the released code contributes."""
  # The seeds that all of them have.
  few = values[values['seed'].isin(list(design.FEW_SEEDS))]
  every = design.OF_RELEASED_CODE
  concerned = {'paper': every, **design.CONCERNED, 'released': every}
  for protocol, methods in concerned.items():
    row: dict[str, tables.Entry] = {'protocol': protocol}
    keys = {}
    for method in every:
      name = design.TITLES[method]
      key = baseline = design.synthetic(method, design.PROTOCOL_AVAIL)
      # A method that a departure does not concern stays as in the paper.
      row[name] = tables.Measured(absent='as in the paper')
      if method in methods:
        variant = design.variant('protocol', protocol)
        key = design.synthetic(method, design.PROTOCOL_AVAIL, variant)
        row[name] = paper_tables.entry(
          few, key, 'accuracy', baseline if key != baseline else None
        )
      keys[method] = key
    for ours, other in design.PAIRS:
      title = f'{design.TITLES[ours]} - {design.TITLES[other]}'
      row[title] = paper_tables.difference(
        few, keys[ours], keys[other], 'accuracy'
      )
    sums = paper_tables.entry(few, keys['f3ast'], 'sum_of_weights')
    yield {**row, 'sum of weights, F3AST': sums}


def _released(values: pd.DataFrame) -> Iterator[tables.Row]:
  """Yields the paper's rules next to those of the released code."""
  variants = {
    "the paper's rules": '',
    "the released code's": design.variant('protocol', 'released'),
  }
  # The released baselines draw with replacement as they are.
  absent = tables.Measured(absent='–')
  for metric, method in itertools.product(('accuracy', 'loss'), design.METHODS):
    baseline = paper_tables.BASELINES.get(method)
    yield {
      'metric': metrics_lib.METRICS[metric],
      'method': design.TITLES[method],
      **{
        f'{name}: {whose}': (
          paper_tables.entry(
            values,
            design.synthetic(method, avail, variant),
            metric,
            design.synthetic(baseline, avail, variant) if baseline else None,
          )
          if not variant or method in design.OF_RELEASED_CODE
          else absent
        )
        for avail, name in design.AVAILS.items()
        for whose, variant in variants.items()
      },
    }


def _controls(values: pd.DataFrame) -> Iterator[tables.Row]:
  """Yields r(0), beta, and baselines with F3AST's sum of weights."""
  variants = {
    **{
      f'F3AST, r(0) = {text}': ('f3ast', design.variant('rate_init', value))
      for value, text in design.RATE_INITS.items()
    },
    f'F3AST, beta = {design.FASTER_BETA:g}': (
      'f3ast', design.variant('beta', design.FASTER_BETA)
    ),
    **{
      f'{design.TITLES[method]}{text}': (method, variant)
      for method in design.MATCHED_METHODS
      for variant, text in (('', ''), (design.MATCHED, ', matched server rate'))
    },
    'FedAvg, server rate matched to r(0) = p': ('fedavg', design.MATCHED_TO_P),
    design.TITLES['fedavg_with_replacement']: ('fedavg_with_replacement', ''),
    **{
      f"{design.TITLES[method]}, F3AST's step in each round": (
        method, design.FOLLOWING
      )
      for method in design.FOLLOWING_METHODS
    },
  }
  for avail, (text, (method, variant)) in itertools.product(
    design.CONTROL_AVAILS, variants.items()
  ):
    key = design.synthetic(method, avail, variant)
    reference = design.synthetic('f3ast', avail)
    ran = frames.by_seed(values, key, 'accuracy').index
    # Who follows F3AST has its steps.
    steps = reference if variant == design.FOLLOWING else key
    step = frames.by_seed(values, steps, 'mean_sum_of_weights')
    step = step * frames.by_seed(values, steps, 'server_learning_rate')
    yield {
      'availability': design.AVAILS[avail],
      'method': text,
      **{
        metrics_lib.METRICS[metric]: paper_tables.entry(values, key, metric)
        for metric in ('accuracy', 'loss', 'user_accuracy')
      },
      'step': tables.measured(step[step.index.isin(ran)], key.group),
      'F3AST with Kp - this, accuracy': (
        tables.Measured(absent='–')
        if key == reference
        else paper_tables.difference(values, reference, key, 'accuracy')
      ),
    }


def _settled(curves: pd.DataFrame) -> Iterator[tables.Row]:
  """Yields F3AST next to FedAvg before and after its rates have settled."""
  metrics = ('accuracy', 'loss', 'user_accuracy')
  for (avail, variant, title), end in itertools.product(_LONG_RUNS, _ENDS):
    rounds = curves['round']
    # As if the runs had ended there.
    late = curves[(rounds <= end) & (rounds > end - run_tables.LAST_ROUNDS)]
    means = late.groupby(['group', 'seed'], as_index=False).agg({
      # NaN, which is told, if a run diverged.
      metric: lambda column: column.mean(skipna=False)
      for metric in metrics
    })
    keys = {
      method: design.synthetic(
        method,
        avail,
        design.SETTLED
        if variant == _FROM_KP and method != 'f3ast'
        else variant,
      )
      for method in design.SETTLED_METHODS
    }
    yield {
      'availability': title,
      'round': str(end),
      **{
        f'test accuracy: {design.TITLES[method]}': paper_tables.entry(
          means, key, 'accuracy'
        )
        for method, key in keys.items()
      },
      **{
        f'{design.TITLES[ours]} minus: {design.TITLES[other]}': (
          paper_tables.difference(means, keys[ours], keys[other], 'accuracy')
        )
        for ours, other in _SETTLED_PAIRS
      },
      **{
        f'F3AST: {metrics_lib.METRICS[metric]}': paper_tables.entry(
          means, keys['f3ast'], metric
        )
        for metric in metrics[1:]
      },
    }


def _local_work(curves: pd.DataFrame) -> Iterator[tables.Row]:
  """Yields the comparison of methods after equally many examples."""
  for preset, dataset, variant, avail, pair in itertools.product(
    design.PRESETS,
    local_work.DATASETS,
    ('', design.LONGER),
    design.AVAILS,
    design.COMPARISONS,
  ):
    keys = [
      design.Key(preset, dataset, avail, method, variant) for method in pair
    ]
    found = local_work.compare(curves, keys)
    if found.empty:
      continue
    yield {
      'dataset, models': f'{design.DATASETS[dataset]}, {preset}',
      'availability': design.AVAILS[avail],
      'methods': ' and '.join(design.TITLES[method] for method in pair),
      'rounds': f'{found["rounds"].max():.0f}',
      'examples a round: first': f'{found["ours_examples"].mean():.0f}',
      'examples a round: second': f'{found["other_examples"].mean():.0f}',
      'accuracy, equal rounds: difference': tables.measured(
        found['by_rounds'], signed=True
      ),
      'accuracy, equal examples: first': tables.measured(
        found['ours'], keys[0].group
      ),
      'accuracy, equal examples: second': tables.measured(
        found['other'], keys[1].group
      ),
      'accuracy, equal examples: difference': tables.measured(
        found['difference'], signed=True
      ),
    }


def build(values: pd.DataFrame, curves: pd.DataFrame) -> list[tables.Table]:
  """Returns the tables; there is 'not run' where there is nothing."""
  return [
    tables.table(
      'settled',
      'Synthetic(1,1) before and after the rates have settled',
      f'Means over {run_tables.LAST_ROUNDS} rounds up to the one that is '
      'named, ± standard deviation over seeds [number of seeds], of runs of '
      f'{design.SETTLED_ROUNDS} rounds. Differences are paired by seed. With '
      "beta = .001 rates take about 3,000 rounds to settle; the paper's runs "
      'have 500.',
      _settled(curves),
      'round',
    ),
    tables.table(
      'controls',
      'Controls on Synthetic(1,1): r(0), beta, and baselines with the server '
      "learning rate at F3AST's sum of weights",
      f'{paper_tables.HOW}; the step is the server learning rate times the sum '
      'of weights, a mean over all rounds. An advantage that a matched '
      "baseline shares is not the selection rule's. Differences are paired by "
      'seed.',
      _controls(values),
      'method',
    ),
    tables.table(
      'departures',
      'What each departure of the released code contributes: test accuracy on '
      'Synthetic(1,1) under Smartphones',
      f'{paper_tables.HOW}; in parentheses the change from the first row. "As '
      'in the paper": the departure does not concern the method. Differences '
      'are paired by seed.',
      _departures(values),
      'protocol',
    ),
    tables.table(
      'released',
      "Synthetic(1,1) by the paper and by the authors' released code",
      f'Our runs in both columns. {paper_tables.HOW}{paper_tables.GAIN} The '
      'released FedAvg and FedAdam draw with replacement.',
      _released(values),
      'method',
    ),
    tables.table(
      'local-work',
      'Test accuracy after equally many rounds and after equally many examples',
      'Equal rounds: after the last one. Equal examples: when both had trained '
      'on as many as the one that trained on fewer in all, on the line between '
      'the tests before and after; mean ± standard deviation over seeds '
      '[number of seeds]. Clients of CIFAR-100 hold equally much, so that '
      'there the two are one.',
      list(_local_work(curves)) or [{'methods': tables.Measured()}],
      'methods',
    ),
  ]
