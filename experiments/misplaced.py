"""How far the weights of a run are from the shares of the data.

For example: python -m experiments.misplaced --rounds=500,3000

The objective weights clients by p, their shares of the data. Here the rounds of
FedAvg with either draw and of F3AST are simulated without training, at which
none of them looks. What is counted is the share of all weights that each client
got. Half the sum of |share - p| is the part of the weight that went to the
wrong clients: 0 if the model is pulled nowhere, 1 at worst. The largest weight
of a round is reported, too: one far above 1 throws the model off. The data are
those of Synthetic(1,1).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from absl import app
from absl import flags
import numpy as np
import tqdm

from experiments import cli
from experiments import theory
from f3ast_tff import availability
from f3ast_tff import methods
from f3ast_tff import selector as selector_lib
from f3ast_tff import wording
from f3ast_tff.datasets import synthetic

# The policies by the methods that have them.
_POLICIES = {
  'FedAvg': 'proportional',
  'FedAvg with replacement': 'proportional_with_replacement',
  'F3AST': 'f3ast',
}


class Weights(NamedTuple):
  """The weights of the rounds up to one.

  Attributes:
    shares: Each client's share of all weights, of sum 1; 0 for all while nobody
      has taken part.
    largest: The largest weight that a client had in a round.
  """

  shares: np.ndarray
  largest: float


def weights_up_to(
  selector: selector_lib.Selector, horizons: Sequence[int]
) -> Iterator[Weights]:
  """Yields the weights up to each of some rounds, which are in order."""
  total = np.zeros(selector.p.size)
  largest = 0.0
  for step in selector.simulate(horizons[-1]):
    clients, weights = step.cohort
    total[clients] += weights
    largest = max(largest, weights.max(initial=0.0))
    if step.round_num in horizons:
      yield Weights(total / (total.sum() or 1.0), largest)


def misplaced(share: np.ndarray, p: np.ndarray) -> float:
  """Returns the part of the weight that wrong clients have: |share - p| / 2."""
  return float(np.abs(share - p).sum() / 2)


def rows_of_seed(
  seed: int, avails: Sequence[str], horizons: Sequence[int]
) -> Iterator[theory.Row]:
  """Yields a row for each model, method and number of rounds."""
  p = synthetic.load(seed=seed).p
  largest = int(p.argmax())
  for avail in avails:
    for method, policy in _POLICIES.items():
      selector = methods.build_selector(p, avail, 10, policy=policy, seed=seed)
      for rounds, found in zip(horizons, weights_up_to(selector, horizons)):
        yield {
          'avail': avail,
          'method': method,
          'rounds': rounds,
          'seed': seed,
          'misplaced': misplaced(found.shares, p),
          'largest_weight': found.largest,
          'largest_p': float(p[largest]),
          'its_share': float(found.shares[largest]),
        }


def define_flags() -> None:
  """Defines the flags: here, so that importing the module defines none."""
  flags.DEFINE_list(
    'avail', list(availability.PAPER), 'The availability models.'
  )
  flags.DEFINE_list(
    'rounds', ['500', '1000', '3000', '5000'], 'Report after so many rounds.'
  )
  flags.DEFINE_integer('seeds', 5, 'How many seeds, from 0.', lower_bound=1)


def main(argv: Sequence[str]) -> None:
  """Simulates all models and seeds, writes the table and prints its means."""
  del argv
  given = flags.FLAGS
  with cli.one_sentence(ValueError, 2):
    if not given.avail or set(given.avail) - set(availability.PAPER):
      raise ValueError(
        f'avail must name some of {", ".join(availability.PAPER)}, but it is '
        f'{",".join(given.avail)!r}.'
      )
    is_number = [n.isdecimal() and int(n) > 0 for n in given.rounds]
    if not given.rounds or not all(is_number):
      raise ValueError(
        'rounds must be whole numbers >= 1 with commas between, but it is '
        f'{",".join(given.rounds)!r}.'
      )
    horizons = sorted(set(map(int, given.rounds)))
    folder = theory.output_dir('runs/theory')
  rows = [
    row
    for seed in tqdm.trange(given.seeds, disable=None, unit='seed')
    for row in rows_of_seed(seed, given.avail, horizons)
  ]
  theory.write_csv(folder / 'misplaced.csv', rows)
  import pandas as pd  # Slow to import.

  by = pd.DataFrame(rows).groupby(['rounds', 'method', 'avail'], sort=False)
  for title, table in (
    (
      f'Misplaced weight, mean of {wording.count(given.seeds, "seed")}',
      by['misplaced'].mean(),
    ),
    ('Largest weight in all seeds', by['largest_weight'].max()),
  ):
    print(f'{title}:')
    print(
      theory.markdown([
        {'rounds': rounds, 'method': method, **by_avail.to_dict()}
        for (rounds, method), by_avail in table.unstack().iterrows()
      ])
    )
  print(f'All in {folder / "misplaced.csv"}')


if __name__ == '__main__':
  define_flags()
  app.run(main, flags_parser=cli.parse_flags)
