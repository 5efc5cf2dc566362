"""Tests of `selector`: who takes part in which round."""

import dataclasses
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff import checks
from f3ast_tff import communication
from f3ast_tff import methods
from f3ast_tff import rates
from f3ast_tff import selection
from f3ast_tff import vectors

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


def _counting(name='times', **changes):
  """Returns a method that counts how often each client took part."""

  def count(s, cohort):
    times = s.kept[name].copy()
    times[cohort.clients] += 1
    return {name: times}

  given = {'initial': lambda p: {name: np.zeros(p.size)}, 'next': count}
  return selection.Method(**{**given, **changes})


@pytest.mark.parametrize('step', ['constant', 'corrected', 'annealed:10'])
def test_a_loop_outside_gives_what_simulate_gives(step):
  # Weights of who took part before are doubled, so that what is kept counts.
  def wrap(policy):
    def select(s, rng):
      clients, weights = policy(s, rng)
      assert list(s.kept) == ['times']  # Not the step, which is not its own.
      return selection.Cohort(
        clients, weights * (1 + (s.kept['times'][clients] > 0))
      )

    return select

  selector = _selector(rate_step=step, method=_counting(wrap=wrap))
  r, kept = selector.initial_rates, selector.initial_kept
  times = np.zeros(_P.size)
  for found in selector.simulate(20):
    t = found.round_num
    mask = selector.availability(t)
    cohort = selector.select_among(mask, t, r, kept=kept)
    selected = selector.select(t, r, kept=kept, available=mask)
    _assert_same(cohort, found.cohort)
    _assert_same(selected.cohort, found.cohort)
    r, kept = selector.next_rates(r, cohort, t), selected.kept
    np.testing.assert_array_equal(r, found.rates)
    times[cohort.clients] += 1
    np.testing.assert_array_equal(kept['times'], times)


def test_a_loop_that_forgets_is_refused():
  cohort = selection.Cohort(np.array([0]), np.ones(1))
  annealed = _selector(rate_step='annealed:10', beta=0.01)
  with pytest.raises(ValueError, match=r'next_rates\(r, cohort, t\)'):
    annealed.next_rates(_P, cohort)
  for t, step in ((1, 1 / 11), (10, 1 / 20), (1000, 0.01)):
    found = annealed.next_rates(_P, cohort, t)
    np.testing.assert_allclose(found[1:], _P[1:] * (1 - step))
  assert annealed.select(7, _P).kept  # Only the step, which it knows.
  for method, what in ((_counting(), 'numbers'), ('scaffold', 'vectors')):
    selector = _selector(method=method)
    assert set(selector.select(1, _P).kept) == set(selector.initial_kept)
    for call in (
      lambda s: s.select(2, _P),
      lambda s: s.select_among(np.ones(_P.size, bool), 2, _P),
    ):
      with pytest.raises(ValueError, match=f'keeps {what} .* but round 2'):
        call(selector)
    selector.select(2, _P, kept=selector.initial_kept)


def test_a_method_without_next_keeps_what_it_began_with():
  sizes = np.arange(8.0)
  method = selection.Method(initial=lambda p: {'sizes': sizes})
  for step in ('constant', 'corrected'):
    selector = _selector(method=method, rate_step=step)
    kept = selector.select(1, _P).kept
    np.testing.assert_array_equal(kept['sizes'], sizes)
    assert set(kept) == set(selector.initial_kept)


def test_what_is_kept_is_in_the_order_and_type_of_the_first():
  method = selection.Method(
    initial=lambda p: {'a': np.zeros(p.size, int), 'b': 1},
    next=lambda s, cohort: {'b': True, 'a': s.p > 0},
  )
  kept = _selector(method=method).select(1, _P).kept
  assert [(k, v.dtype, v.shape) for k, v in kept.items()] == [
    ('a', np.float64, (8,)), ('b', np.float64, ())
  ]


def test_what_is_kept_cannot_be_changed_in_place():
  def count(s, cohort):
    s.kept['times'][cohort.clients] += 1
    return s.kept

  selector = _selector(method=_counting(next=count))
  with pytest.raises(ValueError, match='read-only'):
    list(selector.simulate(9))
  np.testing.assert_array_equal(selector.initial_kept['times'], np.zeros(8))
  # Nor does what the user holds become read-only.
  mine = np.zeros(8)
  selector = _selector(method=_counting(initial=lambda p: {'times': mine}))
  selector.select(2, _P, kept={'times': mine})
  mine += 1


def _initial(value):
  return selection.Method(initial=lambda p: value)


def _next(value):
  return _counting(next=lambda s, cohort: value)


@pytest.mark.parametrize(
  'method, message',
  [
    (_counting('step'), "may not keep anything called 'step'"),
    (_initial(None), 'initial of a method must return arrays .* is None'),
    (_initial({1: _P}), 'arrays by name'),
    (_initial({'a': 'x'}), "finite numbers .* for 'a', but the text 'x'"),
    (_initial({'a': np.full(8, np.inf)}), "for 'a', but one of them is inf"),
    (_next(None), 'next of a method must return arrays by name.* is None'),
    (_next({}), 'must return times, as `initial` does, but it is nothing'),
    (_next({'time': _P}), 'must return times, .* but it is time'),
    (_next({'times': _P[1:]}), r'shape \(8,\).* an array of shape \(7,\)'),
    (_next({'times': 3}), r"numbers of shape \(8,\) for 'times', but 3"),
    (_next({'times': np.full(8, np.nan)}), "'times', but one of them is nan"),
    (
      selection.Method(state_weights=lambda s, cohort: s.p),
      r'finite number for each of the [0-3] clients .* shape \(8,\)',
    ),
    (
      selection.Method(state_weights=lambda s, cohort: None), 'it is None'
    ),
    (
      selection.Method(
        state_weights=lambda s, cohort: cohort.weights * np.inf
      ),
      'state_weights of a method must be',
    ),
    (
      selection.Method(vectors=vectors.Vectors(step=lambda v, m, s: m)),
      r"Delta and the server's vector .* an array of shape \(1,\)",
    ),
  ],
)
def test_what_a_method_returns_is_checked(method, message):
  with pytest.raises(checks.ResultError, match=message) as error:
    # Somebody takes part.
    _selector(method=method, availability='always', clients_per_round=3).select(
      1, _P
    )
  assert str(error.value).endswith('.') and '\n' not in str(error.value)


def test_wrong_kept_is_named():
  selector = _selector(method=_counting())
  with pytest.raises(checks.ResultError, match='kept must hold times'):
    selector.select(2, _P, kept={})


def test_simulate_says_that_it_has_no_losses():
  for changes in ({'method': 'afl'}, {'method': 'ca_fed'},
                  {'policy': 'power_of_choice'}):
    with pytest.raises(ValueError, match='simulate has no model and so no'):
      list(_selector(**changes).simulate(3))


def test_with_corrected_steps_h_is_infinite_until_all_have_taken_part():
  # By hand: r(1) is 1 for who took part and 0 for all others.
  p = np.array([0.5, 0.3, 0.2])
  selector = methods.build_selector(p, 'always', 1, rate_step='corrected')
  seen = set()
  for t, found in enumerate(selector.simulate(5), 1):
    seen |= set(found.cohort.clients.tolist())
    # Who was never seen comes first: its score is infinite.
    assert len(seen) == min(t, 3)
    if t == 1:
      assert sorted(found.rates) == [0, 0, 1]
      np.testing.assert_array_equal(
        found.cohort.weights, p[found.cohort.clients]
      )
    np.testing.assert_array_equal(found.rates > 0, np.isin([0, 1, 2], [*seen]))
    assert np.isinf(rates.variance_bound(p, found.rates)) == (t < 3)


def test_losses_are_asked_of_more_clients_than_train():
  selector = _selector('power_of_choice', num_candidates=7)
  assert (selector.max_selected, selector.max_clients) == (3, 7)


def test_rounds_count_from_1():
  with pytest.raises(ValueError, match='Rounds count from 1'):
    _selector().select(0, _P)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
