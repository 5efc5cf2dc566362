"""How the time and memory of a selection grow with the number of clients.

  python -m benchmarks.selection_scale --output_dir=DIR

A round without training: who is available (`draw`), whom F3AST takes, lines 4
and 9 of Algorithm 1 (`select`), and the new rates of all clients, line 5
(`update`). A `step` is select and update, `total` is all three. Every round
continues from the rates of the one before. They begin in two ways:

  start    r(0) = K p, so that all scores tie until everyone has been there;
  settled  each rate anywhere from half to twice K p, so that none tie.

Rounds of all sizes alternate, so that a noisy neighbour hits all of them; the
time on the processor stands beside the time on the clock, because it counts
less of what the neighbour does.
Memory is what a step holds at its peak beyond its input, in float64 vectors of
N. DIR gets `selection_scale.csv` and `selection_scale.png`.
"""

from collections.abc import Callable, Sequence
import os
import pathlib
import time
import tracemalloc
from typing import Any, NamedTuple

from absl import app
from absl import flags
import numpy as np

from experiments import cli
from experiments import output_folder
from f3ast_tff import availability
from f3ast_tff import methods
from f3ast_tff import randomness
from f3ast_tff import selection
from f3ast_tff import traces

_LEAST = flags.DEFINE_integer(
  'least', 3, 'The fewest clients, a power of ten.', lower_bound=0
)
_MOST = flags.DEFINE_integer(
  'most', 7, 'The most clients, a power of ten.', lower_bound=0
)
_REPEATS = flags.DEFINE_integer(
  'repeats', 11, 'Rounds that are timed at each size.', lower_bound=1
)
_AVAILABILITY = flags.DEFINE_enum(
  'availability',
  'smartphones',
  [*availability.PAPER, 'trace'],
  'Who is available. On trace there are as many phones as clients, up to a '
  'million, with ten intervals each in six days.',
)

_DAY = 86_400
_COHORTS = (10, 1000)
_RATES = ('start', 'settled')
_PARTS = ('draw', 'select', 'update', 'step', 'total')


class Case(NamedTuple):
  """One point of a curve.

  Attributes:
    num_clients: N.
    cohort: K.
    rates: How the rates begin, `start` or `settled`.
  """

  num_clients: int
  cohort: int
  rates: str


def _traced(p: np.ndarray) -> traces.Clocked:
  """Returns a model on made-up phones, as if they had been read from a file."""
  num_phones, num_bounds, days = min(p.size, 10**6), 20, 6
  rng = randomness.generator(0, 'made-up phones')
  seconds = days * _DAY // num_bounds
  gaps = rng.integers(1, seconds, (num_phones, num_bounds), endpoint=True)
  bounds = np.cumsum(gaps, axis=1)
  bounds += (days * _DAY + 1) * np.arange(num_phones)[:, None]
  trace = traces.Trace(
    tuple(map(str, range(num_phones))),
    rng.integers(_DAY, size=num_phones),
    np.full(num_phones, days),
    bounds.ravel(),
  )
  return traces.Clocked(trace, traces.assign(trace, p))


def _now() -> np.ndarray:
  return 1000 * np.array([time.perf_counter(), time.process_time()])


class Population:
  """N clients, whose rates change from round to round."""

  def __init__(self, case: Case, avail: str) -> None:
    rng = randomness.generator(0, 'sizes of clients')
    sizes = rng.lognormal(4.0, 2.0, case.num_clients) + 50  # As in Synthetic.
    p = sizes / sizes.sum()
    self._selector = methods.build_selector(
      p,
      _traced(p) if avail == 'trace' else avail,
      case.cohort,
      correlation='uncorrelated',
    )
    self._r = self._selector.initial_rates
    if case.rates == 'settled':
      self._r = np.minimum(1.0, self._r * rng.uniform(0.5, 2, self._r.size))

  def time(self, round_num: int) -> dict[str, np.ndarray]:
    """Times a round; returns its parts' ms on the clock and the processor."""
    began = _now()
    mask = self._selector.availability(round_num)
    drawn = _now()
    cohort = self._selector.select_among(mask, round_num, self._r)
    chosen = _now()
    self._update(cohort)
    ended = _now()
    return {
      'draw': drawn - began,
      'select': chosen - drawn,
      'update': ended - chosen,
      'step': ended - drawn,
      'total': ended - began,
    }

  def vectors(self, round_num: int) -> dict[str, float]:
    """Runs a round and returns the peak memory of its parts in vectors."""
    selector, size = self._selector, 8 * self._r.size

    def peak(part: Callable[[], Any]) -> tuple[Any, float]:
      tracemalloc.reset_peak()
      before, _ = tracemalloc.get_traced_memory()
      result = part()
      _, after = tracemalloc.get_traced_memory()
      return result, (after - before) / size

    tracemalloc.start()
    try:
      mask, draw = peak(lambda: selector.availability(round_num))
      cohort, select = peak(
        lambda: selector.select_among(mask, round_num, self._r)
      )
      _, update = peak(lambda: self._update(cohort))
    finally:
      tracemalloc.stop()
    step = max(select, update)
    held = mask.nbytes / size
    return {
      'draw': draw,
      'select': select,
      'update': update,
      'step': step,
      'total': max(draw, held + step),
    }

  def _update(self, cohort: selection.Cohort) -> np.ndarray:
    self._r = self._selector.next_rates(self._r, cohort)
    return self._r


def _cases(least: int, most: int) -> list[Case]:
  # With K close to N there is little to select.
  return [
    Case(10**power, cohort, how)
    for power in range(least, most + 1)
    for cohort in _COHORTS
    for how in _RATES
    if 10**power >= 10 * cohort
  ]


def measure(cases: Sequence[Case], avail: str, repeats: int):
  """Returns a `pandas.DataFrame` of one row per case and part of a round."""
  import pandas as pd  # Slow to import.

  populations = {case: Population(case, avail) for case in cases}
  rounds: dict[Case, list[dict[str, np.ndarray]]] = {c: [] for c in cases}
  for round_num in range(1, repeats + 2):
    for case, population in populations.items():
      rounds[case].append(population.time(round_num))
  rows = []
  for case, population in populations.items():
    vectors = population.vectors(repeats + 2)
    for part in _PARTS:
      # The first round warms up.
      times, cpu = np.transpose([ms[part] for ms in rounds[case][1:]])
      low, median, high = np.percentile(times, [25, 50, 75])
      rows.append({
        **case._asdict(),
        'part': part,
        'repeats': repeats,
        'median_ms': median,
        'quartile_1_ms': low,
        'quartile_3_ms': high,
        'min_ms': times.min(),
        'max_ms': times.max(),
        'median_cpu_ms': np.median(cpu),
        'peak_vectors': vectors[part],
      })
  return pd.DataFrame(rows)


def draw(table, path: pathlib.Path) -> None:
  """Draws time over N, one panel per K, and what is linear beside it."""
  from matplotlib import figure as figure_lib  # Slow to import.

  from f3ast_tff.runs import summary

  styles = {
    ('step', 'start'): (summary.BLUE, '-', 'step, all scores tie'),
    ('step', 'settled'): (summary.GREEN, '-', 'step, none tie'),
    ('draw', 'start'): (summary.ORANGE, '--', 'availability'),
  }
  cohorts = sorted(set(table['cohort']))
  figure = figure_lib.Figure(
    figsize=(max(8, 5 * len(cohorts)), 4.3), layout='constrained'
  )
  panels = figure.subplots(
    1, len(cohorts), sharex=True, sharey=True, squeeze=False
  )
  for axes, cohort in zip(panels[0], cohorts):
    axes.set(
      xscale='log', yscale='log', xlabel='clients N', title=f'K = {cohort}'
    )
    for (part, how), (color, line, label) in styles.items():
      curve = table[
        (table['cohort'] == cohort)
        & (table['part'] == part)
        & (table['rates'] == how)
      ]
      axes.errorbar(
        curve['num_clients'],
        curve['median_ms'],
        yerr=[
          curve['median_ms'] - curve['quartile_1_ms'],
          curve['quartile_3_ms'] - curve['median_ms'],
        ],
        color=color,
        linestyle=line,
        marker='.',
        capsize=2,
        label=label,
      )
    # Through the last point of a step without ties.
    steps = table[(table['cohort'] == cohort) & (table['part'] == 'step')]
    n = np.array([steps['num_clients'].min(), steps['num_clients'].max()])
    axes.plot(
      n,
      steps['median_ms'].iloc[-1] * n / n[-1],
      color=summary.GREY,
      linestyle=':',
      label='linear in N',
    )
    axes.spines[['top', 'right']].set_visible(False)
  sizes = table['num_clients']
  panels[0][0].set(
    xlim=(sizes.min() / 1.5, sizes.max() * 1.5),
    ylabel='ms a round, median and quartiles',
  )
  figure.legend(
    *panels[0][0].get_legend_handles_labels(),
    loc='outside lower center',
    ncols=4,
    frameon=False,
  )
  figure.savefig(path, dpi=150)


def _print(table) -> None:
  print(
    f'{"clients":>9} {"K":>5} {"rates":<8}{"draw":>9}{"select":>9}{"update":>9}'
    f'{"step":>9}  {"quartiles":<17}{"CPU":>8}{"total":>9} ms;'
    f'{"ns/client":>10}{"vectors":>8}'
  )
  for (n, cohort, how), rows in table.groupby(
    ['num_clients', 'cohort', 'rates'], sort=False
  ):
    part = rows.set_index('part')
    step = part.loc['step']
    median = part['median_ms']
    quartiles = f'{step["quartile_1_ms"]:.2f} to {step["quartile_3_ms"]:.2f}'
    print(
      f'{n:>9} {cohort:>5} {how:<8}{median["draw"]:>9.2f}'
      f'{median["select"]:>9.2f}{median["update"]:>9.2f}{median["step"]:>9.2f}'
      f'  {quartiles:<17}{step["median_cpu_ms"]:>8.2f}{median["total"]:>9.2f}'
      f'{1e6 * median["step"] / n:>14.1f}{step["peak_vectors"]:>8.1f}'
    )


def _print_growth(table) -> None:
  """Prints the exponent of N; below 10^5 the fixed cost of calls counts."""
  large = table[(table['part'] == 'step') & (table['num_clients'] >= 10**5)]
  for (cohort, how), curve in large.groupby(['cohort', 'rates'], sort=False):
    if len(curve) > 1:
      slope, _ = np.polyfit(
        np.log(curve['num_clients']), np.log(curve['median_ms']), 1
      )
      print(f'A step with K = {cohort}, {how}, grows as N^{slope:.2f}.')


def main(argv: Sequence[str]) -> None:
  """Measures, prints, and writes the files."""
  del argv
  folder = cli.here(output_folder.OUTPUT_DIR.value or 'runs/selection_scale')
  cases = _cases(_LEAST.value, _MOST.value)
  if not cases:
    cli.fail(
      f'no size from 10^{_LEAST.value} to 10^{_MOST.value} is at least ten '
      f'times a cohort of {min(_COHORTS)}.',
      2,
    )
  folder.mkdir(parents=True, exist_ok=True)
  table = measure(cases, _AVAILABILITY.value, _REPEATS.value)
  table.to_csv(folder / 'selection_scale.csv', index=False)
  draw(table, folder / 'selection_scale.png')
  _print(table)
  _print_growth(table)
  print(
    f'The load of this machine was {os.getloadavg()[0]:.1f} on '
    f'{os.cpu_count()} cores.'
  )


if __name__ == '__main__':
  app.run(main, flags_parser=cli.parse_flags)
