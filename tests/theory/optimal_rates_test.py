"""Tests of `optimal_rates` against exact small systems and enumeration."""

import itertools
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest
from scipy import optimize

from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import rates
from f3ast_tff.theory import optimal_rates
from f3ast_tff.theory import population as population_lib
from f3ast_tff.theory import region
from tests import systems


def test_introduction():
  population = systems.population([0.375, 0.8])
  best = optimal_rates.solve(population, np.array([0.5, 0.5]))
  np.testing.assert_allclose(best.rates, [0.375, 0.5], rtol=1e-12)
  assert best.variance_bound == pytest.approx(7 / 6)
  assert best.duality_gap < 1e-12
  assert [block.tolist() for block in best.blocks] == [[0], [1]]


def test_always_by_hand():
  # q = 1, K = 2: the client with half of the data is always in, the others
  # share one place by p.
  best = optimal_rates.solve(
    systems.population(np.ones(4), 2), np.array([0.7, 0.15, 0.09, 0.06])
  )
  np.testing.assert_allclose(best.rates, [1, 0.5, 0.3, 0.2], rtol=1e-12)
  assert [block.tolist() for block in best.blocks] == [[0], [1, 2, 3]]
  # sum p / r: they share by sqrt(p).
  best = optimal_rates.solve(
    systems.population(np.ones(3), 1),
    np.array([0.64, 0.32, 0.04]),
    rates.POSITIVE,
  )
  root = np.sqrt([0.64, 0.32, 0.04])
  np.testing.assert_allclose(best.rates, root / root.sum(), rtol=1e-12)


@pytest.mark.parametrize('factors', [1, 3])
@pytest.mark.parametrize('seed', range(8))
def test_against_the_exact_small_system(seed, factors):
  population, p = systems.random_population(seed, factors)
  for correlation in rates.CORRELATIONS:
    best = optimal_rates.solve(population, p, correlation)
    exact = region.minimise_h(systems.system_of(population), p, correlation)
    np.testing.assert_allclose(best.rates, exact, rtol=1e-7, atol=1e-10)
    assert best.duality_gap <= 1e-9 * best.variance_bound


def test_random_k_against_enumeration():
  q = np.array([0.9, 0.3, 0.6, 0.5])
  factors, k, shares = np.array([1, 0.5, 0.5]), np.array([2, 1, 0]), [
    0.5, 0.3, 0.2
  ]
  population = systems.population(q, k, factors, shares)

  def rank(members):
    total = 0.0
    for kind in range(3):
      for mask in itertools.product((0, 1), repeat=len(members)):
        chance = np.prod([
          factors[kind] * q[m] if there else 1 - factors[kind] * q[m]
          for m, there in zip(members, mask)
        ])
        total += shares[kind] * chance * min(k[kind], sum(mask))
    return total

  order = [2, 0, 3, 1]
  np.testing.assert_allclose(
    np.cumsum(optimal_rates.gains(population, np.array(order))),
    [rank(order[:size]) for size in (1, 2, 3, 4)],
    rtol=1e-12,
  )
  sets = [
    list(s)
    for size in (1, 2, 3, 4)
    for s in itertools.combinations(range(4), size)
  ]
  p = np.array([0.1, 0.2, 0.3, 0.4])
  inside = np.array([[m in s for m in range(4)] for s in sets], float)
  ranks = np.array([rank(s) for s in sets])
  found = optimize.minimize(
    lambda r: (p**2 / r).sum(),
    np.full(4, 0.05),
    jac=lambda r: -(p**2) / r**2,
    method='SLSQP',
    bounds=[(1e-3, 1)] * 4,
    constraints={'type': 'ineq', 'fun': lambda r: ranks - inside @ r},
    options={'ftol': 1e-15, 'maxiter': 500},
  )
  best = optimal_rates.solve(population, p)
  assert best.variance_bound == pytest.approx(found.fun, rel=1e-6)
  np.testing.assert_allclose(best.rates, found.x, rtol=1e-3)


@hypothesis.given(st.integers(0, 10**6), st.sampled_from(rates.CORRELATIONS))
@hypothesis.settings(max_examples=40)
def test_invariants(seed, correlation):
  population, p = systems.random_population(seed, factors=1 + seed % 3)
  system = systems.system_of(population)
  best = optimal_rates.solve(population, p, correlation)
  assert region.contains(system, best.rates)
  assert optimal_rates.excess(population, best.rates) < 1e-9
  members = np.sort(np.concatenate(best.blocks))
  np.testing.assert_array_equal(members, np.arange(p.size))
  rng = np.random.default_rng(seed)
  for _ in range(5):
    # A random point of R: a mixture of strict priorities, thinned.
    orders = [rng.permutation(p.size) for _ in range(3)]
    mix = rng.dirichlet(np.ones(3))
    other = rng.uniform(0.5, 1) * sum(
      share * region.greedy(system, order.tolist())
      for share, order in zip(mix, orders)
    )
    gap = optimal_rates.duality_gap(population, p, other, correlation)
    above = (
      rates.variance_bound(p, other, correlation) - best.variance_bound
    )
    assert -1e-9 * best.variance_bound <= above
    assert above <= gap * (1 + 1e-9) + 1e-12


@hypothesis.given(st.integers(0, 10**6))
@hypothesis.settings(max_examples=40)
def test_excess_is_the_worst_set(seed):
  population, _ = systems.random_population(seed, factors=2)
  system = systems.system_of(population)
  rng = np.random.default_rng(seed)
  r = rng.uniform(0, 1, population.num_clients) * rng.uniform(0, 1)
  sets = itertools.product((False, True), repeat=r.size)
  worst = max(
    r[list(s)].sum() - region.rank(system, np.flatnonzero(s)) for s in sets
  )
  found = optimal_rates.excess(population, r)
  assert found == pytest.approx(worst, abs=1e-12)


def test_sharing_out_covers_rates_that_leave_something_over():
  population, _ = systems.random_population(4)
  small = 0.3 * optimal_rates.gains(
    population, np.arange(population.num_clients)
  )
  shared, _ = optimal_rates.share_out(population, small)
  assert (shared >= small).all()
  everyone = range(population.num_clients)
  total = region.rank(systems.system_of(population), everyone)
  assert shared.sum() == pytest.approx(total)


@pytest.mark.parametrize('k', [10, 100])
@pytest.mark.parametrize('name', availability.PAPER)
def test_a_thousand_clients(name, k):
  p = np.random.default_rng(0).dirichlet(np.full(1000, 0.5))
  p = np.maximum(p, 1e-6) / np.maximum(p, 1e-6).sum()
  model = availability.parse(name, p, 0)
  best = optimal_rates.for_model(model, communication.fixed(k), p)
  assert best.duality_gap <= 1e-10 * best.variance_bound
  population = population_lib.population_of(model, communication.fixed(k))
  assert optimal_rates.excess(population, best.rates) < 1e-9


def test_a_schedule_in_step_with_the_day_is_seen_as_such():
  # Two hours, f = 1 and 0; K = 1 in the good hour only, or in the bad one only.
  model = availability.Independent(np.ones(2), np.array([1.0, 0.0]))
  p = np.array([0.5, 0.5])
  best = optimal_rates.for_model(model, communication.Schedule((1, 0)), p)
  np.testing.assert_allclose(best.rates, [0.25, 0.25])
  with pytest.raises(ValueError, match='can never take part'):
    optimal_rates.for_model(model, communication.Schedule((0, 1)), p)


def test_markov_depends_on_its_stationary_probabilities_only():
  q, p = np.array([0.375, 0.8]), np.array([0.5, 0.5])
  slow = availability.Markov(0.02 * (1 - q), 0.02 * q)
  best = optimal_rates.for_model(slow, communication.fixed(1), p)
  np.testing.assert_allclose(best.rates, [0.375, 0.5], rtol=1e-12)


def test_a_k_above_n_is_n():
  p = np.array([0.5, 0.3, 0.2])
  few, many = (
    optimal_rates.solve(systems.population([0.9, 0.5, 0.2], k), p)
    for k in (3, 2_000_000_000)
  )
  np.testing.assert_array_equal(few.rates, many.rates)


def test_rates_of_0_are_certified_as_far_from_the_best():
  population = systems.population([0.5, 0.0])
  p, r = np.full(2, 0.5), np.array([0.5, 0.0])
  assert optimal_rates.duality_gap(population, p, r) == np.inf


def test_clients_without_data_get_nothing():
  population = systems.population([0.375, 0.0, 0.8, 0.5])
  best = optimal_rates.solve(population, np.array([0.5, 0, 0.5, 0]))
  np.testing.assert_allclose(best.rates, [0.375, 0, 0.5, 0], rtol=1e-12)


@pytest.mark.parametrize(
  'q, k, p, message',
  [
    ([0.5, 0.5], 1, [1 / 3] * 3, 'each of the 2 clients'),
    ([0.5, 0.5], 1, [np.nan] * 2, 'not finite'),
    ([0.5, 0.0], 1, [0.5, 0.5], 'Client 1 can never take part'),
    ([0.5, 0.5], 0, [0.5, 0.5], 'can never take part'),
  ],
)
def test_bad_values_are_named(q, k, p, message):
  with pytest.raises(ValueError, match=message):
    optimal_rates.solve(systems.population(q, k), np.array(p))


def test_negative_rates_are_refused():
  with pytest.raises(ValueError, match='>= 0'):
    optimal_rates.excess(systems.population([0.5]), np.array([-0.1]))


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
