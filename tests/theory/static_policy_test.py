"""Tests of `static_policy` against numbers by hand and its own draws."""

import sys

import numpy as np
import pytest

from f3ast_tff.theory import region
from f3ast_tff.theory import small_system
from f3ast_tff.theory import static_policy
from tests import systems


def test_policy_draws_what_it_promises():
  system, p = systems.random_system(3)
  r = 0.9 * region.minimise_h(system, p) + 0.1 * region.naive_rates(system)
  policy = static_policy.policy_for(system, r)
  rng = np.random.default_rng(0)
  num_rounds = 8_000
  counts = np.zeros(6)
  for c in rng.choice(len(system.masks), num_rounds, p=system.probabilities):
    selected = static_policy.draw(policy, system.masks[c], rng)
    assert system.masks[c][selected].all() and selected.size <= system.k
    counts[selected] += 1
  error = np.sqrt(r * (1 - r) / num_rounds)
  assert (np.abs(counts / num_rounds - r) < 5 * error).all()


def test_moments_by_hand():
  policy = static_policy.policy_for(systems.TWO, np.array([0.375, 0.5]))
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
  system = small_system.independent(np.array([0.9, 0.9, 0.9, 0.1, 0.1]), 2)
  policy = static_policy.policy_for(system, region.greedy(system, range(5)))
  mean, covariance = static_policy.moments(policy)
  np.testing.assert_allclose(mean[3:], [0.0028, 0.00253], atol=1e-8)
  assert covariance[3, 4] == pytest.approx(1e-5 - 0.0028 * 0.00253, abs=1e-8)
  assert covariance[3, 4] > 0


def test_an_unknown_configuration_is_named():
  system = small_system.System(np.array([[True, False]]), np.ones(1), 1)
  policy = static_policy.policy_for(system, np.zeros(2))
  with pytest.raises(ValueError, match='knows no configuration'):
    static_policy.draw(
      policy, np.array([True, True]), np.random.default_rng(0)
    )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
