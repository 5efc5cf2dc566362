"""Tests of `targets` against numbers by hand."""

import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import targets

_P = np.array([0.64, 0.16, 0.0, 0.04, 0.16])


def test_users_alike():
  np.testing.assert_allclose(
    targets.uniform(_P), [0.25, 0.25, 0, 0.25, 0.25], rtol=1e-15
  )


@pytest.mark.parametrize(
  'exponent, expected',
  [
    # Roots .8, .4, 0, .2, .4 sum to 1.8.
    (0.5, np.array([4, 2, 0, 1, 2]) / 9),
    (1.0, _P),
    (0.0, np.array([1, 1, 0, 1, 1]) / 4),
    # Squares as 256 : 16 : 0 : 1 : 16.
    (2.0, np.array([256, 16, 0, 1, 16]) / 289),
    # p^a would be 0 for all, in floats.
    (5000.0, [1, 0, 0, 0, 0]),
  ],
)
def test_powers(exponent, expected):
  np.testing.assert_allclose(
    targets.power(_P, exponent), expected, rtol=1e-12, atol=1e-300
  )


def test_groups_alike_and_inside_by_data():
  # Groups x: .64 + .16 = .8, y: .04 + .16 = .2; a half each.
  found = targets.equal_groups(_P, ['x', 'x', 'y', 'y', 'y'])
  np.testing.assert_allclose(found, [0.4, 0.1, 0, 0.1, 0.4], rtol=1e-12)
  with pytest.raises(ValueError, match="group 'y' has no data"):
    targets.equal_groups(_P, ['x', 'x', 'y', 'x', 'x'])


def test_given_numbers_are_divided_by_their_sum():
  found = targets.given(np.array([3.0, 0, 0, 1, 4]), _P)
  np.testing.assert_allclose(found, [3 / 8, 0, 0, 1 / 8, 1 / 2], rtol=1e-15)
  huge = targets.given(np.array([1e308, 1e308, 0, 1e308, 1e308]), _P)
  np.testing.assert_allclose(huge, [0.25, 0.25, 0, 0.25, 0.25])


@pytest.mark.parametrize(
  'weights, message',
  [
    ([0, 0, 0, 0, 0], 'not all 0'),
    ([1, -1, 0, 1, 1], 'finite numbers >= 0'),
    ([1, np.nan, 0, 1, 1], 'finite numbers >= 0'),
    ([1, np.inf, 0, 1, 1], 'finite numbers >= 0'),
    ([1, 1, 1, 1, 1], 'Client 2 has a share of the target but no data'),
  ],
)
def test_numbers_that_are_no_target_are_refused(weights, message):
  with pytest.raises(ValueError, match=message):
    targets.given(np.array(weights, float), _P)


@hypothesis.given(
  st.lists(st.integers(0, 1000), min_size=1, max_size=20).filter(any),
  st.floats(0, 50),
)
def test_all_are_distributions_and_the_order_of_data_stays(sizes, exponent):
  p = np.array(sizes) / sum(sizes)
  halves = ['one' if p[k] == p.max() else 'other' for k in range(p.size)]
  others = p[p < p.max()]
  if not others.any():
    halves = ['one'] * p.size
  for target in (
    targets.uniform(p),
    targets.power(p, exponent),
    targets.equal_groups(p, halves),
    targets.given(np.array(sizes, float), p),
  ):
    assert target.sum() == pytest.approx(1)
    assert (target >= 0).all() and not target[p == 0].any()
  raised = targets.power(p, exponent)
  assert (np.diff(raised[np.argsort(p)]) >= 0).all()


@pytest.mark.parametrize(
  'text, expected',
  [
    ('data', ('data', 1.0, '')),
    ('uniform', ('uniform', 1.0, '')),
    ('groups', ('groups', 1.0, '')),
    ('power:0.5', ('power', 0.5, '')),
    ('power:2', ('power', 2.0, '')),
    ('file:a:b.csv', ('file', 1.0, 'a:b.csv')),
  ],
)
def test_names(text, expected):
  assert targets.parse(text) == expected


@pytest.mark.parametrize(
  'text',
  ['', 'p', 'power', 'power:', 'power:-1', 'power:nan', 'power:inf', 'power:x',
   'file', 'file:', 'data:', 'groups:2', 'uniform:1'],
)
def test_other_names_are_refused(text):
  with pytest.raises(ValueError, match='target is .* must be data, uniform'):
    targets.parse(text)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
