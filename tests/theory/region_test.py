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

_TWO = region.introduction_example()
_HALVES = np.array([0.5, 0.5])


def _random_system(seed, n=6):
  """A joint distribution in which clients may depend on each other."""
  rng = np.random.default_rng(seed)
  masks = np.array([[c >> k & 1 for k in range(n)] for c in range(2**n)], bool)
  probabilities = rng.dirichlet(np.full(2**n, 0.2))
  system = region.System(masks, probabilities, int(rng.integers(1, n)))
  return system, rng.dirichlet(np.full(n, 0.7))


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
    region.vertices(_TWO),
    [[0, 0], [0, 0.8], [0.075, 0.8], [0.375, 0], [0.375, 0.5]],
    atol=1e-12,
  )
  np.testing.assert_allclose(region.naive_rates(_TWO), [0.225, 0.65])
  assert region.rank(_TWO, []) == 0
  assert region.rank(_TWO, [0]) == pytest.approx(0.375)
  assert region.rank(_TWO, [1]) == pytest.approx(0.8)
  assert region.rank(_TWO, [0, 1]) == pytest.approx(0.875)


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
  assert region.contains(_TWO, np.array(r)) == inside
  if not inside:
    with pytest.raises(ValueError, match='not achievable'):
      static_policy.policy_for(_TWO, np.array(r))


def test_optimum_of_the_introduction():
  best = region.minimise_h(_TWO, _HALVES)
  np.testing.assert_allclose(best, [0.375, 0.5], rtol=1e-12)
  assert rates.variance_bound(_HALVES, best) == pytest.approx(7 / 6)


@pytest.mark.parametrize('correlation', rates.CORRELATIONS)
@pytest.mark.parametrize('p1', [0.9, 0.2, 0.05])
def test_optimum_against_a_fine_grid(p1, correlation):
  p = np.array([p1, 1 - p1])
  r1 = np.linspace(1e-4, 0.375, 200_001)
  r2 = np.minimum(0.8, 0.875 - r1)
  c = p if correlation == 'positive' else p**2
  h = c[0] / r1 + c[1] / r2
  best = region.minimise_h(_TWO, p, correlation)
  np.testing.assert_allclose(best, [r1[h.argmin()], r2[h.argmin()]], atol=1e-5)
  assert rates.variance_bound(p, best, correlation) <= h.min() + 1e-12


@pytest.mark.parametrize('seed', range(8))
def test_optimum_is_proved_without_the_theory_of_polymatroids(seed):
  system, p = _random_system(seed)
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
  system, p = _random_system(seed)
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
  system, p = _random_system(seed, n=4)
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


def test_policy_draws_what_it_promises():
  system, p = _random_system(3)
  r = 0.9 * region.minimise_h(system, p) + 0.1 * region.naive_rates(system)
  policy = static_policy.policy_for(system, r)
  rng = np.random.default_rng(0)
  num_rounds = 20_000
  counts = np.zeros(6)
  for c in rng.choice(len(system.masks), num_rounds, p=system.probabilities):
    selected = static_policy.draw(policy, system.masks[c], rng)
    assert system.masks[c][selected].all() and selected.size <= system.k
    counts[selected] += 1
  error = np.sqrt(r * (1 - r) / num_rounds)
  assert (np.abs(counts / num_rounds - r) < 5 * error).all()


def test_moments_by_hand():
  policy = static_policy.policy_for(_TWO, np.array([0.375, 0.5]))
  mean, covariance = static_policy.moments(policy)
  np.testing.assert_allclose(mean, [0.375, 0.5], atol=1e-9)
  # One client at most: E X1 X2 = 0.
  np.testing.assert_allclose(
    covariance, [[0.375 * 0.625, -0.1875], [-0.1875, 0.25]], atol=1e-8
  )


def test_independent_clients_can_be_selected_in_positive_correlation():
  # The proof of the paper's variance lemma needs P(i, j in S) <= r_i r_j for
  # independent clients and a strict priority. K = 2; three clients of chance .9
  # come first, then i and j of chance .1:
  #   P(i, j in S) = .01 P(none of three)                       = .01 * .001
  #   r_i = .1 P(at most one of three)                          = .1 * .028
  #   r_j = .1 (P(none) + P(one) P(i not available))            = .1 * .0253
  system = region.independent(np.array([0.9, 0.9, 0.9, 0.1, 0.1]), 2)
  policy = static_policy.policy_for(system, region.greedy(system, range(5)))
  mean, covariance = static_policy.moments(policy)
  np.testing.assert_allclose(mean[3:], [0.0028, 0.00253], atol=1e-8)
  assert covariance[3, 4] == pytest.approx(1e-5 - 0.0028 * 0.00253, abs=1e-8)
  assert covariance[3, 4] > 0


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
    (lambda: region.contains(_TWO, np.ones(3)), 'each of the 2 clients'),
    (lambda: region.minimise_h(_TWO, np.array([0.5, np.nan])), '2 clients'),
    (lambda: region.minimise_h(_TWO, np.array([0.5, 0.4])), 'sum to 1'),
    (
      lambda: region.minimise_h(
        region.independent(np.array([0.0, 1.0]), 1), _HALVES
      ),
      'client 0 has data but can never',
    ),
    (
      lambda: region.minimise_h(
        region.independent(np.array([0.5, 1.0]), 0), _HALVES
      ),
      'can never take part',
    ),
    (
      lambda: region.vertices(region.independent(np.full(8, 0.5), 1)),
      'at most 7 clients',
    ),
    (
      lambda: static_policy.draw(
        static_policy.policy_for(
          region.System(np.array([[True, False]]), np.ones(1), 1), np.zeros(2)
        ),
        np.array([True, True]),
        np.random.default_rng(0),
      ),
      'knows no configuration',
    ),
  ],
)
def test_bad_values_are_named(call, message):
  with pytest.raises(ValueError, match=message):
    call()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
