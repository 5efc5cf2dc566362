"""Methods compared after equally many examples instead of rounds.

Clients of Shakespeare hold between 1 and 550 sequences. A method that draws
them by their data, as FedAvg does, has more of them trained on in a round than
one that takes all clients in turn. So methods are compared once more where they
have trained on equally many examples: is one ahead, or has it only trained on
more data?
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from experiments.paper import design

# Clients of CIFAR-100 hold 100 images each: rounds are equal work there.
DATASETS = tuple(name for name in design.DATASETS if name != 'cifar100')


def at_equal_work(ours: pd.DataFrame, other: pd.DataFrame) -> dict[str, float]:
  """Compares two runs at the end, and after equally many examples.

  Args:
    ours: The tests of a run in the order of rounds: `round`,
      `examples_trained`, the sum up to then, and `accuracy`.
    other: Those of another run.

  Returns:
    `ours` and `other`, the accuracies when both had trained on as many examples
    as the one that trained on fewer, between two tests on the line through
    them; the `difference` of these; `by_rounds`, the difference after the last
    round of both; the examples a round of each; and the last round.
  """
  ends = [run.iloc[-1] for run in (ours, other)]
  examples = min(end['examples_trained'] for end in ends)
  accuracies = [
    float(np.interp(examples, run['examples_trained'], run['accuracy']))
    for run in (ours, other)
  ]
  return {
    'ours': accuracies[0],
    'other': accuracies[1],
    'difference': accuracies[0] - accuracies[1],
    'by_rounds': ends[0]['accuracy'] - ends[1]['accuracy'],
    'ours_examples': ends[0]['examples_trained'] / ends[0]['round'],
    'other_examples': ends[1]['examples_trained'] / ends[1]['round'],
    'rounds': max(end['round'] for end in ends),
  }


def compare(curves: pd.DataFrame, keys: Sequence[design.Key]) -> pd.DataFrame:
  """Returns `at_equal_work` of two cells by seed; none where one is absent.

  Args:
    curves: From `frames.curves`.
    keys: Of ours and of the other.
  """
  known = curves[
    curves['group'].isin([key.group for key in keys])
    & curves['examples_trained'].notna()
  ]
  runs = dict(list(known.groupby(['group', 'seed'])))
  found = {
    seed: at_equal_work(*(runs[key.group, seed] for key in keys))
    for seed in sorted({seed for _, seed in runs})
    if all((key.group, seed) in runs for key in keys)
  }
  columns = list(next(iter(found.values()))) if found else ['difference']
  return pd.DataFrame(list(found.values()), list(found), columns, dtype=float)
