"""Tests of `fixed_policy`: it attains what it is asked for, or refuses."""

import dataclasses
import itertools
import math
import sys

import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import rates
from f3ast_tff.theory import fixed_policy
from f3ast_tff.theory import optimal_rates
from f3ast_tff.theory import population as population_lib
from tests import systems

_TWO = systems.population([0.375, 0.8])


def _p(n, seed=0):
  return np.random.default_rng(seed).dirichlet(np.full(n, 0.7))


def _hundred(name='home_devices', constraint='10'):
  p = np.maximum(_p(100), 1e-3)
  p /= p.sum()
  population = population_lib.population_of(
    availability.parse(name, p, 0), communication.parse(constraint)
  )
  return population, optimal_rates.solve(population, p).rates


def _empirical(policy, population, num_rounds=20_000):
  """Mean and standard error of who is selected, by actually selecting."""
  rng = np.random.default_rng(7)
  available, k, _ = fixed_policy.draw_rounds(population, num_rounds, rng)
  selected = fixed_policy.choose(policy, available, k, rng)
  assert not (selected & ~available).any()
  assert (selected.sum(axis=1) <= k).all()
  rate = selected.mean(axis=0)
  return rate, np.sqrt(rate * (1 - rate) / num_rounds)


def test_two_clients_by_hand():
  # Both are there with probability .3, and then client 0 comes first with
  # probability s = e^d / (1 + e^d), d the difference of the prices:
  # r_0 = .075 + .3 s = .3 for s = 3/4, so d = log 3.
  policy = fixed_policy.fit(_TWO, np.array([0.3, 0.575]))
  assert policy.prices[0] - policy.prices[1] == pytest.approx(
    math.log(3), abs=0.02
  )
  np.testing.assert_array_equal(policy.keep, [1, 1])


def test_rates_on_the_boundary_are_a_strict_priority():
  policy = fixed_policy.fit(_TWO, np.array([0.375, 0.5]), iterations=5)
  np.testing.assert_array_equal(policy.blocks, [0, 1])
  np.testing.assert_allclose(
    policy.realised, [0.375, 0.5], atol=5 * policy.errors.max()
  )


def test_rates_inside_are_thinned():
  target = np.array([0.1, 0.2])
  policy = fixed_policy.fit(_TWO, target, iterations=60)
  # All that the two can be had together is .875, shared 1 to 2.
  np.testing.assert_allclose(policy.keep, 0.3 / 0.875)
  rate, error = _empirical(policy, _TWO)
  assert (np.abs(rate - target) < 5 * error + 2e-3 * target).all()


@pytest.mark.parametrize(
  'name, constraint',
  [
    ('home_devices', '10'),
    ('smartphones', '10'),
    ('uneven', '10'),
    ('always', '10'),
    ('scarce', 'schedule:12,3,0,40'),
  ],
)
def test_a_hundred_clients_get_the_best_rates(name, constraint):
  population, target = _hundred(name, constraint)
  policy = fixed_policy.fit(population, target, iterations=100, test_batches=20)
  rate, error = _empirical(policy, population)
  # 100 comparisons; prices are off by some 1e-3.
  assert (np.abs(rate - target) < 5 * error + 5e-3 * target).all()
  # What it says of itself is true.
  combined = np.sqrt(error**2 + policy.errors**2) + 1e-9
  assert (np.abs(rate - policy.realised) < 5 * combined).all()


def test_seven_hundred_clients():
  p = _p(715)
  population = population_lib.population_of(
    availability.home_devices(715), communication.fixed(10)
  )
  target = optimal_rates.solve(population, p).rates
  policy = fixed_policy.fit(population, target, iterations=80, test_batches=20)
  relative = policy.realised / target - 1
  assert np.sqrt((relative**2).mean()) < 0.01


def test_realised_is_the_exact_rate_of_a_small_system():
  # Three clients, K = 1, by hand: among the available ones client k rings first
  # with probability speed_k / (sum of speeds).
  q = np.array([0.9, 0.5, 0.7])
  population = dataclasses.replace(_TWO, q=q)
  shared, _ = optimal_rates.share_out(population, np.array([0.5, 0.3, 0.2]))
  policy = fixed_policy.fit(population, shared, test_batches=100)
  exact = np.zeros(3)
  for mask in itertools.product((0, 1), repeat=3):
    mask = np.array(mask)
    speed = mask * np.exp(policy.prices)
    if mask.any():
      exact += np.where(mask, q, 1 - q).prod() * speed / speed.sum()
  np.testing.assert_array_equal(policy.blocks, 0)
  assert (np.abs(policy.realised - exact) < 5 * policy.errors).all()
  np.testing.assert_allclose(exact, shared, rtol=5e-3)


def test_a_client_that_is_not_wanted_is_not_selected():
  population = dataclasses.replace(_TWO, q=np.array([0.375, 0.8, 0.9]))
  target = np.array([0.375, 0.5, 0.0])
  policy = fixed_policy.fit(population, target, iterations=5)
  rate, _ = _empirical(policy, population, 5000)
  assert rate[2] == 0
  p = np.array([0.5, 0.5, 0.0])
  assert np.isfinite(rates.weights(p, policy.target)).all()


def test_same_seed_same_policy():
  target = np.array([0.3, 0.575])
  a, b, c = (
    fixed_policy.fit(_TWO, target, seed, iterations=3) for seed in (1, 1, 2)
  )
  np.testing.assert_array_equal(a.prices, b.prices)
  np.testing.assert_array_equal(a.realised, b.realised)
  assert (a.prices != c.prices).any()


@pytest.mark.parametrize(
  'target, message',
  [
    ([0.375, 0.51], 'not achievable'),
    ([0.4, 0.1], 'not achievable'),
    ([0.1, np.nan], 'not finite'),
    ([0.1, -0.1], '>= 0'),
    ([0.1], 'each of the 2 clients'),
  ],
)
def test_targets_outside_of_the_region_are_refused(target, message):
  with pytest.raises(ValueError, match=message):
    fixed_policy.fit(_TWO, np.array(target))


def test_a_fit_needs_rounds():
  with pytest.raises(ValueError, match='at least 1 iteration'):
    fixed_policy.fit(_TWO, np.array([0.1, 0.1]), iterations=0)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
