"""The pictures of a benchmark: who is where, and the curves."""

import math
from typing import Any

from experiments.benchmark import results
from experiments.benchmark import statistics
from experiments.benchmark import tables
from experiments.grid import plots
from experiments.grid import sweep_report
from f3ast_tff.runs import summary

_PANELS = 3  # Of curves, in a row.
_ACROSS = 4  # Of dots: they are narrow.
_COLORS = {
  statistics.ABOVE: summary.GREEN,
  statistics.BELOW: summary.ORANGE,
  statistics.UNDECIDED: summary.GREY,
}


def dots(found: results.Results) -> Any:
  """Returns mean and spread of each method, a panel per availability model.

  The best mean rank is on top. The colour is the verdict on the difference from
  the reference, which has a line.
  """
  avails = found.table['avail'].unique().tolist()
  methods = tables.ordered(found.table)[::-1]
  verdicts = {
    (row.avail, row.method): row.verdict
    for row in found.differences.itertuples()
  }
  columns = min(_ACROSS, len(avails))
  rows = math.ceil(len(avails) / columns)
  size = 2.0 + 2.1 * columns, rows * (0.7 + 0.21 * len(methods))
  figure, all_axes = plots.panels(rows, columns, size, sharex=True, sharey=True)
  # Inches, for the label of a tick at the right end.
  figure.get_layout_engine().set(w_pad=0.1)
  for axes, avail in zip(all_axes.flat, avails):
    of_avail = found.table[found.table['avail'] == avail]
    for row in of_avail.itertuples():
      mean = getattr(row, f'{results.METRIC}_mean')
      spread = getattr(row, f'{results.METRIC}_std')
      is_reference = row.method == found.reference
      if is_reference:
        axes.axvline(mean, color='black', linewidth=0.8, linestyle=':')
      verdict = verdicts.get((avail, row.method), statistics.UNDECIDED)
      axes.errorbar(
        mean,
        methods.index(row.method),
        xerr=0 if math.isnan(spread) else spread,
        fmt='s' if is_reference else 'o',
        markersize=5,
        color='black' if is_reference else _COLORS[verdict],
      )
    axes.set_title(avail, fontsize='medium')
    axes.set_yticks(range(len(methods)), methods)
    axes.grid(axis='y', color='#e5e5e5', linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelbottom=True, length=0)
  for axes in all_axes.flat[len(avails):]:
    axes.set_axis_off()
  figure.supxlabel('test accuracy', fontsize='medium')
  return figure


def curves(found: results.Results) -> Any:
  """Returns accuracy over rounds, a panel per availability model."""
  avails = found.table['avail'].unique().tolist()
  methods = found.table['method'].unique().tolist()
  styles = sweep_report.styles({each: {'algorithm': each} for each in methods})
  columns = min(_PANELS, len(avails))
  rows = math.ceil(len(avails) / columns)
  size = max(6.0, 3.6 * columns), 2.7 * rows + 0.8 + 0.2 * len(methods) / 4
  figure, all_axes = plots.panels(rows, columns, size, sharex=True, sharey=True)
  for axes, avail in zip(all_axes.flat, avails):
    of_avail = found.tests[found.tests['avail'] == avail]
    lines = plots.over_seeds(of_avail, ['method', 'round'], results.METRIC)
    band = min(0.15, 0.5 / len(methods))
    plots.lines(axes, lines, 'round', styles, band=band)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title(avail, fontsize='medium')
    axes.tick_params(labelbottom=True)
  for axes in all_axes.flat[len(avails):]:
    axes.set_axis_off()
  for axes in all_axes[:, 0]:
    axes.set_ylabel('test accuracy')
  for column in range(columns):
    last = [i for i in range(len(avails)) if i % columns == column][-1]
    all_axes.flat[last].set_xlabel('round')
  plots.legend(figure, all_axes)
  return figure
