"""Tests of `cohorts` against the selection, step by step."""

import sys

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff import cohorts as cohorts_lib
from f3ast_tff import communication
from f3ast_tff import rates
from f3ast_tff import selection
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import environment

_SIZES = np.array([5, 1, 8, 2, 2, 7, 3, 4])
_P = _SIZES / _SIZES.sum()


def _make(**changes):
  arguments = {
    'p': _P,
    'availability': availability.scarce(_P.size, seed=3, q=0.6),
    'constraint': communication.Uniform(0, 3, seed=3),
    'beta': 0.1,
    'seed': 3,
  }
  return cohorts_lib.Cohorts(**{**arguments, **changes})


def _same(one, other):
  np.testing.assert_array_equal(one.clients, other.clients)
  np.testing.assert_array_equal(one.weights, other.weights)


def test_two_rounds_by_hand():
  # Always there, K = 1, r(0) = K p: all scores tie at first.
  p = np.array([0.5, 0.3, 0.2])
  cohorts = cohorts_lib.Cohorts(p, availability.always(3), 1, beta=0.5)
  clients, weights = cohorts(1)
  (first,) = clients
  r = 0.5 * p
  r[first] += 0.5
  np.testing.assert_allclose(weights, p[first] / r[first])
  np.testing.assert_allclose(cohorts.rates(1), r)
  # Now the others' p^2 / r^2 is 4, and that of the first less.
  (second,) = cohorts(2).clients
  assert second != first
  np.testing.assert_array_equal(cohorts.rates(0), p)


@pytest.mark.parametrize('avail', list(availability.MODELS))
@pytest.mark.parametrize(
  'policy',
  ['f3ast', 'proportional', 'proportional_with_replacement', 'uniform'],
)
def test_cohorts_are_those_of_the_experiments(avail, policy):
  config = config_lib.Config(
    selection=policy, avail=avail, clients_per_round='uniform:1,4', seed=5
  )
  world = environment.build(config, _SIZES, _SIZES)
  cohorts = cohorts_lib.Cohorts(
    _P,
    availability.MODELS[avail](_P, 5),
    communication.Uniform(1, 4, seed=5),
    policy=policy,
    seed=5,
  )
  assert cohorts.correlation == world.correlation
  r = world.initial_rates
  for t in range(1, 30):
    _, cohort = environment.select(config, world, r, t)
    _same(cohorts(t), cohort)
    r = rates.update(r, np.isin(np.arange(_P.size), cohort.clients), 0.001)
    np.testing.assert_array_equal(cohorts.rates(t), r)


@pytest.mark.parametrize('correlation', rates.CORRELATIONS)
def test_at_the_tie_point_chance_decides(correlation):
  counts = np.zeros(_P.size)
  for seed in range(1000):
    cohorts = cohorts_lib.Cohorts(
      _P,
      availability.always(_P.size),
      1,
      rate_init='tie',
      correlation=correlation,
      seed=seed,
    )
    counts[cohorts(1).clients] += 1
  mean = 1000 / _P.size
  assert (np.abs(counts - mean) < 5 * np.sqrt(mean)).all()


@hypothesis.given(st.lists(st.integers(1, 12), min_size=1, max_size=8))
@hypothesis.settings(max_examples=30)
def test_the_order_in_which_rounds_are_asked_for_does_not_matter(rounds):
  shared = _make()
  for t in rounds:
    _same(shared(t), _make()(t))
    np.testing.assert_array_equal(shared.rates(t), _make().rates(t))


def test_a_policy_of_ones_own():
  def first_come(situation, rng):
    del rng
    clients = np.flatnonzero(situation.available)[: situation.k]
    return selection.Cohort(clients, np.full(clients.size, 0.5))

  cohorts = _make(policy=first_come, constraint=2)
  clients, weights = cohorts(4)
  there = np.flatnonzero(cohorts.availability(4))
  np.testing.assert_array_equal(clients, there[:2])
  np.testing.assert_array_equal(weights, [0.5, 0.5])


@pytest.mark.parametrize(
  'changes, message',
  [
    ({'availability': availability.always(3)}, '3 clients, but p has 8'),
    (
      {'policy': 'power_of_choice'},
      'f3ast, proportional, proportional_with_replacement, uniform or',
    ),
    ({'p': _P / 2}, 'p must sum to 1'),
    ({'beta': 0.0}, 'beta must be in'),
    ({'correlation': 'negative'}, 'Correlation must be one of'),
    ({'rate_init': 'zero'}, 'Initial rates must be one of'),
    ({'constraint': -1}, 'whole number from 0'),
  ],
)
def test_bad_arguments_are_named(changes, message):
  with pytest.raises(ValueError, match=message):
    _make(**changes)


def test_the_first_rates_are_a_copy():
  cohorts = _make()
  expected = cohorts.rates(1)
  cohorts.rates(0)[:] = 0.5
  np.testing.assert_array_equal(_make().rates(1), expected)
  np.testing.assert_array_equal(cohorts.rates(1), expected)


def test_rounds_count_from_1():
  with pytest.raises(ValueError, match='Rounds count from 1'):
    _make()(0)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
