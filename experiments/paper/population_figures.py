"""Pictures of a population: who is available when."""

import io
from typing import Any

from matplotlib import colors
from matplotlib import figure as figure_lib
from matplotlib import ticker
import numpy as np

from experiments import population
from f3ast_tff.availability import observed
from f3ast_tff.runs import summary

# Where there are more, a row is of several clients and a column of several
# rounds.
_MOST_ROWS, _MOST_COLUMNS = 200, 400

_COLORS = colors.LinearSegmentedColormap.from_list(
  'available', ['white', summary.BLUE]
)


def binned(values: np.ndarray, most: int) -> np.ndarray:
  """Returns means over like stretches of the first axis, at most so many."""
  if len(values) <= most:
    return values.astype(float)
  edges = np.linspace(0, len(values), most + 1).astype(int)
  sums = np.add.reduceat(values.astype(float), edges[:-1], axis=0)
  return (sums.T / np.diff(edges)).T


def _draw_map(axes: Any, shown: population.Population) -> None:
  """Draws who is available when."""
  table = binned(shown.masks.T[shown.order], _MOST_ROWS)
  axes.imshow(
    binned(table.T, _MOST_COLUMNS).T,
    cmap=_COLORS,
    vmin=0,
    vmax=1,
    aspect='auto',
    interpolation='nearest',
    extent=(0.5, len(shown.masks) + 0.5, shown.p.size, 0),
  )
  axes.set(yticks=[])


def _draw_counts(axes: Any, shown: population.Population) -> None:
  """Draws how many are available, and K_t."""
  t = np.arange(1, len(shown.masks) + 1)
  at, counts, k = (
    binned(values, _MOST_COLUMNS)
    for values in (t, shown.masks.sum(axis=1), shown.k)
  )
  axes.fill_between(
    at, counts, step='mid', color=summary.BLUE, alpha=0.35, linewidth=0
  )
  axes.step(at, k, where='mid', color=summary.ORANGE, linewidth=1)
  axes.set(xlim=(0.5, t.size + 0.5), ylim=(0, None), xlabel='round')
  axes.spines[['top', 'right']].set_visible(False)


def _draw_shares(axes: Any, shown: population.Population) -> None:
  """Draws how often clients are available."""
  share = shown.masks.mean(axis=0)
  never = share == 0
  bins = np.linspace(0, 1, 21)
  below, *_ = axes.hist(share[~never], bins, color=summary.BLUE, alpha=0.7)
  if never.any():
    axes.hist(
      share[never],
      bins,
      bottom=below,
      color=summary.ORANGE,
      label=f'{never.sum()} never, with\n'
      f'{100 * shown.p[never].sum():.1f} % of the data',
    )
    axes.set_ylim(0, 1.5 * axes.get_ylim()[1])  # Room for the legend.
    axes.legend(loc='upper right', frameon=False)
  axes.yaxis.get_major_locator().set_params(integer=True)
  axes.set(
    xlim=(0, 1),
    xlabel='share of the rounds',
    ylabel='clients',
    title='How often',
  )
  axes.spines[['top', 'right']].set_visible(False)


def _draw_runs(axes: Any, shown: population.Population) -> None:
  """Draws for how long clients are available, or absent."""
  lengths = observed.run_lengths(shown.masks)
  longest = max(part.max(initial=1) for part in lengths)
  at = np.unique(np.geomspace(1, longest, 40).astype(int))
  for part, color, name in (
    (lengths.on, summary.BLUE, 'available'),
    (lengths.off, summary.ORANGE, 'absent'),
  ):
    if part.size:
      share = np.array([np.mean(part >= rounds) for rounds in at])
      axes.plot(
        at[share > 0], share[share > 0], '.-', color=color, label=name,
        markersize=4,
      )
  axes.set(
    xscale='log',
    yscale='log',
    xlabel='rounds in a row, at least',
    ylabel='share of all runs',
    title='For how long',
  )
  for axis in (axes.xaxis, axes.yaxis):
    axis.set_major_formatter(ticker.StrMethodFormatter('{x:g}'))
    axis.set_minor_formatter(ticker.NullFormatter())
  axes.legend(
    loc='upper center', bbox_to_anchor=(0.5, -0.3), ncols=2, frameon=False
  )
  axes.spines[['top', 'right']].set_visible(False)


def draw(shown: population.Population) -> Any:
  """Returns the picture."""
  figure = figure_lib.Figure(figsize=(10, 5.4), layout='constrained')
  left, right = figure.subfigures(1, 2, width_ratios=(2.3, 1))
  clients, counts = left.subplots(
    2, 1, sharex=True, height_ratios=(2, 1)
  )
  _draw_map(clients, shown)
  correlation = observed.mean_correlation(shown.masks)
  mean = '' if np.isnan(correlation) else f' (correlation {correlation:.3f})'
  clients.set(
    ylabel=f'{shown.p.size} clients, {shown.order_name}',
    title=f'Who is available{mean}',
  )
  _draw_counts(counts, shown)
  counts.set(ylabel='clients', title='How many, and $K_t$ (line)')
  shares, runs = right.subplots(2, 1)
  _draw_shares(shares, shown)
  _draw_runs(runs, shown)
  figure.suptitle(shown.title)
  return figure


def draw_small(shown: population.Population) -> Any:
  """Returns a small picture: who is available, and how many."""
  figure = figure_lib.Figure(figsize=(4.2, 2.4), layout='constrained')
  clients, counts = figure.subplots(2, 1, height_ratios=(2.6, 1), sharex=True)
  _draw_map(clients, shown)
  _draw_counts(counts, shown)
  clients.set_title(shown.avail, fontsize=10)
  clients.set_ylabel(f'clients, {shown.order_name}', fontsize=7)
  counts.set_ylabel('number', fontsize=7)
  return figure


def png(picture: Any) -> bytes:
  """Returns a small picture as a file."""
  file = io.BytesIO()
  picture.savefig(file, format='png', dpi=110)
  return file.getvalue()
