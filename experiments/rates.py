"""Does r(t) go to r*? F3AST's participation rates on their own, no training.

python -m experiments.rates --output_dir=rates

The theorem on rates says that r(t) comes as near to the best rates r* as one
likes if beta is small and t large. Here N clients have the shares p of
Synthetic(1,1), F3AST starts at the default r(0), and r* is exact, from
`optimal_rates`. Writes, for each availability model,

  rates.csv           the distance from r* over rounds, for each beta
  rates-summary.csv   its mean over the last half of the rounds
  variance-bound.csv  H of the long-term rates: the best, F3AST, naive policies

and the picture rates.png and rates.svg.
"""

from collections.abc import Sequence
import itertools
from typing import Any, NamedTuple

from absl import app
from absl import flags
import numpy as np
import tqdm

from experiments import cli
from experiments import theory
from f3ast_tff import methods
from f3ast_tff import rates
from f3ast_tff import selector as selector_lib
from f3ast_tff.datasets import synthetic
from f3ast_tff.theory import optimal_rates
from f3ast_tff.theory import population as population_lib

_ROWS_PER_DECADE = 15


class Course(NamedTuple):
  """What became of the rates.

  Attributes:
    distances: ||r(t) - r*|| after each round.
    selected: Per client, how often it took part in the last half.
    available: Per client, how often it was available then.
  """

  distances: np.ndarray
  selected: np.ndarray
  available: np.ndarray


def course_of(
  selector: selector_lib.Selector, num_rounds: int, best: np.ndarray
) -> Course:
  """Simulates rounds and follows the rates.

  Args:
    selector: Who takes part.
    num_rounds: How many rounds.
    best: r*.

  Returns:
    The course of the rates.
  """
  distances = np.empty(num_rounds)
  selected, available = np.zeros((2, selector.p.size))
  for step in selector.simulate(num_rounds):
    distances[step.round_num - 1] = np.linalg.norm(step.rates - best)
    if 2 * (step.round_num - 1) >= num_rounds:
      selected[step.cohort.clients] += 1
      available += step.available
  return Course(distances, selected, available)


def long_term_rates(setting: theory.Setting, course: Course) -> np.ndarray:
  """Returns the rates in the last half of a course.

  How often a client was available is luck, and known in the long run: so this
  is the share of its available rounds in which it took part, times its long-run
  availability.
  """
  population = population_lib.population_of(
    setting.availability, setting.constraint
  )
  presence = population.q * (population.factors @ population.shares)
  return presence * course.selected / np.maximum(1, course.available)


def thin(distances: np.ndarray) -> list[tuple[int, float]]:
  """Returns means over stretches of rounds that grow by the same ratio."""
  decades = np.log10(len(distances)) if len(distances) > 1 else 0
  edges = np.unique(
    np.round(np.logspace(0, decades, int(decades * _ROWS_PER_DECADE) + 2))
  ).astype(int)
  edges = np.append(edges[edges < len(distances)], len(distances))
  return [
    (int(last), float(distances[first:last].mean()))
    for first, last in zip(np.append(0, edges[:-1]), edges)
    if last > first
  ]


class Study(NamedTuple):
  """The rows of one availability model, for each of the three tables."""

  curves: list[theory.Row]
  summary: list[theory.Row]
  bounds: list[theory.Row]


def study(
  setting: theory.Setting,
  optimum: optimal_rates.Optimum,
  betas: Sequence[float],
  horizon: float,
  seed: int,
) -> Study:
  """Simulates F3AST with each beta, and the naive policies, in one system."""
  p, best = setting.p, optimum.rates
  norm = float(np.linalg.norm(best))
  lengths = [max(2, round(horizon / beta)) for beta in betas]
  # Drawn once for all: Markov chains are slow to look up round by round.
  recorded = theory.recorded(setting, max(lengths))

  def course(policy: str, beta: float, num_rounds: int) -> Course:
    selector = methods.build_selector(
      p,
      recorded,
      setting.constraint,
      policy=policy,
      beta=beta,
      correlation=setting.correlation,
      seed=seed,
    )
    return course_of(selector, num_rounds, best)

  rows = Study([], [], [])

  def bound(policy: str, h: float, gap: Any = '') -> None:
    rows.bounds.append({
      'avail': setting.name,
      'form_of_h': setting.correlation,
      'policy': policy,
      'h': h,
      'percent_above_best': 100 * (h / optimum.variance_bound - 1),
      'duality_gap': gap,
    })

  def h_of(course: Course) -> float:
    r = long_term_rates(setting, course)
    return rates.variance_bound(p, r, setting.correlation)

  bound('best', optimum.variance_bound, optimum.duality_gap)
  for beta, length in zip(betas, lengths):
    found = course('f3ast', beta, length)
    late = float(found.distances[length // 2 :].mean())
    mean = long_term_rates(setting, found)
    rows.curves.extend(
      {
        'avail': setting.name,
        'beta': beta,
        'round': t,
        'distance': distance,
        'relative': distance / norm,
      }
      for t, distance in thin(found.distances)
    )
    rows.summary.append({
      'avail': setting.name,
      'form_of_h': setting.correlation,
      'beta': beta,
      'rounds': length,
      'distance': late,
      'relative': late / norm,
      'relative_of_mean': float(np.linalg.norm(mean - best)) / norm,
    })
    bound(f'f3ast beta={beta:g}', h_of(found))
  for policy in ('proportional', 'uniform'):
    bound(policy, h_of(course(policy, min(betas), max(lengths))))
  return rows


def verdicts(summary: Sequence[theory.Row]) -> list[str]:
  """Returns a sentence per model: whether the distance falls with beta."""
  lines = []
  for name in dict.fromkeys(row['avail'] for row in summary):
    # From the largest beta to the smallest.
    relative = [row['relative'] for row in summary if row['avail'] == name]
    falls = all(after < before for before, after in zip(relative, relative[1:]))
    lines.append(
      f'{name}: the distance {"falls" if falls else "DOES NOT fall"} with each '
      f'smaller beta: {", ".join(f"{x:.4f}" for x in relative)}'
    )
  return lines


def define_flags() -> None:
  """Defines the flags: here, so that importing the module defines none."""
  theory.define_picture_dir()
  flags.DEFINE_list(
    'avail', list(theory.MODELS), 'The availability models.'
  )
  flags.DEFINE_string(
    'betas', '0.01,0.003,0.001,0.0003', 'The steps of the rates.'
  )
  flags.DEFINE_string(
    'clients_per_round', '10', 'The communication constraint K_t.'
  )
  flags.DEFINE_integer(
    'num_clients', 100, 'The number of clients N.', lower_bound=1
  )
  flags.DEFINE_float(
    'horizon', 10.0, 'Each beta goes for so many times 1 / beta rounds.'
  )
  flags.DEFINE_integer(
    'seed', 0, 'Decides everything that is random.', lower_bound=0
  )


def main(argv: Sequence[str]) -> None:
  """Simulates all models and betas, and writes tables and picture."""
  del argv
  given = flags.FLAGS
  seed = given.seed
  with cli.one_sentence(ValueError, 2):
    betas = sorted(
      theory.numbers(given.betas, 'betas').tolist(), reverse=True
    )
    p = synthetic.load(num_clients=given.num_clients, seed=seed).p
    for beta in betas:
      rates.check(p, beta)
    if not (np.isfinite(given.horizon) and given.horizon > 0):
      raise ValueError(f'horizon must be above 0, but it is {given.horizon}.')
    settings = theory.settings(given.avail, p, given.clients_per_round, seed)
    optima = [
      optimal_rates.for_model(s.availability, s.constraint, p, s.correlation)
      for s in settings
    ]
    tables = theory.output_dir('runs/theory')
    pictures = theory.picture_dir(tables)
  studies = [
    study(setting, optimum, betas, given.horizon, seed)
    for setting, optimum in zip(tqdm.tqdm(settings, disable=None), optima)
  ]
  curves, summary, bounds = (
    list(itertools.chain.from_iterable(rows)) for rows in zip(*studies)
  )
  theory.write_csv(tables / 'rates.csv', curves)
  theory.write_csv(tables / 'rates-summary.csv', summary)
  theory.write_csv(tables / 'variance-bound.csv', bounds)
  import pandas as pd  # Slow to import, as is matplotlib.

  from experiments.paper import theory_figures as report

  title = (
    f'Rates of F3AST, {p.size} clients with the data of Synthetic(1,1), '
    f'K = {given.clients_per_round}'
  )
  report.draw_rates(pd.DataFrame(curves), title, pictures / 'rates')
  print(theory.markdown(summary))
  print('\n'.join(['', *verdicts(summary), '']))
  print(theory.markdown(bounds))
  print(f'Files in {tables}; picture {pictures / "rates.png"} and .svg')


if __name__ == '__main__':
  define_flags()
  app.run(main, flags_parser=cli.parse_flags)
