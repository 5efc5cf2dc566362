"""Finds what cannot be read in a figure: things that lie on each other.

`tests/conftest.py` has every figure checked that a test saves in its process.
"""

import itertools

from matplotlib import axis as axis_lib
from matplotlib import collections
from matplotlib import image
from matplotlib import legend as legend_lib
from matplotlib import lines
from matplotlib import patches
from matplotlib import text as text_lib
from matplotlib import transforms
from matplotlib.backends import backend_agg

# Boxes of text have a margin of about a pixel.
_MARGIN = 1.0


def _smaller(box):
  """Returns a box without its margin."""
  return transforms.Bbox.from_extents(
    box.x0 + _MARGIN, box.y0 + _MARGIN, box.x1 - _MARGIN, box.y1 - _MARGIN
  )


def _drawn(artist):
  """Yields an artist and all parts of it that are drawn."""
  if not artist.get_visible():
    return
  yield artist
  is_without_axes = not getattr(artist, 'axison', True)
  for child in artist.get_children():
    if not (is_without_axes and isinstance(child, axis_lib.Axis)):
      yield from _drawn(child)


def _ticks_out_of_view(figure):
  """Returns the labels of ticks that are beyond the ends of their axis."""
  found = []
  for axes in figure.axes:
    for axis in (axes.xaxis, axes.yaxis):
      low, high = sorted(axis.get_view_interval())
      room = 1e-9 * (high - low)
      for is_minor in (False, True):
        ticks = axis.get_minor_ticks() if is_minor else axis.get_major_ticks()
        places = axis.get_ticklocs(minor=is_minor)
        for tick, place in itertools.zip_longest(ticks, places):
          is_seen = place is not None and low - room <= place <= high + room
          if tick is not None and not is_seen:
            found += [tick.label1, tick.label2]
  return set(map(id, found))


def texts(figure):
  """Returns all texts of a figure that are drawn, with their boxes.

  Args:
    figure: The figure, which has been drawn.

  Returns:
    Pairs of a text and its box in pixels.
  """
  renderer = backend_agg.FigureCanvasAgg(figure).get_renderer()
  unseen = _ticks_out_of_view(figure)
  return [
    (
      artist.get_text(),
      # Of an annotation, without its arrow.
      _smaller(text_lib.Text.get_window_extent(artist, renderer)),
    )
    for artist in _drawn(figure)
    if isinstance(artist, text_lib.Text)
    and artist.get_text().strip()
    and id(artist) not in unseen
  ]


def _line_hits(line, box):
  path = line.get_transform().transform_path(line.get_path())
  has_marker = line.get_marker() not in ('None', None, '', ' ')
  if has_marker and line.get_linestyle() == 'None':
    size = line.get_markersize() * line.figure.dpi / 72 / 2
    wider = box.padded(size)
    return any(wider.contains(*point) for point in path.vertices)
  return len(path.vertices) > 1 and path.intersects_bbox(box, filled=False)


def _collection_hits(collection, box):
  to_pixels, offsets = collection.get_transform(), collection.get_offsets()
  to_place = collection.get_offset_transform()
  is_filled = not isinstance(collection, collections.LineCollection)
  if isinstance(collection, collections.PathCollection):  # Of a scatter plot.
    return any(box.contains(*to_place.transform(place)) for place in offsets)
  return any(
    path.intersects_bbox(box, filled=is_filled)
    for path in map(to_pixels.transform_path, collection.get_paths())
    if len(path.vertices) > 1
  )


def _hits(artist, box):
  """Returns whether a piece of data lies in a box."""
  if isinstance(artist, lines.Line2D):
    return _line_hits(artist, box)
  if isinstance(artist, patches.Patch):
    path = artist.get_transform().transform_path(artist.get_path())
    return path.intersects_bbox(box, filled=True)
  if isinstance(artist, collections.Collection):
    return _collection_hits(artist, box)
  if isinstance(artist, image.AxesImage):
    return artist.get_window_extent().overlaps(box)
  return False


def _data(axes):
  """Returns what was drawn into a panel: lines, points, bars, areas."""
  kinds = lines.Line2D, patches.Patch, collections.Collection, image.AxesImage
  frame = [axes.patch, *axes.spines.values()]
  return [
    artist
    for artist in axes.get_children()
    if isinstance(artist, kinds) and artist.get_visible()
    and not any(artist is part for part in frame)
  ]


def _legends_on_data(figure):
  renderer = backend_agg.FigureCanvasAgg(figure).get_renderer()
  for legend in _drawn(figure):
    if not isinstance(legend, legend_lib.Legend):
      continue
    box = _smaller(legend.get_window_extent(renderer))
    name = ', '.join(text.get_text() for text in legend.get_texts())
    for axes in figure.axes:
      # What lies beyond the frame of a panel is not drawn.
      seen = transforms.Bbox.intersection(box, axes.get_window_extent())
      if axes.get_visible() and seen is not None:
        if any(_hits(artist, seen) for artist in _data(axes)):
          yield f'the legend "{name}" lies on data'


def problems(figure):
  """Returns a sentence for each thing in a figure that cannot be read.

  Args:
    figure: A Matplotlib figure; it is drawn.

  Returns:
    Legends that lie on data, texts that lie on each other, labels of ticks
    included, and texts that leave the figure. Empty if all is well.
  """
  figure.draw_without_rendering()
  found = list(_legends_on_data(figure))
  all_texts = texts(figure)
  for (one, box), (other, other_box) in itertools.combinations(all_texts, 2):
    if box.overlaps(other_box):
      found.append(f'"{one}" and "{other}" lie on each other')
  for one, box in all_texts:
    page = figure.bbox
    if not (
      page.x0 <= box.x0 and page.y0 <= box.y0
      and box.x1 <= page.x1 and box.y1 <= page.y1
    ):
      found.append(f'"{one}" leaves the figure')
  return found
