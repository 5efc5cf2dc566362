"""Tests of `paper_figures` and `drawing`: numbers by hand, and pictures."""

import sys

import pandas as pd
import pytest

from experiments.paper import claims
from experiments.paper import control_tables
from experiments.paper import design
from experiments.paper import drawing
from experiments.paper import frames
from experiments.paper import paper_figures
from experiments.paper import paper_numbers
from experiments.paper import paper_tables
from experiments.paper import verdict_tables
from tests import fake_results


def _figures(found):
  figures = paper_figures.figures(
    frames.values(found), frames.curves(found), paper_numbers.load()
  )
  return {figure.name: figure for figure in figures}


def test_curves_and_gains_by_hand():
  found = _figures([
    *fake_results.synthetic('fedavg', 'home_devices', [0.5, 0.6]),
    *fake_results.synthetic('f3ast', 'home_devices', [0.6, 0.7]),
    *fake_results.synthetic('fedavg_with_replacement', 'home_devices', [0.8]),
    *fake_results.synthetic('f3ast_safe', 'home_devices', [0.8]),
  ])
  # Round 150 is .01 below the mean of the last rounds; seeds .6 and .7.
  curves = found['curves-accuracy-paper'].data
  curves = curves.set_index(['dataset', 'method', 'round'])
  point = curves.loc['synthetic', 'f3ast', 150]
  assert tuple(point) == pytest.approx((0.64, 0.005**0.5, 2))
  # Those of the paper's curves, with both ways to draw.
  assert set(curves.index.get_level_values('method')) == {
    'fedavg', 'f3ast', 'fedavg_with_replacement'
  }
  gains = found['relative-gain-paper'].data.set_index(
    ['metric', 'dataset', 'method', 'baseline', 'avail']
  ).sort_index()
  ours = gains.loc['accuracy', 'synthetic', 'f3ast', 'fedavg', 'home_devices']
  # .65 / .55 - 1; by seed .2 and .16667.
  assert ours['gain'] == pytest.approx(0.1 / 0.55)
  assert ours['sd'] == pytest.approx((1 / 30) / 2**0.5)
  assert ours['seeds'] == 2 and pd.isna(ours['paper'])
  other = 'f3ast', 'fedavg_with_replacement', 'home_devices'
  # The seed that both have.
  gain = gains.loc[('accuracy', 'synthetic', *other)]['gain']
  assert gain == pytest.approx(0.6 / 0.8 - 1)
  # The paper's is drawn once.
  assert pd.isna(gains.loc[('accuracy', 'cifar100', *other)]['paper'])
  paper = gains.loc['accuracy', 'cifar100', 'f3ast', 'fedavg', 'home_devices']
  assert paper['paper'] == pytest.approx(0.208 / 0.111 - 1)
  assert paper['seeds'] == 0


def test_gains_of_what_has_only_begun_are_shown_where_nothing_is_whole():
  def of(avail, method, accuracy, variant=''):
    return fake_results.seeds(
      'paper', 'cifar100', avail, method, [accuracy], variant
    )

  first = 'first_60_rounds'
  gains = _figures([
    *of('home_devices', 'f3ast', 0.05, first),  # The last test is .01 above.
    *of('home_devices', 'fedavg', 0.04, first),
    *of('scarce', 'f3ast', 0.19),
    *of('scarce', 'fedavg', 0.09),
    *of('scarce', 'fedavg', 0.04, first),
  ])['relative-gain-paper'].data.set_index(
    ['metric', 'dataset', 'method', 'baseline', 'avail']
  ).sort_index()
  found = gains.loc['accuracy', 'cifar100', 'f3ast', 'fedavg']
  assert found['gain']['home_devices'] == pytest.approx(0.06 / 0.05 - 1)
  assert found['gain']['scarce'] == pytest.approx(0.2 / 0.1 - 1)
  assert list(found[found['first_rounds_only']].index) == ['home_devices']


@pytest.mark.parametrize(
  'whole, ends',
  [
    ([], {'fedavg': 0.11, 'f3ast': 0.21}),
    ([('fedavg', 0.5)], {'fedavg': 0.51}),
  ],
)
def test_curves_of_what_has_only_begun(whole, ends):
  place = 'paper', 'cifar100', 'home_devices'
  begun = [('f3ast', 0.2), ('fedavg', 0.1)]
  figure = _figures([
    result
    for runs, variant in ((begun, design.FIRST), (whole, ''))
    for method, accuracy in runs
    for result in fake_results.seeds(*place, method, [accuracy], variant)
  ])['curves-accuracy-paper']
  data = figure.data[figure.data['round'] == 200].set_index('method')
  assert data['mean'].to_dict() == pytest.approx(ends)


def test_every_figure_is_next_to_a_table():
  values, curves = frames.values([]), frames.curves([])
  numbers = paper_numbers.load()
  known = {
    table.name
    for table in (
      *verdict_tables.build(claims.claims(values, curves, numbers)),
      *paper_tables.build(values, numbers),
      *control_tables.build(values, curves),
    )
  }
  figures = _figures([]).values()
  assert {figure.table for figure in figures} <= known
  assert not any(figure.is_run for figure in figures)


def test_pictures_repeat():
  figure = _figures(fake_results.synthetic('f3ast', 'smartphones', [0.5]))
  first, second = (drawing.images(figure['heterogeneity']) for _ in range(2))
  assert first == second


@pytest.mark.parametrize(
  'name', ['curves-loss-compact', 'relative-gain-compact', 'k-sweep']
)
def test_all_is_drawn_from_nothing(name):
  figure = _figures([])[name]
  assert isinstance(figure.data, pd.DataFrame)
  assert b'<svg' in drawing.images(figure)['svg']


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
