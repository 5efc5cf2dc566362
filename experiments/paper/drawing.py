"""How figures are drawn: panels of curves, and numbers next to the paper's."""

from collections.abc import Callable, Mapping
import io
from typing import Any, NamedTuple, Optional

import pandas as pd

from experiments.grid import plots
from experiments.paper import design
from experiments.paper import tables
from f3ast_tff.runs import summary

# How each method looks: its name, colour and line.
STYLES: Mapping[str, tuple[str, str, str]] = {
  method: (design.TITLES[method], color, line)
  for method, color, line in (
    ('fedavg', summary.ORANGE, '--'),
    ('f3ast', summary.BLUE, '-'),
    ('fedadam', summary.PINK, '--'),
    ('f3ast_adam', summary.GREEN, '-'),
    ('power_of_choice', summary.GREY, ':'),
    ('fedavg_with_replacement', '#e69f00', '-.'),
    ('fedadam_with_replacement', '#882255', '-.'),
    (design.SAFE, '#56b4e9', '-'),
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
    table: The name of the table that it stands next to.
  """

  name: str
  title: str
  note: str
  data: pd.DataFrame
  draw: Callable[[pd.DataFrame], Any]
  table: str

  @property
  def is_run(self) -> bool:
    """Whether there is anything of ours in it."""
    return bool((self.data['seeds'] > 0).any())


def images(figure: Figure) -> dict[str, bytes]:
  """Returns the picture as `png` and `svg`, the same on any day."""
  # What is drawn is what the CSV says, to the digit.
  data = pd.read_csv(io.StringIO(tables.csv_of(figure.data)))
  return plots.images(figure.draw(data))


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
  is_shared, is_full = rows > 1, data['method'].nunique() > 4
  figure, all_axes = plots.panels(
    rows, len(titles) // rows, size, sharex=is_shared, sharey=is_shared
  )
  for axes, (value, title) in zip(all_axes.flat, titles.items()):
    part = data[data[by] == value] if by else data
    plots.lines(axes, part, x, STYLES, marker, 0.05 if is_full else 0.15)
    axes.set(
      title=title.format(seeds_text(part)), **{'xlabel': 'round', **settings}
    )
    axes.minorticks_off()
    if is_shared:
      axes.label_outer()
  plots.legend(figure, all_axes, columns=4)
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
  """Draws what there is: ours with error bars, hollow ones of the paper."""

  def is_known(points: tuple[pd.Series, pd.Series]) -> bool:
    return not any(part.isna().all() for part in points)

  if is_known(ours):
    axes.errorbar(*ours, label=f'{name}, ours', **style, **bars)
  if is_known(paper):
    axes.plot(
      *paper,
      color=style['color'],
      linestyle='none',
      marker=paper_marker,
      markersize=8,
      markerfacecolor='none',
      label=f'{name}, paper',
    )
