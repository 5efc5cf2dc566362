"""Tests of `methods.fixed_policy`: Algorithm 2 as a policy."""

import sys

import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import methods
from f3ast_tff.methods import fixed_policy
from tests import situations

_P = np.array([0.4, 0.6])


@pytest.fixture(scope='module')
def policy():
  """The policy of two clients, there with probability .375 and .8; K = 1.

  Together they can have .875. Shared as .4 to .6 that is r* = (.35, .525), and
  neither has more than it can have alone.
  """
  return fixed_policy.build(
    availability.Independent(np.array([0.375, 0.8])),
    communication.fixed(1),
    _P,
    'uncorrelated',
  )


def test_it_aims_at_the_best_rates(policy):
  np.testing.assert_allclose(policy.fitted.target, [0.35, 0.525])
  np.testing.assert_allclose(policy.fitted.realised, [0.35, 0.525], rtol=0.01)


@pytest.mark.parametrize(
  'available, k, clients',
  [
    ([1, 0], 1, [0]),
    ([0, 1], 1, [1]),
    ([0, 0], 1, []),
    ([1, 1], 0, []),
    ([1, 1], 5, [0, 1]),
  ],
)
def test_weights_are_those_of_the_target(policy, available, k, clients):
  # Whatever r(t-1) is.
  s = situations.situation(_P, k, available, r=[0.1, 0.9])
  cohort = policy(s, situations.rng())
  assert cohort.clients.tolist() == clients
  expected = np.array([0.4 / 0.35, 0.6 / 0.525])
  np.testing.assert_allclose(cohort.weights, expected[clients])


def test_both_there_is_decided_by_chance(policy):
  # .35 = .375 * .2 + .3 x: client 0 has x = 11/12 of the rounds with both.
  s = situations.situation(_P, 1)
  found = situations.counts(policy, s, 2000)
  situations.assert_frequencies(found, {(0,): 11 / 12, (1,): 1 / 12})


def test_its_name_builds_it():
  p = np.full(3, 1 / 3)
  selector = methods.build_selector(p, 'scarce', 1, policy='fixed_policy')
  assert isinstance(selector.policy, fixed_policy.FittedPolicy)
  # Three alike: each has a third of P(anybody) = 1 - .8^3.
  np.testing.assert_allclose(selector.policy.fitted.target, (1 - 0.8**3) / 3)


def test_where_no_best_rates_are_known_it_is_refused():
  recorded = availability.Recorded(np.ones((1, 3)), availability.always(3))
  with pytest.raises(ValueError, match='the model is a Recorded'):
    methods.build_selector(
      np.full(3, 1 / 3), recorded, 1, policy='fixed_policy'
    )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
