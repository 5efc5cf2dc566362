"""Tests of `figure_layout`: it finds what lies on something else."""

import sys

from matplotlib import figure as figure_lib
import numpy as np
import pytest

from tests import figure_layout


def _panel(**size):
  figure = figure_lib.Figure(layout='constrained', **size)
  return figure, figure.subplots()


def _line(axes):
  axes.plot([0, 1], [0, 1], label='data')


# Each fills the panel from the lower left to the upper right.
_DATA = {
  'line': _line,
  'points': lambda axes: axes.plot(
    np.linspace(0, 1, 30), np.linspace(0, 1, 30), '.', label='data'
  ),
  'scatter': lambda axes: axes.scatter(
    np.linspace(0, 1, 99), np.linspace(0, 1, 99), label='data'
  ),
  'bars': lambda axes: axes.bar([0, 1], [0.1, 1], label='data'),
  'area': lambda axes: axes.fill_between([0, 1], [0, 1], label='data'),
  'error bars': lambda axes: axes.errorbar(
    [0, 1], [0, 1], 0.2, linestyle='none', label='data'
  ),
  'levels': lambda axes: axes.hlines([0, 1], 0, 1, label='data'),
}


@pytest.mark.parametrize('draw', _DATA.values(), ids=_DATA)
def test_a_legend_on_data_is_found(draw):
  figure, axes = _panel()
  draw(axes)
  legend = axes.legend(loc='upper right')
  assert figure_layout.problems(figure) == ['the legend "data" lies on data']
  legend.set_loc('upper left')
  is_flat = draw is _DATA['levels']  # They go from one side to the other.
  assert bool(figure_layout.problems(figure)) == is_flat
  legend.remove()
  figure.legend(loc='outside lower center')
  assert figure_layout.problems(figure) == []


def test_a_legend_on_a_picture_is_found():
  figure, axes = _panel()
  axes.imshow(np.zeros((2, 2)))
  axes.plot([], [], label='data')
  axes.legend()
  assert figure_layout.problems(figure) == ['the legend "data" lies on data']


def test_a_legend_of_the_figure_on_data_is_found():
  figure, axes = _panel()
  _line(axes)
  figure.legend(loc='upper right')
  assert 'the legend "data" lies on data' in figure_layout.problems(figure)


def test_texts_on_each_other_are_found():
  figure, axes = _panel()
  axes.text(0.5, 0.5, 'one')
  axes.text(0.51, 0.51, 'other')
  assert figure_layout.problems(figure) == [
    '"one" and "other" lie on each other'
  ]


def test_an_arrow_is_no_text():
  figure, axes = _panel()
  axes.text(0.5, 0.5, 'on the way')
  far = axes.annotate('far', (0.1, 0.1), (0.9, 0.9), arrowprops={'width': 1})
  assert figure_layout.problems(figure) == []
  far.set_position((0.55, 0.5))
  assert len(figure_layout.problems(figure)) == 1


def test_labels_of_ticks_on_each_other_are_found():
  figure, axes = _panel(figsize=(2, 2))
  axes.set_xticks([0, 1], ['a label that is long', 'another that is long'])
  assert any(
    'a label that is long' in problem and 'each other' in problem
    for problem in figure_layout.problems(figure)
  )
  axes.set_xticks([0, 1], ['a', 'b'])
  assert figure_layout.problems(figure) == []


def test_a_text_that_leaves_the_figure_is_found():
  figure, axes = _panel(figsize=(2, 2))
  axes.set_title('a title that is much too long for so small a figure')
  (problem,) = figure_layout.problems(figure)
  assert problem.endswith('so small a figure" leaves the figure')


def test_what_is_not_drawn_is_no_problem():
  figure, axes = _panel()
  axes.text(0.5, 0.5, 'one')
  axes.text(0.5, 0.5, 'hidden').set_visible(False)
  axes.set_axis_off()
  axes.set_xticks([0, 1e-6], ['first', 'second'])
  assert figure_layout.problems(figure) == []


def test_saving_checks(tmp_path):
  figure, axes = _panel()
  _line(axes)
  figure.savefig(tmp_path / 'good.png')
  axes.legend(loc='upper right')
  with pytest.raises(AssertionError, match='lies on data'):
    figure.savefig(tmp_path / 'bad.png')


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
