"""Panels of curves: a line with a band for each method, one legend."""

from collections.abc import Mapping
import io
import pathlib
import textwrap
from typing import Any, Optional

import matplotlib
from matplotlib import figure as figure_lib
import numpy as np
import pandas as pd

from f3ast_tff.runs import summary

_LEGEND_LETTERS = 90  # In a line.


def images(picture: Any) -> dict[str, bytes]:
  """Returns a picture as `svg` and `png`, the same on any day."""
  files = {}
  # Without this an SVG names its parts at random.
  with matplotlib.rc_context({'svg.hashsalt': 'f3ast'}):
    for ending, metadata in (('svg', {'Date': None}), ('png', None)):
      file = io.BytesIO()
      picture.savefig(file, format=ending, dpi=150, metadata=metadata)
      files[ending] = file.getvalue()
      picture.set_layout_engine('none')  # It is laid out; that takes long.
  return files


def save(picture: Any, path: pathlib.Path) -> None:
  """Writes a PNG and an SVG that do not depend on the day they are made."""
  with matplotlib.rc_context({'svg.hashsalt': path.name}):
    picture.savefig(f'{path}.png', dpi=150)
    picture.savefig(f'{path}.svg', metadata={'Date': None})


def panels(rows: int, columns: int, size: tuple, **shared: Any) -> Any:
  """Returns a picture and its panels."""
  figure = figure_lib.Figure(figsize=size, layout='constrained')
  all_axes = figure.subplots(rows, columns, squeeze=False, **shared)
  for axes in all_axes.flat:
    axes.spines[['top', 'right']].set_visible(False)
  return figure, all_axes


def say_not_run(axes: Any) -> None:
  """Says in a panel that there is nothing to draw."""
  axes.text(
    0.5,
    0.5,
    'not run',
    transform=axes.transAxes,
    ha='center',
    va='center',
    color=summary.GREY,
  )
  # Panels that share their axes would all lose the ticks.
  if len(axes.get_shared_x_axes().get_siblings(axes)) == 1:
    axes.set(xticks=[], yticks=[])


def over_seeds(data: pd.DataFrame, by: list[str], metric: str) -> pd.DataFrame:
  """Returns `mean`, `sd` and number of `seeds` of a metric by some columns."""
  groups = data.groupby(by, sort=True)[metric]
  return groups.agg(
    # Not a number, and so not drawn, where a run diverged.
    mean=lambda column: column.mean(skipna=False),
    sd='std',
    seeds='size',
  ).reset_index()


def lines(
  axes: Any,
  data: pd.DataFrame,
  x: str,
  styles: Mapping[str, tuple[str, str, str]],
  marker: Optional[str] = None,
  band: float = 0.15,
) -> None:
  """Draws a line and a band per method, and says so if there is none.

  Args:
    axes: Where.
    data: Columns `method`, `mean`, `sd`, and x.
    x: The column that lines are over.
    styles: The name, colour and dashes of each method, in order.
    marker: Of each point.
    band: How opaque bands are.
  """
  for method, (name, color, dashes) in styles.items():
    line = data[data['method'] == method]
    if line.empty:
      continue
    mean, sd = line['mean'], line['sd'].fillna(0)
    axes.plot(
      line[x], mean, color=color, linestyle=dashes, label=name, marker=marker
    )
    axes.fill_between(
      line[x], mean - sd, mean + sd, color=color, alpha=band, linewidth=0
    )
  if data.empty:
    say_not_run(axes)


def legend(figure: Any, all_axes: np.ndarray, columns: int = 5) -> None:
  """Puts one legend below all panels, in as many columns as there is room."""
  labels: dict[str, Any] = {}
  for axes in all_axes.flat:
    for handle, label in zip(*axes.get_legend_handles_labels()):
      labels.setdefault(textwrap.fill(label, _LEGEND_LETTERS), handle)
  for number in range(min(columns, len(labels)), 0, -1):
    found = figure.legend(
      list(labels.values()),
      list(labels),
      loc='outside lower center',
      ncols=number,
      frameon=False,
    )
    if found.get_window_extent().width <= figure.bbox.width or number == 1:
      break
    found.remove()
