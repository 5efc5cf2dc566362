"""Tests of `rates` against numbers worked out by hand."""

import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import rates

_P = np.array([0.5, 0.3, 0.2])
_R = np.array([0.5, 0.1, 0.25])


def test_variance_bound_by_hand():
  # .25/.5 + .09/.1 + .04/.25 and .5/.5 + .3/.1 + .2/.25
  assert rates.variance_bound(_P, _R) == pytest.approx(0.5 + 0.9 + 0.16)
  assert rates.variance_bound(_P, _R, rates.POSITIVE) == pytest.approx(4.8)


def test_gradient_by_hand():
  np.testing.assert_allclose(rates.gradient(_P, _R), [-1, -9, -0.64])
  np.testing.assert_allclose(
    rates.gradient(_P, _R, rates.POSITIVE), [-2, -30, -3.2]
  )


@hypothesis.given(
  st.lists(st.floats(0.05, 1), min_size=2, max_size=5),
  st.sampled_from(rates.CORRELATIONS),
)
def test_gradient_is_the_derivative(r, correlation):
  r = np.array(r)
  p = np.arange(1, r.size + 1) / np.arange(1, r.size + 1).sum()
  step = 1e-6
  for k in range(r.size):
    bump = step * (np.arange(r.size) == k)
    slope = (
      rates.variance_bound(p, r + bump, correlation)
      - rates.variance_bound(p, r - bump, correlation)
    ) / (2 * step)
    assert rates.gradient(p, r, correlation)[k] == pytest.approx(slope, 1e-3)


def test_update_by_hand():
  np.testing.assert_allclose(
    rates.update(_R, np.array([1, 0, 1]), 0.1), [0.55, 0.09, 0.325]
  )


def test_weights_by_hand():
  np.testing.assert_allclose(rates.weights(_P, _R), [1, 3, 0.8])


@pytest.mark.parametrize(
  'q, beta, error', [(0.2, 0.01, -0.020), (0.05, 0.01, -0.098)]
)
def test_weights_are_a_little_small_for_rare_clients(q, beta, error):
  """r(t) has the round in it that it weights: to first order beta (1-q)/(2q).

  The errors are those of an independent simulation. With r(t-1) they would be
  +.021 and +.115.
  """
  rng = np.random.default_rng(0)
  num_clients, num_rounds = 400, 15_000
  r, p = np.full(num_clients, q), np.full(num_clients, 1 / num_clients)
  total = np.zeros(num_clients)
  for _ in range(num_rounds):
    selected = rng.random(num_clients) < q
    r = rates.update(r, selected, beta)
    total += selected * rates.weights(p, r)
  assert total.sum() / num_rounds - 1 == pytest.approx(error, abs=0.004)


def test_a_rate_of_zero_is_infinitely_urgent_unless_the_client_has_no_data():
  p, r = np.array([1.0, 0.0]), np.zeros(2)
  np.testing.assert_array_equal(rates.gradient(p, r), [-np.inf, 0])
  assert rates.variance_bound(p, r) == np.inf


def test_initial_rates_by_hand():
  np.testing.assert_allclose(rates.initial(_P, 3, 'kp'), [1, 0.9, 0.6])
  np.testing.assert_allclose(rates.initial(_P, 3, 'p'), _P)
  np.testing.assert_allclose(rates.initial(_P, 1.5, 'uniform'), [0.5] * 3)
  np.testing.assert_allclose(rates.initial(_P, 9, 'uniform'), [1] * 3)


def test_the_tie_point_by_hand():
  # K p for sum p^2 / r. For sum p / r: the roots of p are .8, .4, .4 and .2, of
  # sum 1.8.
  p = np.array([0.64, 0.16, 0.16, 0.04])
  np.testing.assert_allclose(rates.initial(p, 1.5, 'tie'), 1.5 * p)
  np.testing.assert_allclose(
    rates.initial(_P, 3, 'tie'), rates.initial(_P, 3, 'kp')
  )
  np.testing.assert_allclose(
    rates.initial(p, 1.5, 'tie', rates.POSITIVE), [2 / 3, 1 / 3, 1 / 3, 1 / 6]
  )
  # 3 * .8 / 1.8 is above 1.
  np.testing.assert_allclose(
    rates.initial(p, 3, 'tie', rates.POSITIVE), [1, 2 / 3, 2 / 3, 1 / 3]
  )


@hypothesis.given(
  st.lists(st.integers(0, 50), min_size=1, max_size=9).filter(any),
  st.floats(0.01, 12),
  st.sampled_from(rates.CORRELATIONS),
)
def test_at_the_tie_point_scores_are_equal_and_rates_sum_to_k(
  sizes, k, correlation
):
  p = np.array(sizes) / sum(sizes)
  r = rates.initial(p, k, 'tie', correlation)
  assert ((r >= 0) & (r <= 1)).all() and (r[p == 0] == 0).all()
  scores = -rates.gradient(p, r, correlation)
  is_free = (p > 0) & (r < 1)
  if is_free.any():
    np.testing.assert_allclose(scores[is_free], scores[is_free][0])
    # Who is at 1 would have a higher rate in a tie.
    assert (scores[r == 1] >= scores[is_free].max() * (1 - 1e-9)).all()
  if (r < 1).all():
    assert r.sum() == pytest.approx(k)


@pytest.mark.parametrize('beta', [0.001, 0.01, 0.07, 0.3, 1.0])
def test_corrected_steps_leave_nothing_of_the_first_rates(beta):
  # With beta / (1 - (1 - beta)) some of these would be 1 - 1e-14.
  assert rates.step(beta, 'corrected', 1) == 1
  r = rates.update(_R, np.array([0, 1, 0]), rates.step(beta, 'corrected', 1))
  np.testing.assert_array_equal(r, [0, 1, 0])
  # Two rounds: the weights of the moving average, normalised.
  r = rates.update(r, np.array([1, 0, 0]), rates.step(beta, 'corrected', 2))
  np.testing.assert_allclose(r, np.array([1, 1 - beta, 0]) / (2 - beta))


@pytest.mark.parametrize(
  'call, message',
  [
    (lambda: rates.check(np.array([]), 0.1), 'N >= 1'),
    (lambda: rates.check(np.array([0.5, 0.4]), 0.1), 'sum to 1'),
    (lambda: rates.check(np.array([1.5, -0.5]), 0.1), '>= 0'),
    (lambda: rates.check(_P, 0.0), 'beta'),
    (lambda: rates.check(_P, float('nan')), 'beta'),
    (lambda: rates.parse_step(3), 'annealed:T0 .* but it is 3'),
    (lambda: rates.initial(_P, 1, 'zero'), 'kp, p, uniform, tie'),
    (lambda: rates.initial(_P, 1, 'tie', 'some'), 'uncorrelated, positive'),
    (lambda: rates.gradient(_P, _R, 'some'), 'uncorrelated, positive'),
  ],
)
def test_bad_values_are_named(call, message):
  with pytest.raises(ValueError, match=message):
    call()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
