"""How figures are drawn: panels of curves, and numbers next to the paper's."""

from collections.abc import Callable, Mapping
import io
import pathlib
from typing import Any, NamedTuple, Optional

import matplotlib

matplotlib.use('Agg')

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from experiments.paper import design
from experiments.paper import tables
from f3ast_tff.runs import summary

# How each method looks: its name, colour and line.
STYLES: Mapping[str, tuple[str, str, str]] = {
  method: (design.METHODS[method], color, line)
  for method, color, line in (
    ('fedavg', summary.ORANGE, '--'),
    ('f3ast', summary.BLUE, '-'),
    ('fedadam', summary.PINK, '--'),
    ('f3ast_adam', summary.GREEN, '-'),
    ('power_of_choice', summary.GREY, ':'),
  )
}


class Figure(NamedTuple):
  """A figure: its numbers, and how they are drawn.

  Attributes:
    name: Of its files.
    title: What it shows.
    note: What one has to know to read it.
    data: The numbers, all that the picture depends on.
    draw: Returns the picture.
  """

  name: str
  title: str
  note: str
  data: pd.DataFrame
  draw: Callable[[pd.DataFrame], Any]


def images(figure: Figure) -> dict[str, bytes]:
  """Returns the picture as `png` and `svg`, the same on any day."""
  # What is drawn is what the CSV says, to the digit.
  data = pd.read_csv(io.StringIO(tables.csv_of(figure.data)))
  files = {}
  # Without this an SVG names its parts at random.
  with matplotlib.rc_context({'svg.hashsalt': 'f3ast'}):
    picture = figure.draw(data)
    for ending, metadata in (('svg', {'Date': None}), ('png', None)):
      file = io.BytesIO()
      picture.savefig(file, format=ending, dpi=150, metadata=metadata)
      files[ending] = file.getvalue()
      picture.set_layout_engine('none')  # It is laid out; that takes long.
    plt.close(picture)
  return files


def save(picture: Any, path: pathlib.Path) -> None:
  """Writes a PNG and an SVG that do not depend on the day they are made."""
  with matplotlib.rc_context({'svg.hashsalt': path.name}):
    picture.savefig(f'{path}.png', dpi=150)
    picture.savefig(f'{path}.svg', metadata={'Date': None})
  plt.close(picture)


def panels(rows: int, columns: int, size: tuple, **shared: bool) -> Any:
  """Returns a picture and its panels."""
  figure, all_axes = plt.subplots(
    rows, columns, figsize=size, squeeze=False, layout='constrained', **shared
  )
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
  styles: Mapping[str, tuple[str, str, str]] = STYLES,
  marker: Optional[str] = None,
) -> None:
  """Draws a line and a band per method, and says so if there is none."""
  for method, (name, color, dashes) in styles.items():
    line = data[data['method'] == method]
    if line.empty:
      continue
    mean, sd = line['mean'], line['sd'].fillna(0)
    axes.plot(
      line[x], mean, color=color, linestyle=dashes, label=name, marker=marker
    )
    axes.fill_between(
      line[x], mean - sd, mean + sd, color=color, alpha=0.15, linewidth=0
    )
  if data.empty:
    say_not_run(axes)


def legend(figure: Any, all_axes: np.ndarray, columns: int = 5) -> None:
  """Puts one legend below all panels."""
  labels: dict[str, Any] = {}
  for axes in all_axes.flat:
    for handle, label in zip(*axes.get_legend_handles_labels()):
      labels.setdefault(label, handle)
  if labels:
    figure.legend(
      list(labels.values()),
      list(labels),
      loc='outside lower center',
      ncols=min(columns, len(labels)),
      frameon=False,
    )


def seeds_text(data: pd.DataFrame) -> str:
  """Returns how many seeds are behind a panel, for its title."""
  if data.empty:
    return ''
  low, high = int(data['seeds'].min()), int(data['seeds'].max())
  if low == high == 1:
    return ', one seed'
  return f', {high} seeds' if low == high else f', {low} to {high} seeds'


def curves(
  data: pd.DataFrame,
  by: str,
  titles: Mapping[Any, str],
  size: tuple[float, float],
  rows: int = 1,
  x: str = 'round',
  marker: Optional[str] = None,
  **settings: Any,
) -> Any:
  """Returns a picture of lines with bands, a panel for each value of a column.

  Args:
    data: Columns `method`, `mean`, `sd`, `seeds`, and those named here.
    by: The column that tells the panels apart; '' if there is one panel.
    titles: By the value of that column; {} is where the number of seeds goes.
    size: Of the picture, in inches.
    rows: In how many rows panels are; with several they share their axes.
    x: The column that lines are over.
    marker: Of each point.
    **settings: Of all panels, as `Axes.set` takes them.

  Returns:
    The picture.
  """
  is_shared = rows > 1
  figure, all_axes = panels(
    rows, len(titles) // rows, size, sharex=is_shared, sharey=is_shared
  )
  for axes, (value, title) in zip(all_axes.flat, titles.items()):
    part = data[data[by] == value] if by else data
    lines(axes, part, x, marker=marker)
    axes.set(
      title=title.format(seeds_text(part)), **{'xlabel': 'round', **settings}
    )
    axes.minorticks_off()
    if is_shared:
      axes.label_outer()
  legend(figure, all_axes)
  return figure


def next_to_paper(
  axes: Any,
  ours: tuple[pd.Series, pd.Series],
  paper: tuple[pd.Series, pd.Series],
  name: str,
  style: Mapping[str, Any],
  paper_marker: str,
  **bars: Any,
) -> None:
  """Draws our numbers with error bars and hollow ones of the paper."""
  axes.errorbar(*ours, label=f'{name}, ours', **style, **bars)
  axes.plot(
    *paper,
    color=style['color'],
    linestyle='none',
    marker=paper_marker,
    markersize=8,
    markerfacecolor='none',
    label=f'{name}, paper',
  )
