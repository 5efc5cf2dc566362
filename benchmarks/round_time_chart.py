"""The bar chart of `benchmarks.round_time`."""

import pathlib

from matplotlib import figure
import numpy as np
import pandas as pd

# Okabe and Ito's colours, which the colour-blind can tell apart.
_LOOKS = {
  'fedavg': ('ours, FedAvg', '#0072B2'),
  'f3ast': ('ours, F3AST', '#56B4E9'),
  'previous': ('the version before', '#CC79A7'),
  'stock': ('stock TFF, FedAvg', '#D55E00'),
  'fedjax': ('FedJAX, FedAvg', '#009E73'),
  'numpy': ('NumPy, FedAvg', '#999999'),
  'two of fedavg': ('ours, two runs at a time', '#0072B2'),
  'two of previous': ('the version before, two runs', '#CC79A7'),
  'two of fedjax': ('FedJAX, two runs at a time', '#009E73'),
}
_TASKS = {
  'synthetic': 'Synthetic(1,1)',
  'shakespeare': 'Shakespeare',
  'cifar100': 'CIFAR-100',
}


def draw(table: pd.DataFrame, stem: pathlib.Path) -> None:
  """Draws the seconds of a round, a panel for each task, as PNG and SVG.

  Args:
    table: The table of `benchmarks.round_time`.
    stem: The path without its ending.
  """
  names = list(table['task'].unique())
  heights = [int((table['task'] == name).sum()) for name in names]
  drawing = figure.Figure(
    figsize=(7.5, 0.6 + sum(0.36 * h + 0.55 for h in heights)),
    layout='constrained',
  )
  panels = drawing.subplots(
    len(names), 1, squeeze=False, gridspec_kw={'height_ratios': heights}
  )[:, 0]
  for panel, name in zip(panels, names):
    rows = table[table['task'] == name].set_index('contender')
    order = [contender for contender in _LOOKS if contender in rows.index]
    _draw_task(panel, rows.loc[order].reset_index())
    examples = table[table['task'] == name]['examples'].iloc[0]
    panel.set_title(
      f'{_TASKS[name]}: ten clients, {examples:,} examples', loc='left',
      fontsize=10,
    )
  panels[-1].set_xlabel('milliseconds a round (median, quartiles; log scale)')
  for ending in ('png', 'svg'):
    drawing.savefig(
      stem.with_suffix(f'.{ending}'), dpi=160, metadata=_METADATA.get(ending)
    )


_METADATA = {'svg': {'Date': None}}


def _time(milliseconds: float) -> str:
  if milliseconds < 1000:
    return f'{milliseconds:.3g} ms'
  return f'{milliseconds / 1000:.3g} s'


def _draw_task(panel, rows: pd.DataFrame) -> None:
  """Draws the bars of a task."""
  longest = rows['quartile_3_ms'].max()
  least = rows['quartile_1_ms'].min()
  panel.set_xscale('log')
  panel.set_xlim(least / 3, longest * 6)
  for at, row in rows.iterrows():
    label, colour = _LOOKS[row['contender']]
    if np.isnan(row['median_ms']):
      panel.text(least / 2.8, at, 'no round in time', va='center', fontsize=8)
      continue
    is_pair = row['contender'].startswith('two')
    panel.barh(
      at,
      row['median_ms'],
      color='none' if is_pair else colour,
      edgecolor=colour,
      hatch='////' if is_pair else None,
      height=0.7,
    )
    panel.plot(
      [row['quartile_1_ms'], row['quartile_3_ms']], [at, at], color='black',
      linewidth=1.2,
    )
    panel.text(
      row['quartile_3_ms'] * 1.1, at,
      f'{_time(row["median_ms"])}   {row["times_ours"]:.3g}x', va='center',
      fontsize=8,
    )
  panel.set_yticks(
    range(len(rows)), [_LOOKS[name][0] for name in rows['contender']],
    fontsize=8,
  )
  panel.set_ylim(len(rows) - 0.5, -0.5)
  for side in ('top', 'right'):
    panel.spines[side].set_visible(False)
