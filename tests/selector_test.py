"""Tests of `selector`: who takes part in which round."""

import dataclasses
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import methods
from f3ast_tff import selection

_P = np.array([5, 1, 8, 2, 2, 7, 3, 4]) / 32


def _selector(policy='f3ast', **changes):
  arguments = {
    'availability': availability.scarce(_P.size, seed=3, q=0.6),
    'clients_per_round': communication.Uniform(0, 3, seed=3),
    'beta': 0.1,
    'seed': 3,
  }
  return methods.build_selector(_P, policy=policy, **{**arguments, **changes})


def _assert_same(one, other):
  for a, b in zip(one, other):
    np.testing.assert_array_equal(a, b)


def test_two_rounds_by_hand():
  # Always there, K = 1, r(0) = K p: all scores tie at first.
  p = np.array([0.5, 0.3, 0.2])
  selector = methods.build_selector(p, 'always', 1, beta=0.5)
  np.testing.assert_array_equal(selector.initial_rates, p)
  one, two = selector.simulate(2)
  (first,) = one.cohort.clients
  r = 0.5 * p
  r[first] += 0.5
  np.testing.assert_allclose(one.cohort.weights, p[first] / r[first])
  np.testing.assert_allclose(one.rates, r)
  # Now the others' p^2 / r^2 is 4, and that of the first less.
  assert two.cohort.clients[0] != first and two.round_num == 2


@pytest.mark.parametrize('name', availability.PAPER)
def test_rounds_of_f3ast_are_those_of_a_plain_loop(name):
  # r(0) = K / N leaves no ties that chance would break.
  p = np.arange(1, 10) / 45
  model = availability.parse(name, p, 5)
  selector = methods.build_selector(
    p, name, communication.Schedule((3, 1, 0, 2)), rate_init='uniform',
    beta=0.07, seed=5,
  )
  r = [1.5 / 9] * 9
  for t, step in enumerate(selector.simulate(40), 1):
    power = 1 if name == 'smartphones' else 2
    there = [k for k in range(9) if model(t)[k]]
    there.sort(key=lambda k: -(p[k] ** power) / r[k] ** 2)
    chosen = sorted(there[: (3, 1, 0, 2)[(t - 1) % 4]])
    r = [0.93 * r[k] + 0.07 * (k in chosen) for k in range(9)]
    np.testing.assert_array_equal(step.available, model(t))
    assert step.cohort.clients.tolist() == chosen
    np.testing.assert_allclose(
      step.cohort.weights, [p[k] / r[k] for k in chosen]
    )
    np.testing.assert_allclose(step.rates, r)


@hypothesis.given(
  st.lists(st.integers(1, 12), min_size=1, max_size=8),
  st.sampled_from(['f3ast', 'proportional', 'uniform']),
)
@hypothesis.settings(max_examples=30)
def test_the_order_in_which_rounds_are_asked_for_does_not_matter(
  rounds, policy
):
  shared = _selector(policy)
  before = [shared.initial_rates]
  before += [step.rates for step in _selector(policy).simulate(12)]
  steps = list(_selector(policy).simulate(12))
  for t in rounds:
    available, cohort, *_ = shared.select(t, before[t - 1])
    np.testing.assert_array_equal(available, steps[t - 1].available)
    _assert_same(cohort, steps[t - 1].cohort)


def test_the_rates_that_are_given_are_the_truth():
  # All are there and one takes part: the one that r says has had least.
  selector = _selector(availability='always', clients_per_round=1)
  list(selector.simulate(5))  # What it simulated, it does not remember.
  for client in range(_P.size):
    r = np.where(np.arange(_P.size) == client, 1e-6, 1.0)
    kept = r.copy()
    assert selector.select(3, r).cohort.clients.tolist() == [client]
    (step,) = selector.simulate(1, r)
    assert step.cohort.clients.tolist() == [client]
    np.testing.assert_array_equal(r, kept)


def test_a_mask_can_be_given():
  selector = _selector(clients_per_round=2)
  only = np.arange(_P.size) == 6
  cohort = selector.select_among(only, 1, selector.initial_rates)
  assert cohort.clients.tolist() == [6]


def test_next_rates_by_hand():
  cohort = selection.Cohort(np.array([0, 2]), np.ones(2))
  r = np.linspace(0.1, 0.8, 8)
  np.testing.assert_allclose(
    _selector().next_rates(r, cohort),
    [0.19, 0.18, 0.37, 0.36, 0.45, 0.54, 0.63, 0.72],
  )


def test_factors_multiply_the_weights_of_their_round():
  plain = _selector('proportional', clients_per_round=2)
  factored = dataclasses.replace(plain, factors=np.array([1.0, 0.25, 3.0]))
  for t, factor in ((1, 1.0), (2, 0.25), (3, 3.0)):
    _, (clients, weights), *_ = plain.select(t, _P)
    cohort = factored.select(t, _P).cohort
    np.testing.assert_array_equal(cohort.clients, clients)
    np.testing.assert_allclose(cohort.weights, factor * weights)


def test_a_policy_of_ones_own_sees_the_situation():
  def first_come(situation, rng):
    del rng
    assert situation.beta == 0.1 and situation.num_candidates == 5
    clients = np.flatnonzero(situation.available)[: situation.k]
    return selection.Cohort(clients, np.full(clients.size, 0.5))

  selector = _selector(first_come, clients_per_round=2, num_candidates=5)
  available, (clients, weights), *_ = selector.select(4, _P)
  np.testing.assert_array_equal(clients, np.flatnonzero(available)[:2])
  np.testing.assert_array_equal(weights, [0.5, 0.5])


def test_who_needs_losses_says_so():
  @selection.needs_losses
  def asks_all(situation, rng):
    del rng
    losses = situation.losses_of(np.arange(situation.p.size))
    clients = np.flatnonzero(situation.available)[: situation.k]
    return selection.Cohort(clients, losses[clients])

  selector = _selector(asks_all, num_candidates=7)
  assert selector.needs_losses and selector.max_clients == 7
  assert dataclasses.replace(selector, num_candidates=1).max_clients == 3
  clients, weights = selector.select(1, _P, lambda some: some / 10).cohort
  np.testing.assert_allclose(weights, clients / 10)
  assert clients.size  # The test can tell.
  with pytest.raises(ValueError, match='queries 8 clients.*losses_of'):
    selector.select(1, _P)
  plain = _selector(num_candidates=7)
  assert not plain.needs_losses and plain.max_clients == 3


def test_rounds_count_from_1():
  with pytest.raises(ValueError, match='Rounds count from 1'):
    _selector().select(0, _P)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
