"""Figure 1 of the paper: what two clients can achieve, and where F3AST goes.

python -m experiments.region --output_dir=region

Writes region.csv (vertices, points, trajectories), region.png and region.svg.
"""

from collections.abc import Sequence
from typing import Any

from absl import app
from absl import flags
import numpy as np

from experiments import cli
from experiments import theory
from f3ast_tff import methods
from f3ast_tff import rates
from f3ast_tff import wording
from f3ast_tff.theory import region
from f3ast_tff.theory import small_system

_EVERY = 10  # Rounds between the rows of a trajectory.


def trajectory(
  system: small_system.System,
  p: np.ndarray,
  start: np.ndarray,
  beta: float,
  num_rounds: int,
  seed: int,
) -> np.ndarray:
  """Returns r(0), r(1), ... under F3AST, one per row."""
  selector = methods.build_selector(
    p, small_system.Configurations(system, seed), system.k, beta=beta, seed=seed
  )
  steps = selector.simulate(num_rounds, start)
  return np.array([start, *(step.rates for step in steps)])


def define_flags() -> None:
  """Defines the flags: here, so that importing the module defines none."""
  theory.define_picture_dir()
  flags.DEFINE_string('p', '0.5,0.5', "The two clients' shares of the data.")
  flags.DEFINE_float('beta', 0.005, 'The step of the rates.')
  flags.DEFINE_integer(
    'rounds', 3000, 'How many rounds F3AST goes.', lower_bound=1
  )
  flags.DEFINE_string(
    'starts', '0.5,0.5;0.05,0.15', 'The rates r(0) that F3AST starts at.'
  )
  flags.DEFINE_integer(
    'seed', 0, 'Decides everything that is random.', lower_bound=0
  )


def main(argv: Sequence[str]) -> None:
  """Computes the region and draws it."""
  del argv
  given = flags.FLAGS
  system = small_system.introduction_example()
  with cli.one_sentence(ValueError, 2):
    p = theory.numbers(given.p, 'p', 2)
    rates.check(p, given.beta)
    starts = [
      theory.numbers(text, 'starts', 2) for text in given.starts.split(';')
    ]
    if not all(((0 <= r) & (r <= 1)).all() for r in starts):
      raise ValueError('starts must be rates in [0, 1], but some are not.')
    best = region.minimise_h(system, p)
    tables = theory.output_dir('runs/theory')
    pictures = theory.picture_dir(tables)
  points = {
    'a': region.greedy(system, [0]),
    'b': region.greedy(system, [0, 1]),
    'c': region.naive_rates(system),
    'ideal': np.array([0.5, 0.5]),
    'best': best,
  }
  paths = [
    trajectory(system, p, r, given.beta, given.rounds, given.seed)
    for r in starts
  ]
  corners = region.vertices(system)

  def row(kind: str, name: Any, t: Any, r: np.ndarray) -> theory.Row:
    r1, r2 = map(float, r)
    return {'kind': kind, 'name': name, 'round': t, 'r1': r1, 'r2': r2}

  theory.write_csv(
    tables / 'region.csv',
    [
      *(row('vertex', i, '', r) for i, r in enumerate(corners)),
      *(row('point', name, '', r) for name, r in points.items()),
      *(
        row('trajectory', i, t, path[t])
        for i, path in enumerate(paths)
        for t in range(0, len(path), _EVERY)
      ),
    ],
  )
  from experiments.paper import theory_figures as report  # Slow to import.

  report.draw_region(corners, points, paths, given.beta, pictures / 'region')
  print(
    theory.markdown([
      {
        'point': name,
        'r1': float(r[0]),
        'r2': float(r[1]),
        'achievable': 'yes' if region.contains(system, r) else 'no',
        'H': rates.variance_bound(p, r),
      }
      for name, r in points.items()
    ])
  )
  for start, path in zip(starts, paths):
    late = path[len(path) // 2 :].mean(axis=0)
    print(
      f'F3AST from {start}, beta = {given.beta:g}: mean rates of the last '
      f'half of {wording.count(given.rounds, "round")} {late.round(4)}, '
      'distance from the best '
      f'{np.linalg.norm(late - best):.4f}'
    )
  print(f'Files: {tables / "region.csv"}, {pictures / "region.png"} and .svg')


if __name__ == '__main__':
  define_flags()
  app.run(main, flags_parser=cli.parse_flags)
