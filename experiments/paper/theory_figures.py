"""Pictures of the paper's theory: the region, the rates, the variance."""

from collections.abc import Mapping, Sequence
import pathlib

import matplotlib
import numpy as np
import pandas as pd

from experiments.grid import plots
from experiments.paper import design
from f3ast_tff.runs import summary

NAMES: Mapping[str, str] = {
  **design.AVAILS,
  'markov': 'Markov',
  'two_groups': 'Two groups',
}


def draw_region(
  vertices: np.ndarray,
  points: Mapping[str, np.ndarray],
  paths: Sequence[np.ndarray],
  beta: float,
  path: pathlib.Path,
) -> None:
  """Draws the region of two clients, Figure 1, and where F3AST goes in it.

  Args:
    vertices: Of the region, shape [any, 2].
    points: The rates a, b, c, ideal and best.
    paths: The rates of F3AST round by round, one array per start.
    beta: The step of the rates, for the legend.
    path: Where to write it, without an ending; a PNG and an SVG are written.
  """
  figure, ((axes,),) = plots.panels(1, 1, (5.2, 6.2))
  middle = vertices.mean(axis=0)
  angles = np.arctan2(*(vertices - middle).T[::-1])
  corners = vertices[np.argsort(angles)]
  axes.fill(*corners.T, color=summary.GREY, alpha=0.13, linewidth=0)
  axes.fill(
    *corners.T, facecolor='none', edgecolor=summary.GREY, linewidth=1.5
  )
  axes.annotate(
    'achievable\nrates R', (0.04, 0.5), color=summary.GREY
  )
  colors = (summary.BLUE, summary.GREEN, summary.PINK)
  for i, trace in enumerate(paths):
    color = colors[i % len(colors)]
    start = ', '.join(f'{x:g}' for x in trace[0])
    axes.plot(
      *trace.T,
      color=color,
      linewidth=0.7,
      alpha=0.7,
      label=f'F3AST from ({start}), $\\beta$ = {beta:g}',
    )
    axes.plot(
      *trace[0],
      's',
      color=color,
      markersize=9,
      markerfacecolor='none',
      markeredgewidth=1.5,
    )
  for name, label, offset in (
    ('a', '$r^a$: only client 1', (8, 8)),
    ('b', '$r^b$: client 1 first', (22, 52)),
    ('c', '$r^c$: naive', (8, 6)),
    ('ideal', '"ideal" rate', (10, -4)),
  ):
    axes.plot(
      *points[name], 'o', color='black', markersize=5, zorder=4, clip_on=False
    )
    is_far = np.hypot(*offset) > 30
    axes.annotate(
      label,
      points[name],
      offset,
      textcoords='offset points',
      zorder=6,
      arrowprops={'arrowstyle': '-', 'linewidth': 0.8} if is_far else None,
    )
  axes.plot(
    *points['best'],
    '*',
    color=summary.ORANGE,
    markeredgecolor='white',
    markersize=16,
    zorder=5,
    linestyle='none',
    label='best rates $r^*$',
  )
  axes.set(
    xlabel='$r_1$, share of rounds with client 1',
    ylabel='$r_2$, share of rounds with client 2',
    xlim=(0, 0.68),
    ylim=(0, 0.88),
    aspect='equal',
  )
  axes.legend(
    loc='upper center', bbox_to_anchor=(0.5, 1.17), frameon=False, fontsize=9
  )
  plots.save(figure, path)


def draw_rates(distances: pd.DataFrame, title: str, path: pathlib.Path) -> None:
  """Draws the distance from the best rates over rounds, a panel per model.

  Args:
    distances: Columns avail, beta, round, relative.
    title: Above the picture.
    path: Where to write it, without an ending.
  """
  models = list(dict.fromkeys(distances['avail']))
  betas = sorted(set(distances['beta']), reverse=True)
  # Dark to light also without colours.
  colors = matplotlib.colormaps['viridis'](np.linspace(0.88, 0.0, len(betas)))
  lines = ('-', '--', '-.', ':')
  columns = min(3, len(models))
  rows = -(-len(models) // columns)
  size = max(6.6, 3.6 * columns), 3.1 * rows + 0.9  # Room for the title.
  figure, panels = plots.panels(rows, columns, size, sharex=True, sharey=True)
  for axes, model in zip(panels.flat, models):
    for i, beta in enumerate(betas):
      rows_of = distances[
        (distances['avail'] == model) & (distances['beta'] == beta)
      ]
      axes.plot(
        rows_of['round'],
        rows_of['relative'],
        color=colors[i],
        linestyle=lines[i % len(lines)],
        linewidth=1.6,
        label=f'$\\beta$ = {beta:g}',
      )
    axes.set(title=NAMES.get(model, model), xscale='log', yscale='log')
    axes.grid(color='0.9', linewidth=0.6)
  for axes in panels.flat[len(models) :]:
    axes.set_visible(False)
  for axes in panels[-1]:
    axes.set_xlabel('round t')
  for axes in panels[:, 0]:
    axes.set_ylabel('$\\|r(t) - r^*\\|\\ /\\ \\|r^*\\|$')
  plots.legend(figure, panels)
  figure.suptitle(title)
  plots.save(figure, path)


def draw_variance(rows: pd.DataFrame, path: pathlib.Path) -> None:
  """Draws the variance of Delta next to the trace formula and the bounds.

  Args:
    rows: As `experiments.variance` writes them, one per system.
    path: Where to write it, without an ending.
  """
  width = max(8.5, 1.5 + 1.15 * len(rows))  # Room for the legend.
  figure, ((axes,),) = plots.panels(1, 1, (width, 4.4))
  place = np.arange(len(rows))
  # In units of the variance that is measured: the systems differ by much.
  unit = rows['variance']
  for column, label, color, width in (
    ('any', 'bound for any availability', summary.GREY, 0.8),
    ('jensen', 'the same by Jensen, with each $|v_k|$', summary.PINK, 0.6),
    ('independent', 'bound for independent clients', summary.GREEN, 0.8),
  ):
    values = rows[column] / unit
    applies = np.ones(len(rows), bool)
    if column == 'independent':
      applies = (rows['independent_applies'] == 'yes').to_numpy()
    for is_in, line in ((applies, '-'), (~applies, ':')):
      axes.hlines(
        values[is_in],
        place[is_in] - width / 2,
        place[is_in] + width / 2,
        color=color,
        linestyle=line,
        linewidth=2.2,
        label=(label if line == '-' else f'{label}, does not apply')
        if is_in.any()
        else None,
      )
  axes.plot(
    place,
    rows['worst_case'] / unit,
    'v',
    color=summary.ORANGE,
    markerfacecolor='none',
    label='worst directions of updates of the largest norm',
  )
  for column, label, color, marker, shift in (
    ('variance', 'measured', summary.BLUE, 'o', -0.1),
    ('trace', 'trace formula', 'black', 'x', 0.1),
  ):
    axes.errorbar(
      place + shift,
      rows[column] / unit,
      2 * rows[f'{column}_se'] / unit,
      fmt=marker,
      color=color,
      capsize=2,
      label=label,
    )
  axes.set(
    yscale='log',
    ylabel='variance of $\\Delta$ / measured variance',
    xticks=place,
    xticklabels=[NAMES.get(name, name) for name in rows['avail']],
  )
  axes.grid(axis='y', color='0.9', linewidth=0.6)
  figure.legend(loc='outside upper center', ncols=2, frameon=False, fontsize=9)
  plots.save(figure, path)
