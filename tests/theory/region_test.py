"""Tests of `region` against numbers by hand and against other solvers."""

import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest
from scipy import optimize

from f3ast_tff import rates
from f3ast_tff.theory import region
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


@pytest.mark.parametrize('seed', range(8))
def test_optimum_is_proved_without_the_theory_of_polymatroids(seed):
  system, p = systems.random_system(seed)
  for correlation in rates.CORRELATIONS:
    best = region.minimise_h(system, p, correlation)
    h = rates.variance_bound(p, best, correlation)
    # A policy attains it, and no policy improves it to first order.
    attained, _ = static_policy.moments(static_policy.policy_for(system, best))
    np.testing.assert_allclose(attained, best, atol=1e-7)
    scores = -rates.gradient(p, best, correlation)
    gap = scores @ (_best_response(system, scores) - best)
    assert abs(gap) <= 1e-9 * h
    assert region.duality_gap(system, p, best, correlation) == pytest.approx(
      gap, abs=1e-9 * h
    )


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
  system = region.independent(np.array([0.375, 0.8, 0.9]), 1)
  best = region.minimise_h(system, np.array([0.5, 0.5, 0.0]))
  np.testing.assert_allclose(best, [0.375, 0.5, 0], rtol=1e-12)


def test_configurations_come_as_often_as_they_should():
  model = region.Configurations(systems.TWO, seed=3)
  np.testing.assert_allclose(model.probabilities(5), [0.375, 0.8])
  assert model.num_clients == 2 and not model.positively_correlated
  masks = np.array([model(t) for t in range(1, 4001)])
  np.testing.assert_array_equal(model(17), masks[16])
  for mask, chance in zip(systems.TWO.masks, systems.TWO.probabilities):
    found = (masks == mask).all(axis=1).mean()
    assert abs(found - chance) < 5 * np.sqrt(chance * (1 - chance) / 4000)
  other = region.Configurations(systems.TWO, seed=4)
  assert any((other(t) != masks[t - 1]).any() for t in range(1, 50))
  with pytest.raises(ValueError, match='count from 1'):
    model.probabilities(0)


@pytest.mark.parametrize(
  'call, message',
  [
    (lambda: region.independent(np.array([0.5, 1.5]), 1), 'probability'),
    (lambda: region.independent(np.array([0.5, np.nan]), 1), 'probability'),
    (lambda: region.independent(np.full(20, 0.5), 1), 'at most 12 clients'),
    (lambda: region.independent(np.full(3, 0.5), -1), 'whole number'),
    (
      lambda: region.System(np.ones((2, 2), bool), np.full(2, 0.5), 1), 'once'
    ),
    (lambda: region.System(np.eye(2), np.full(2, 0.5), 1), 'boolean'),
    (
      lambda: region.System(np.eye(2, dtype=bool), np.full(3, 0.5), 1),
      'one number for each of the 2',
    ),
    (
      lambda: region.System(np.eye(2, dtype=bool), np.full(2, 0.4), 1),
      'sum to 1',
    ),
    (
      lambda: region.System(
        np.eye(2, dtype=bool), np.array([np.nan, 1.0]), 1
      ),
      'sum to 1',
    ),
    (lambda: region.contains(systems.TWO, np.ones(3)), 'each of the 2 clients'),
    (
      lambda: region.minimise_h(systems.TWO, np.array([0.5, np.nan])),
      '2 clients',
    ),
    (lambda: region.minimise_h(systems.TWO, np.array([0.5, 0.4])), 'sum to 1'),
    (
      lambda: region.minimise_h(
        region.independent(np.array([0.0, 1.0]), 1), systems.HALVES
      ),
      'client 0 has data but can never',
    ),
    (
      lambda: region.minimise_h(
        region.independent(np.array([0.5, 1.0]), 0), systems.HALVES
      ),
      'can never take part',
    ),
    (
      lambda: region.vertices(region.independent(np.full(8, 0.5), 1)),
      'at most 7 clients',
    ),
  ],
)
def test_bad_values_are_named(call, message):
  with pytest.raises(ValueError, match=message):
    call()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
