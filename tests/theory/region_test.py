"""Tests of `region` against numbers by hand and against other solvers."""

import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest
from scipy import optimize

from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import groups
from f3ast_tff import rates
from f3ast_tff.theory import optimal_rates
from f3ast_tff.theory import region
from f3ast_tff.theory import small_system
from f3ast_tff.theory import static_policy
from tests import systems


def _best_response(system, scores):
  """The best rates for linear scores: the top K in each configuration."""
  best = np.zeros(scores.size)
  for mask, probability in zip(system.masks, system.probabilities):
    candidates = np.flatnonzero(mask)
    top = candidates[np.argsort(-scores[candidates])][: system.k]
    best[top] += probability
  return best


def test_introduction_by_hand():
  np.testing.assert_allclose(
    region.vertices(systems.TWO),
    [[0, 0], [0, 0.8], [0.075, 0.8], [0.375, 0], [0.375, 0.5]],
    atol=1e-12,
  )
  np.testing.assert_allclose(region.naive_rates(systems.TWO), [0.225, 0.65])
  assert region.rank(systems.TWO, []) == 0
  assert region.rank(systems.TWO, [0]) == pytest.approx(0.375)
  assert region.rank(systems.TWO, [1]) == pytest.approx(0.8)
  assert region.rank(systems.TWO, [0, 1]) == pytest.approx(0.875)


@pytest.mark.parametrize(
  'r, inside',
  [
    ((0.375, 0), True),
    ((0.375, 0.5), True),
    ((0.225, 0.65), True),
    ((0.5, 0.5), False),  # The "ideal" rates.
    ((0.37, 0.51), False),
    ((0.38, 0), False),
    ((0, 0.81), False),
    ((-0.01, 0.1), False),
  ],
)
def test_what_is_inside_by_hand(r, inside):
  assert region.contains(systems.TWO, np.array(r)) == inside
  if not inside:
    with pytest.raises(ValueError, match='not achievable'):
      static_policy.policy_for(systems.TWO, np.array(r))


def test_optimum_of_the_introduction():
  best = region.minimise_h(systems.TWO, systems.HALVES)
  np.testing.assert_allclose(best, [0.375, 0.5], rtol=1e-12)
  assert rates.variance_bound(systems.HALVES, best) == pytest.approx(7 / 6)


@pytest.mark.parametrize('correlation', rates.CORRELATIONS)
@pytest.mark.parametrize('p1', [0.9, 0.2, 0.05])
def test_optimum_against_a_fine_grid(p1, correlation):
  p = np.array([p1, 1 - p1])
  r1 = np.linspace(1e-4, 0.375, 200_001)
  r2 = np.minimum(0.8, 0.875 - r1)
  c = p if correlation == 'positive' else p**2
  h = c[0] / r1 + c[1] / r2
  best = region.minimise_h(systems.TWO, p, correlation)
  np.testing.assert_allclose(best, [r1[h.argmin()], r2[h.argmin()]], atol=1e-5)
  assert rates.variance_bound(p, best, correlation) <= h.min() + 1e-12


def _chance_of(system, *clients):
  """Returns how likely it is that just these clients are available."""
  mask = np.isin(np.arange(system.num_clients), clients)
  return float(system.probabilities[(system.masks == mask).all(axis=1)].sum())


def test_a_cluster_by_hand():
  # Both in one cluster, on for 1/4 of the rounds.
  model = availability.clusters(np.array([0.5, 0.8]), 0, 1, 0.3, 0.1)
  system = small_system.of_model(model, 1)
  assert _chance_of(system, 0, 1) == pytest.approx(0.25 * 0.4)
  assert _chance_of(system, 0) == pytest.approx(0.25 * 0.1)
  assert _chance_of(system, 1) == pytest.approx(0.25 * 0.4)
  assert _chance_of(system) == pytest.approx(0.75 + 0.25 * 0.1)


def test_blocks_by_hand():
  # One client in each of two blocks: they never meet, so K = 1 is no limit.
  q = np.array([0.6, 0.8])
  system = small_system.of_model(availability.blocks(q), 1)
  assert _chance_of(system, 0, 1) == 0
  np.testing.assert_allclose(
    region.minimise_h(system, systems.HALVES), [0.3, 0.4]
  )
  # The same, independent of each other, share the rounds in which they meet.
  apart = region.minimise_h(small_system.independent(q / 2, 1), systems.HALVES)
  assert apart.sum() == pytest.approx(1 - 0.7 * 0.6)


@pytest.mark.parametrize('correlation', rates.CORRELATIONS)
@pytest.mark.parametrize(
  'make',
  [
    lambda q: availability.sine(q, period=4),
    lambda q: availability.staircase(q, period=4),
    lambda q: availability.interleaved(q, least=0.01),  # Nothing is below.
    lambda q: availability.clusters(q, 0, 1, 0.2, 0.3),
    lambda q: availability.persistent(q),
  ],
)
def test_many_clients_have_the_best_rates_of_few(make, correlation):
  rng = np.random.default_rng(4)
  q, p = rng.uniform(0.1, 0.9, 6), rng.dirichlet(np.ones(6))
  system = small_system.of_model(make(q), 2)
  found = optimal_rates.for_model(
    make(q), communication.fixed(2), p, correlation
  )
  np.testing.assert_allclose(
    found.rates, region.minimise_h(system, p, correlation), rtol=1e-9
  )
  assert found.duality_gap <= 1e-9 * found.variance_bound


def test_a_model_of_many_clients_is_refused():
  with pytest.raises(ValueError, match='at most 12 clients, but there are 13'):
    small_system.of_model(availability.always(13), 1)


def _assert_optimal(system, p, correlation, best_response):
  """A policy attains the optimum, and none improves it to first order."""
  best = region.minimise_h(system, p, correlation)
  h = rates.variance_bound(p, best, correlation)
  attained, _ = static_policy.moments(static_policy.policy_for(system, best))
  np.testing.assert_allclose(attained, best, atol=1e-7)
  scores = -rates.gradient(p, best, correlation)
  gap = scores @ (best_response(system, scores) - best)
  assert abs(gap) <= 1e-9 * h
  assert region.duality_gap(system, p, best, correlation) == pytest.approx(
    gap, abs=1e-9 * h
  )


@pytest.mark.parametrize('seed', range(8))
def test_optimum_is_proved_without_the_theory_of_polymatroids(seed):
  system, p = systems.random_system(seed)
  for correlation in rates.CORRELATIONS:
    _assert_optimal(system, p, correlation, _best_response)


@pytest.mark.parametrize('seed', range(4))
def test_optimum_against_sequential_quadratic_programming(seed):
  system, p = systems.random_system(seed)
  sets = np.array([[u >> k & 1 for k in range(6)] for u in range(1, 64)])
  bounds = np.array([region.rank(system, np.flatnonzero(u)) for u in sets])
  x = region.naive_rates(system)
  for _ in range(5):  # It stops early; starting again there helps.
    x = optimize.minimize(
      lambda r: (p**2 / r).sum(),
      x,
      jac=lambda r: -(p**2) / r**2,
      method='SLSQP',
      bounds=[(1e-6, 1)] * 6,
      constraints={
        'type': 'ineq',
        'fun': lambda r: bounds - sets @ r,
        'jac': lambda r: -sets,
      },
      options={'ftol': 1e-16, 'maxiter': 500},
    ).x
  best = region.minimise_h(system, p)
  assert rates.variance_bound(p, best) == pytest.approx(
    (p**2 / x).sum(), rel=1e-6
  )


@hypothesis.given(
  st.integers(0, 10**6), st.sampled_from(rates.CORRELATIONS)
)
@hypothesis.settings(max_examples=40)
def test_no_feasible_rates_are_better(seed, correlation):
  system, p = systems.random_system(seed, n=4)
  best = region.minimise_h(system, p, correlation)
  assert region.contains(system, best)
  h = rates.variance_bound(p, best, correlation)
  assert region.duality_gap(system, p, best, correlation) >= -1e-9 * h
  corners = region.vertices(system)
  rng = np.random.default_rng(seed)
  for mix in rng.dirichlet(np.full(len(corners), 0.3), 20):
    other = mix @ corners
    assert region.contains(system, other)
    other_h = rates.variance_bound(p, other, correlation)
    assert h <= other_h * (1 + 1e-9)


def test_clients_without_data_get_nothing_and_do_not_disturb():
  system = small_system.independent(np.array([0.375, 0.8, 0.9]), 1)
  best = region.minimise_h(system, np.array([0.5, 0.5, 0.0]))
  np.testing.assert_allclose(best, [0.375, 0.5, 0], rtol=1e-12)


def _always(k, least, most):
  """Four clients that are always available, in two groups of two."""
  bounds = groups.Bounds(
    np.array([0, 0, 1, 1]), np.array(least), np.array(most)
  )
  return small_system.System(np.ones((1, 4), bool), np.ones(1), k, bounds)


@pytest.mark.parametrize(
  'k, least, most, expected',
  [
    # No bound is felt: K p.
    (2, [0, 0], [2, 2], [0.8, 0.6, 0.4, 0.2]),
    # One of each group, shared by p inside.
    (2, [0, 0], [1, 2], [4 / 7, 3 / 7, 2 / 3, 1 / 3]),
    (2, [0, 1], [2, 2], [4 / 7, 3 / 7, 2 / 3, 1 / 3]),
    # One of the second group at most, so two of three places are the first's.
    (3, [0, 0], [2, 1], [1, 1, 2 / 3, 1 / 3]),
    # Both of the second group, so that one place is left.
    (3, [0, 2], [2, 2], [4 / 7, 3 / 7, 1, 1]),
  ],
)
def test_the_best_rates_with_quotas_by_hand(k, least, most, expected):
  p = np.array([0.4, 0.3, 0.2, 0.1])
  best = region.minimise_h(_always(k, least, most), p)
  np.testing.assert_allclose(best, expected, rtol=1e-12)


def test_the_region_with_quotas_by_hand():
  # One or two of the second group take part in each round; one of two in all.
  system = _always(2, [0, 1], [1, 2])
  assert region.rank(system, [0, 1]) == 1
  assert region.rank(system, [2, 3]) == 2
  assert region.rank(system, [0, 2]) == 2
  for r, inside in (
    ([0.5, 0.5, 0.6, 0.4], True),
    ([0, 0, 1, 1], True),
    ([0, 0, 0.3, 0.7], True),
    ([0, 0, 0.3, 0.6], False),  # Less than one of the second group.
    ([0.6, 0.5, 0.5, 0.5], False),  # More than one of the first.
    ([0.5, 0.5, 0.6, 0.5], False),  # More than two.
  ):
    assert region.contains(system, np.array(r)) == inside
  np.testing.assert_array_equal(
    region.vertices(system),
    [
      [0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 1, 1],
      [0, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 1, 0],
    ],
  )
  with pytest.raises(ValueError, match='without quotas'):
    region.naive_rates(system)


def _linear_best(system, scores):
  """The best rates with quotas for linear scores, by brute force."""
  best = np.zeros(scores.size)
  for mask, probability in zip(system.masks, system.probabilities):
    chosen = max(
      systems.feasible_sets(mask, system.k, system.bounds),
      key=lambda s: scores[list(s)].sum(),
    )
    best[list(chosen)] += probability
  return best


@pytest.mark.parametrize('seed', range(8))
def test_the_vertices_with_quotas_are_the_best_in_every_direction(seed):
  system, _ = systems.with_quotas(seed, n=4)
  corners = region.vertices(system)
  assert all(region.contains(system, corner) for corner in corners)
  rng = np.random.default_rng(seed)
  for scores in rng.normal(rng.normal(size=(40, 1)), size=(40, 4)):
    assert (corners @ scores).max() == pytest.approx(
      scores @ _linear_best(system, scores), abs=1e-9
    )


@pytest.mark.parametrize('seed', range(6))
def test_what_is_inside_with_quotas_is_what_some_policy_attains(seed):
  system, _ = systems.with_quotas(seed, n=4)
  sets, owner = [], []
  for c, mask in enumerate(system.masks):
    for chosen in systems.feasible_sets(mask, system.k, system.bounds):
      sets.append(np.isin(np.arange(4), chosen))
      owner.append(c)
  rows = np.array(sets) * system.probabilities[owner][:, None]
  ones = np.array(owner) == np.arange(len(system.masks))[:, None]
  corners = region.vertices(system)
  rng = np.random.default_rng(seed)
  found = []
  for i in range(24):  # Inside, and near it.
    inside = rng.dirichlet(np.full(len(corners), 0.2)) @ corners
    r = np.maximum(0, inside + i % 2 * rng.normal(scale=0.1, size=4))
    solved = optimize.linprog(
      np.zeros(len(sets)),
      A_eq=np.concatenate([rows.T, ones]),
      b_eq=np.concatenate([r, np.ones(len(system.masks))]),
    )
    assert region.contains(system, r) == (solved.status == 0)
    found.append(solved.status == 0)
  assert 12 <= sum(found) < 24


@pytest.mark.parametrize('seed', range(12))
def test_the_optimum_with_quotas_is_proved_by_brute_force(seed):
  system, p = systems.with_quotas(seed)
  for correlation in rates.CORRELATIONS:
    _assert_optimal(system, p, correlation, _linear_best)


@pytest.mark.parametrize(
  'call, message',
  [
    (lambda: region.contains(systems.TWO, np.ones(3)), 'each of the 2 clients'),
    (
      lambda: region.minimise_h(systems.TWO, np.array([0.5, np.nan])),
      '2 clients',
    ),
    (lambda: region.minimise_h(systems.TWO, np.array([0.5, 0.4])), 'sum to 1'),
    (
      lambda: region.minimise_h(
        small_system.independent(np.array([0.0, 1.0]), 1), systems.HALVES
      ),
      'client 0 has data but can never',
    ),
    (
      lambda: region.minimise_h(
        small_system.independent(np.array([0.5, 1.0]), 0), systems.HALVES
      ),
      'can never take part',
    ),
    (
      lambda: region.vertices(small_system.independent(np.full(8, 0.5), 1)),
      'at most 7 clients',
    ),
  ],
)
def test_bad_values_are_named(call, message):
  with pytest.raises(ValueError, match=message):
    call()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
