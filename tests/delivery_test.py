"""Tests of loss after selection against closed forms and hand computations."""

import collections
import dataclasses
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff import delivery as delivery_lib
from f3ast_tff import methods
from f3ast_tff import selection
from f3ast_tff.methods import ca_fed


def _selector(p, k, d, policy='f3ast', beta=0.001, **options):
  p = np.asarray(p, float)
  selector = methods.build_selector(
    p, availability.always(p.size), k, policy=policy, beta=beta
  )
  delivery = delivery_lib.Delivery(np.asarray(d, float), **options)
  return dataclasses.replace(selector, delivery=delivery)


def test_rates_step_by_delivery_or_by_selection():
  # Worked by hand: beta = .1, r = (.5, .5); both are selected and the first
  # delivers; then the second is selected and delivers.
  selected = {1: [0, 1], 2: [1]}
  expected = {
    delivery_lib.SELECTED: [(0.55, 0.55), (0.495, 0.595)],
    delivery_lib.DELIVERED: [(0.55, 0.45), (0.495, 0.505)],
  }
  for counts, rates in expected.items():
    selector = dataclasses.replace(
      _selector([0.5, 0.5], 2, [1, 1], beta=0.1, rates_count=counts,
                stays=lambda t: np.array([True, t == 2])),
      policy=lambda s, rng: selection.with_equal_weights(
        np.array(selected[s.round_num])
      ),
    )
    r = np.array([0.5, 0.5])
    for t, wanted in enumerate(rates, 1):
      found = selector.select(t, r)
      assert found.lost.tolist() == ([1] if t == 1 else [])
      r = selector.next_rates(r, found.cohort)
      np.testing.assert_allclose(r, wanted)


def _mean_and_error(values):
  """Returns the mean of a correlated series and its standard error."""
  batches = np.mean(np.array_split(values, 40), axis=1)
  return batches.mean(), batches.std(ddof=1) / np.sqrt(batches.size)


def test_the_sum_is_unbiased_if_r_counts_deliveries_and_else_as_predicted():
  p, d = np.array([0.4, 0.3, 0.2, 0.1]), np.array([1.0, 0.5, 0.8, 0.4])
  v = np.array([1.0, 2.0, 3.0, 5.0])
  num_rounds, beta, settled = 5_000, 0.004, 1_000
  predicted = {
    delivery_lib.DELIVERED: p @ v,
    delivery_lib.SELECTED: p @ (d * v),
  }
  assert abs(np.subtract(*predicted.values())) > 0.7
  for counts, expected in predicted.items():
    selector = _selector(p, 2, d, beta=beta, rates_count=counts)
    deltas = [
      cohort.weights @ v[cohort.clients]
      for _, _, cohort, _ in selector.simulate(num_rounds)
    ]
    mean, error = _mean_and_error(deltas[settled:])
    # The weights' own bias is about beta / (2 r_k) of each term: .02 in all.
    assert abs(mean - expected) < 4 * error + 0.02
    assert error < 0.03


class _EverySecondTime(delivery_lib.Delivery):
  """Client 0 always delivers, client 1 every second time: no sampling error."""

  def delivered(self, round_num, clients, k):
    del round_num, k
    object.__setattr__(self, 'times', getattr(self, 'times', 0) + clients[0])
    return np.array([clients[0] == 0 or self.times % 2 == 0])


@pytest.mark.parametrize(
  'options, selected, delivered, bound, weight',
  [
    ({'rates_count': 'selected'}, (0.5, 0.5), (0.5, 0.25), 1.5, (0.5, 0.25)),
    ({}, (1 / 3, 2 / 3), (1 / 3, 1 / 3), 1.5, (0.5, 0.5)),
    (
      {'in_score': True},
      (0.4142, 0.5858),
      (0.4142, 0.2929),
      1.4571,
      (0.5, 0.5),
    ),
  ],
  ids=['selection', 'delivery', 'delivery-in-score'],
)
def test_one_of_two_clients_is_unreliable(
  options, selected, delivered, bound, weight
):
  # K = 1, p = (.5, .5), d = (1, .5): shares of being selected that balance
  # p^2 / r^2 (times d), in closed form.
  num_rounds, settled = 7_000, 3_000
  p, d = np.array([0.5, 0.5]), np.array([1.0, 0.5])
  selector = dataclasses.replace(
    _selector(p, 1, d, beta=0.002), delivery=_EverySecondTime(d, **options)
  )
  times = collections.Counter()
  weights = np.zeros(2)
  r = selector.initial_rates
  for t in range(1, num_rounds + 1):
    _, cohort, lost, *_ = selector.select(t, r)
    r = selector.next_rates(r, cohort)
    if t > settled:
      (one,) = {*cohort.clients.tolist(), *lost.tolist()}
      times['selected', one] += 1
      times['delivered', one] += not lost.size
      np.add.at(weights, cohort.clients, cohort.weights)
  counted = num_rounds - settled
  share, rate = (
    np.array([times[what, k] for k in range(2)]) / counted
    for what in ('selected', 'delivered')
  )
  np.testing.assert_allclose(share, selected, atol=0.01)
  np.testing.assert_allclose(rate, delivered, atol=0.01)
  np.testing.assert_allclose((p**2 / rate).sum(), bound, atol=0.01)
  np.testing.assert_allclose(weights / counted, weight, atol=0.01)


@pytest.mark.parametrize('counts', delivery_lib.COUNTS)
def test_intervals_of_fedau_make_up_for_what_is_lost(counts):
  # Weight p_k times the mean interval between deliveries: that alone makes the
  # sum of the weights of client k tend to p_k. It is no mean.
  p, d = np.array([0.4, 0.3, 0.2, 0.1]), np.array([1.0, 0.5, 0.8, 0.4])
  selector = dataclasses.replace(
    _selector(p, 2, d, 'uniform', rates_count=counts),
    method=methods.parse_method('fedau'),
  )
  total = np.zeros(4)
  for _, _, cohort, _ in selector.simulate(4000):
    np.add.at(total, cohort.clients, cohort.weights)
  np.testing.assert_allclose(total / 4000, p, rtol=0.1)


@pytest.mark.parametrize('counts', delivery_lib.COUNTS)
def test_weights_of_ca_fed_do_not_go_to_others(counts):
  # p_k / pi_k by hand. Client 2 does not stay in even rounds.
  pi = np.array([0.8, 0.5, 0.02])
  selector = dataclasses.replace(
    _selector([0.5, 0.3, 0.2], 3, np.ones(3), 'uniform', rates_count=counts,
              stays=lambda t: np.array([True, True, t % 2 == 1])),
    method=ca_fed.build(lambda round_num: pi),
  )
  for t, expected in ((1, [0.625, 0.6, 10]), (2, [0.625, 0.6, 0])):
    clients, weights = selector.select(
      t, selector.initial_rates, _ones, selector.initial_kept
    ).cohort
    found = np.zeros(3)
    found[clients] = weights
    np.testing.assert_allclose(found, expected)
  # It keeps the weights of FedAvg, which are those of a mean.
  mean = dataclasses.replace(
    selector, policy=methods.POLICIES['proportional']
  )
  weights = mean.select(
    2, mean.initial_rates, _ones, mean.initial_kept
  ).cohort.weights
  np.testing.assert_allclose(weights[:2], [0.5, 0.5])


@pytest.mark.parametrize('counts', delivery_lib.COUNTS)
@pytest.mark.parametrize('method', ['fedawe', 'scaffold', 'afl', 'fedau'])
def test_who_delivers_nothing_changes_nothing_that_is_kept(method, counts):
  p = np.array([0.4, 0.3, 0.2, 0.1])
  selector = dataclasses.replace(
    _selector(p, 3, np.full(4, 0.5), rates_count=counts),
    method=methods.parse_method(method),
  )
  kept, echoes = selector.initial_kept, np.zeros(4)
  for t in range(1, 40):
    found = selector.select(t, selector.initial_rates, _ones, kept)
    clients, weights = found.cohort
    is_lost = np.isin(clients, found.lost)
    assert not found.state_weights[is_lost].any()
    delivered = clients[~is_lost]
    if method == 'scaffold':
      np.testing.assert_array_equal(
        found.state_weights[~is_lost], p[delivered]
      )
    elif method == 'fedawe' and delivered.size:
      assert weights.sum() == pytest.approx(1)
      echo = found.state_weights[~is_lost] * delivered.size / (4 * p[delivered])
      echoes[delivered] += echo
      np.testing.assert_allclose(echoes[delivered], t)
    elif method == 'fedau':
      ended = np.flatnonzero(found.kept['length'] == 0)
      np.testing.assert_array_equal(ended, delivered)
    elif method == 'afl':
      moved = found.kept['shares'] - kept['shares']
      others = np.setdiff1d(np.arange(4), delivered)
      assert delivered.size == 4 or np.ptp(moved[others]) < 1e-12
    kept = found.kept


def _ones(clients):
  return np.ones(clients.size)


def test_a_cap_is_on_the_weights_of_those_who_deliver():
  p = np.full(4, 0.25)
  selector = dataclasses.replace(
    _selector(p, 4, np.full(4, 0.5)), sum_cap=0.4
  )
  sums = [
    found.cohort.weights.sum() for found in selector.simulate(40)
    if found.cohort.clients.size > 1
  ]
  # Each weight is above 0.25.
  np.testing.assert_allclose(sums, 0.4)


def test_a_client_delivers_as_often_as_it_should_in_any_order_of_rounds():
  delivery = delivery_lib.Delivery(np.array([0.9, 0.3, 1.0]), seed=3)
  clients, rounds = np.arange(3), range(1, 2001)
  forwards = [delivery.delivered(t, clients, 3) for t in rounds]
  backwards = [delivery.delivered(t, clients, 3) for t in reversed(rounds)]
  np.testing.assert_array_equal(forwards, backwards[::-1])
  # Four standard errors of 2,000 draws.
  np.testing.assert_allclose(
    np.mean(forwards, axis=0), [0.9, 0.3, 1.0], atol=4 * 0.5 / np.sqrt(2000)
  )
  # Who else is selected makes no difference.
  alone = [delivery.delivered(t, np.array([1]), 3)[0] for t in rounds]
  np.testing.assert_array_equal(alone, np.array(forwards)[:, 1])


@hypothesis.given(
  k=st.integers(0, 6), factor=st.floats(1, 3), seed=st.integers(0, 99)
)
@hypothesis.settings(deadline=None, max_examples=40)
def test_over_selection_takes_the_first_k_that_deliver(k, factor, seed):
  d = np.full(30, 0.7)
  over = delivery_lib.Delivery(d, seed, over_selection=factor)
  clients = np.arange(over.num_selected(k))
  assert clients.size == int(np.ceil(np.round(factor * k, 9)))
  comes = delivery_lib.Delivery(d, seed).delivered(5, clients, clients.size)
  counts = over.delivered(5, clients, k)
  assert counts.sum() == min(k, comes.sum())
  assert not (counts & ~comes).any()


def test_who_is_first_is_random():
  over = delivery_lib.Delivery(np.ones(4), over_selection=4)
  firsts = [over.delivered(t, np.arange(4), 1) for t in range(1, 2001)]
  assert (np.sum(firsts, axis=1) == 1).all()
  np.testing.assert_allclose(
    np.mean(firsts, axis=0), 0.25, atol=4 * np.sqrt(0.25 * 0.75 / 2000)
  )


def test_who_does_not_stay_delivers_nothing():
  delivery = delivery_lib.Delivery(
    np.ones(3), stays=lambda t: np.array([True, t == 1, False])
  )
  for t, expected in ((1, [True, True]), (2, [True, False])):
    found = delivery.delivered(t, np.array([0, 1]), 3)
    assert found.tolist() == expected


@pytest.mark.parametrize('counts', delivery_lib.COUNTS)
@pytest.mark.parametrize(
  'policy, total', [('proportional', 1.0), ('uniform', 1.0), ('f3ast', None)]
)
def test_a_mean_is_over_those_who_deliver(policy, total, counts):
  p = np.full(10, 0.1)
  selector = _selector(
    p, 4, np.full(10, 0.5), policy, over_selection=2.0, rates_count=counts
  )
  for t in range(1, 50):
    _, (clients, weights), lost, *_ = selector.select(t, selector.initial_rates)
    is_lost = np.isin(clients, lost)
    assert (weights[is_lost] == 0).all() and (weights[~is_lost] > 0).all()
    assert np.count_nonzero(weights) <= 4
    num_selected = len({*clients.tolist(), *lost.tolist()})
    assert num_selected == 8 == selector.max_clients
    assert (clients.size == 8) == (counts == delivery_lib.SELECTED)
    if total is not None and (~is_lost).any():
      assert weights.sum() == pytest.approx(total)
    elif total is None:  # p_k / r_k(t) of each: r(0) = .4, beta = .001.
      expected = 0.1 / (0.999 * 0.4 + 0.001)
      np.testing.assert_allclose(weights[~is_lost], expected)


@pytest.mark.parametrize(
  'options, words',
  [
    ({'probabilities': np.array([0.5, 0.0])}, r'must be in \(0, 1\]'),
    ({'probabilities': np.array([0.5, np.nan])}, r'must be in \(0, 1\]'),
    ({'probabilities': np.ones(2), 'over_selection': 0.5}, 'at least 1'),
    ({'probabilities': np.ones(2), 'over_selection': 1e308}, 'at most 100'),
    ({'probabilities': np.ones(2), 'rates_count': 'x'}, 'delivered, selected'),
  ],
)
def test_bad_values_are_refused(options, words):
  with pytest.raises(ValueError, match=words):
    delivery_lib.Delivery(**options)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
