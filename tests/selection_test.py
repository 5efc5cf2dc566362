"""Tests of `selection` against brute force, closed forms and the paper."""

import itertools
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff import randomness
from f3ast_tff import rates
from f3ast_tff import selection


def _rng(seed=0):
  return np.random.default_rng(seed)


@st.composite
def _situations(draw):
  n = draw(st.integers(1, 7))
  sizes = draw(st.lists(st.integers(1, 50), min_size=n, max_size=n))
  p = np.array(sizes) / sum(sizes)
  r = np.array(draw(st.lists(st.floats(0.001, 1), min_size=n, max_size=n)))
  available = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
  return p, r, available, draw(st.integers(0, n + 1))


@hypothesis.given(
  _situations(), st.sampled_from(rates.CORRELATIONS), st.integers(0, 99)
)
@hypothesis.settings(max_examples=300)
def test_f3ast_is_the_best_feasible_set(situation, correlation, seed):
  p, r, available, k = situation
  # Equation (4) by brute force: every S within A_t with |S| <= K_t. The
  # derivative is written out here rather than taken from the library.
  utility = (p if correlation == rates.POSITIVE else p**2) / r**2
  best = max(
    sum(utility[list(subset)])
    for size in range(min(k, available.sum()) + 1)
    for subset in itertools.combinations(np.flatnonzero(available), size)
  )
  cohort = selection.f3ast(
    r, p, available, k, _rng(seed), correlation=correlation
  )
  assert utility[cohort.clients].sum() == pytest.approx(best, rel=1e-8)
  assert len(set(cohort.clients)) == len(cohort.clients) <= k
  assert available[cohort.clients].all()


@hypothesis.given(_situations(), st.integers(0, 99))
def test_every_policy_takes_k_or_all_who_are_there(situation, seed):
  p, r, available, k = situation
  for name, policy in selection.POLICIES.items():
    cohort = policy(
      selection.Situation(
        r, p, available, k, 0.1, losses_of=lambda clients: p[clients]
      ),
      _rng(seed),
    )
    most = min(k, available.sum())
    if name == 'proportional_with_replacement':
      assert min(1, most) <= len(cohort.clients) <= most
    else:
      assert len(cohort.clients) == most
    assert len(cohort.weights) == len(cohort.clients)
    assert available[cohort.clients].all()
    assert (np.diff(cohort.clients) > 0).all()


@hypothesis.given(
  _situations(),
  st.integers(1, 9),
  st.lists(
    st.sampled_from([0.0, 0.5, 1.0, 1.5, np.nan, np.inf, -np.inf]),
    min_size=9,
    max_size=9,
  ),
  st.integers(0, 99),
)
def test_power_of_choice_picks_what_brute_force_picks(
  situation, d, losses, seed
):
  p, _, available, k = situation
  losses = np.array(losses)
  asked = []

  def losses_of(clients):
    asked.extend(clients)
    return losses[clients]

  cohort = selection.power_of_choice(
    losses_of, p, available, k, d, _rng(seed)
  )
  num_candidates = min(d, available.sum()) if k else 0
  assert cohort.clients.size == min(k, num_candidates)
  assert available[cohort.clients].all()
  assert cohort.weights == pytest.approx(
    np.full(cohort.clients.size, 1 / max(1, cohort.clients.size))
  )
  if k >= num_candidates:  # All of them train: nobody need be asked.
    assert not asked
    return
  assert len(asked) == len(set(asked)) == num_candidates
  assert available[asked].all()
  # What is not finite counts as less than any loss, hence -1 here.
  value = np.where(np.isfinite(losses), losses, -1.0)
  best = max(
    sum(value[list(subset)]) for subset in itertools.combinations(asked, k)
  )
  assert sum(value[cohort.clients]) == pytest.approx(best)
  assert set(cohort.clients) <= set(asked)


def test_power_of_choice_returns_clients_and_not_places():
  # Three are there, 2, 5 and 7. Their losses rise with the index, so that two
  # are 5 and 7. Places in the list of candidates would be 1 and 2, and indexing
  # the wrong list, or taking the lowest, gives something else too.
  available = np.isin(np.arange(9), [2, 5, 7])
  p = np.full(9, 1 / 9)
  cohort = selection.power_of_choice(
    lambda clients: clients / 10, p, available, 2, 3, _rng()
  )
  np.testing.assert_array_equal(cohort.clients, [5, 7])
  np.testing.assert_array_equal(cohort.weights, [0.5, 0.5])


def test_power_of_choice_breaks_equal_losses_at_random():
  available = np.ones(4, bool)
  counts = np.zeros(4)
  rng = _rng()
  for _ in range(4000):
    cohort = selection.power_of_choice(
      lambda clients: np.ones(clients.size), np.full(4, 0.25), available, 1, 4,
      rng,
    )
    counts[cohort.clients] += 1
  # 1000 each; a standard deviation is 27.
  assert (np.abs(counts - 1000) < 5 * 27).all()


def test_losses_that_are_equal_but_for_rounding_are_broken_at_random():
  # In round 1 a model of zeros has the loss ln 10 everywhere; sums in float32
  # make it differ in the last digits, by the size of the client, always alike.
  losses = np.log(10) * (1 + 1e-7 * np.array([3, -2, 0, 4, -4]))
  everyone, p = np.ones(5, bool), np.full(5, 0.2)
  counts = np.zeros(5)
  for seed in range(3000):
    cohort = selection.power_of_choice(
      lambda clients: losses[clients], p, everyone, 2, 5, _rng(seed)
    )
    counts[cohort.clients] += 1
  # Each is in with probability 2/5: 1200 times, sd 27.
  assert (np.abs(counts - 1200) < 5 * 27).all()


def test_highest_takes_what_is_above_for_sure_and_draws_among_ties():
  losses = np.array([1.0, 3.0, 2.0, 2.0 * (1 + 1e-6), 2.0 * (1 + 1e-4), 0.5])
  # The first three: 1 is above, 4 is above by more than rounding, and one of 2
  # and 3, which tie, in ascending order.
  drawn = {
    tuple(selection.highest(losses, 3, _rng(seed))) for seed in range(50)
  }
  assert drawn == {(1, 2, 4), (1, 3, 4)}
  assert selection.highest(losses, 0, _rng()).size == 0
  assert selection.highest(losses, 9, _rng()).tolist() == list(range(6))
  # What is not finite ranks below all, and ties with its like.
  strange = np.array([np.nan, -1.0, np.inf, -np.inf])
  assert selection.highest(strange, 1, _rng()).tolist() == [1]
  drawn = {
    tuple(selection.highest(strange, 2, _rng(seed))) for seed in range(50)
  }
  assert drawn == {(0, 1), (1, 2), (1, 3)}


def test_a_policy_says_whether_it_waits_for_the_model():
  waiting = {
    name
    for name, policy in selection.POLICIES.items()
    if selection.is_waiting_for_model(policy)
  }
  assert waiting == {'power_of_choice'}


def test_power_of_choice_draws_candidates_by_their_data():
  # Two of three without replacement, p = .6, .3, .1: client 2 is not a
  # candidate with probability .6 * .3/.4 + .3 * .6/.7 = .70714.
  p = np.array([0.6, 0.3, 0.1])
  seen = 0
  rng = _rng()

  def losses_of(clients):
    nonlocal seen
    seen += 2 in clients
    return np.zeros(clients.size)

  for _ in range(8000):
    selection.power_of_choice(losses_of, p, np.ones(3, bool), 1, 2, rng)
  assert abs(seen / 8000 - 0.29286) < 5 * 0.0051


def test_a_policy_that_needs_losses_says_so():
  situation = selection.Situation(
    np.ones(3), np.full(3, 1 / 3), np.ones(3, bool), 1
  )
  with pytest.raises(ValueError, match='losses_of'):
    selection.POLICIES['power_of_choice'](situation, _rng())


def test_f3ast_by_hand():
  # Scores p^2/r^2: 1, 9, .64, 4; client 1 is away; the best two are 3 and 0.
  p = np.array([0.4, 0.3, 0.2, 0.1])
  r = np.array([0.4, 0.1, 0.25, 0.05])
  available = np.array([True, False, True, True])
  cohort = selection.f3ast(r, p, available, 2, _rng(), beta=0.1)
  np.testing.assert_array_equal(cohort.clients, [0, 3])
  # r_0 = .9 * .4 + .1 = .46 and r_3 = .9 * .05 + .1 = .145
  np.testing.assert_allclose(cohort.weights, [0.4 / 0.46, 0.1 / 0.145])


def test_the_two_forms_of_h_choose_differently():
  # p^2/r^2: .25 and .16; p/r^2: .5 and 1.6.
  p, r = np.array([0.5, 0.1]), np.array([1.0, 0.25])
  everyone = np.ones(2, bool)
  choose = lambda form: selection.f3ast(  # noqa: E731
    r, p, everyone, 1, _rng(), correlation=form
  ).clients[0]
  assert choose(rates.UNCORRELATED) == 0
  assert choose(rates.POSITIVE) == 1


def test_ties_are_broken_at_random_even_behind_rounding():
  # With r(0) = K p all scores are equal in exact arithmetic, not in floats.
  p = np.array([0.07, 0.13, 0.19, 0.29, 0.32])
  r = 0.3 * p
  counts = np.zeros(5)
  for seed in range(3000):
    cohort = selection.f3ast(r, p, np.ones(5, bool), 2, _rng(seed))
    counts[cohort.clients] += 1
  # Each is in with probability 2/5: 1200 times, sd 27.
  assert (np.abs(counts - 1200) < 5 * 27).all()


def test_infinite_scores_come_first():
  scores = np.array([1.0, np.inf, 5.0, np.inf])
  everyone = np.ones(4, bool)
  np.testing.assert_array_equal(
    selection.top_k(scores, everyone, 3, _rng()), [1, 2, 3]
  )
  drawn = {
    int(selection.top_k(scores, everyone, 1, _rng(s))[0]) for s in range(20)
  }
  assert drawn == {1, 3}


@st.composite
def _scores_and_masks(draw):
  n = draw(st.integers(1, 60))
  # Few values, so that many tie.
  values = st.sampled_from([0.0, 1e-300, 0.5, 1.0, 2.0, 1e300, np.inf])
  scores = draw(
    st.lists(values | st.floats(0, 1), min_size=n, max_size=n)
  )
  mask = draw(st.lists(st.booleans(), min_size=n, max_size=n))
  return np.array(scores), np.array(mask), draw(st.integers(0, n + 1))


@hypothesis.given(
  _scores_and_masks(), st.sampled_from([1, 4, 2**16]), st.integers(0, 99)
)
@hypothesis.settings(max_examples=500)
def test_top_k_is_what_sorting_gives(case, sample, seed):
  scores, available, k = case
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(selection, '_SAMPLE', sample)  # Or few are never sampled.
    # Who is away may have any score.
    seen = np.where(available, scores, np.nan)
    chosen = selection.top_k(seen, available, k, _rng(seed))
  best = sorted(scores[available], reverse=True)[:k]
  assert available[chosen].all() and (np.diff(chosen) > 0).all()
  np.testing.assert_allclose(
    sorted(scores[chosen], reverse=True), best, rtol=2.1e-9
  )


@pytest.mark.parametrize('sample', [4, 2**16])
def test_ties_of_top_k_are_fair_whoever_was_sampled(monkeypatch, sample):
  monkeypatch.setattr(selection, '_SAMPLE', sample)
  # One is above, 19 tie, 20 are away; each of the 19 is in with 4/19.
  scores = np.ones(40)
  scores[7] = 2
  available = np.arange(40) < 20
  counts = np.zeros(40)
  for seed in range(4000):
    counts[selection.top_k(scores, available, 5, _rng(seed))] += 1
  assert counts[7] == 4000 and counts[20:].sum() == 0
  tied = counts[np.delete(np.arange(20), 7)]
  # 842 times, sd 26.
  assert (np.abs(tied - 4000 * 4 / 19) < 5 * 26).all()


def test_nan_is_found_beside_what_is_sampled(monkeypatch):
  monkeypatch.setattr(selection, '_SAMPLE', 1)
  for place in range(30):
    scores = np.ones(30)
    scores[place] = np.nan
    with pytest.raises(ValueError, match='NaN'):
      selection.top_k(scores, np.ones(30, bool), 2, _rng())


def test_nan_scores_are_refused():
  with pytest.raises(ValueError, match='NaN'):
    selection.top_k(np.array([1.0, np.nan]), np.ones(2, bool), 1, _rng())


def test_proportional_draws_in_sequence_with_probability_p():
  p = np.array([0.5, 0.3, 0.2])
  # Without replacement: P(S = {i, j}) = p_i p_j/(1-p_i) + p_j p_i/(1-p_j).
  expected = {
    (i, j): p[i] * p[j] / (1 - p[i]) + p[j] * p[i] / (1 - p[j])
    for i, j in ((0, 1), (0, 2), (1, 2))
  }
  draws = 20000
  counts = dict.fromkeys(expected, 0)
  rng = _rng(1)
  for _ in range(draws):
    cohort = selection.proportional(p, np.ones(3, bool), 2, rng)
    counts[tuple(cohort.clients)] += 1
  for pair, probability in expected.items():
    error = np.sqrt(probability * (1 - probability) / draws)
    assert abs(counts[pair] / draws - probability) < 5 * error
  np.testing.assert_array_equal(cohort.weights, [0.5, 0.5])


def test_who_has_no_data_is_not_drawn_by_data():
  p = np.array([0.5, 0.5, 0.0])
  # An update that is left out would make the step smaller.
  for k in (2, 3):
    cohort = selection.proportional(p, np.ones(3, bool), k, _rng())
    assert cohort.clients.tolist() == [0, 1]
    assert cohort.weights.tolist() == [0.5, 0.5]
  only_empty = np.array([False, False, True])
  assert selection.proportional(p, only_empty, 2, _rng()).clients.size == 0


def test_with_replacement_by_brute_force():
  # All 3^4 sequences of four draws from clients 0, 2 and 3.
  p = np.array([0.2, 0.5, 0.06, 0.24])
  available = np.array([True, False, True, True])
  q = np.array([0.4, 0, 0.12, 0.48])  # p / .5
  exact = {}
  for sequence in itertools.product((0, 2, 3), repeat=4):
    times = np.bincount(sequence, minlength=4)
    chance = np.prod(q[list(sequence)])
    exact[tuple(times)] = exact.get(tuple(times), 0) + chance
  # What the sum over all sequences gives is what the closed forms say.
  mean = sum(np.array(m) / 4 * chance for m, chance in exact.items())
  inclusion = sum((np.array(m) > 0) * chance for m, chance in exact.items())
  np.testing.assert_allclose(mean, q)
  np.testing.assert_allclose(inclusion, 1 - (1 - q) ** 4)
  draws = 20000
  counts = dict.fromkeys(exact, 0)
  rng = _rng(1)
  for _ in range(draws):
    cohort = selection.proportional_with_replacement(p, available, 4, rng)
    assert (np.diff(cohort.clients) > 0).all()  # Each client once.
    times = np.zeros(4, int)
    times[cohort.clients] = np.rint(4 * cohort.weights)
    np.testing.assert_array_equal(cohort.weights, times[times > 0] / 4)
    counts[tuple(times)] += 1
  for times, chance in exact.items():
    error = np.sqrt(chance * (1 - chance) / draws)
    assert abs(counts[times] / draws - chance) < 5 * error


@hypothesis.given(_situations(), st.integers(0, 99))
def test_weights_with_replacement_sum_to_1_if_somebody_is_there(
  situation, seed
):
  p, _, available, k = situation
  cohort = selection.proportional_with_replacement(p, available, k, _rng(seed))
  is_somebody = k > 0 and p[available].sum() > 0
  assert cohort.weights.sum() == pytest.approx(float(is_somebody))
  assert available[cohort.clients].all() and (p[cohort.clients] > 0).all()
  # There are K_t draws also where fewer are available.
  np.testing.assert_allclose(cohort.weights * k, np.rint(cohort.weights * k))


def test_who_is_alone_is_drawn_every_time():
  p = np.array([0.1, 0.9, 0.0])
  alone = np.array([True, False, True])
  cohort = selection.proportional_with_replacement(p, alone, 10, _rng())
  assert (cohort.clients.tolist(), cohort.weights.tolist()) == ([0], [1.0])
  nobody = selection.proportional_with_replacement(
    p, np.array([False, False, True]), 10, _rng()
  )
  assert nobody.clients.size == nobody.weights.size == 0


def test_uniform_draws_all_alike():
  counts = np.zeros(4)
  rng = _rng(2)
  available = np.array([True, True, False, True])
  for _ in range(6000):
    counts[selection.uniform(available, 1, rng).clients] += 1
  assert counts[2] == 0
  assert (np.abs(counts[[0, 1, 3]] - 2000) < 5 * 37).all()


# The introduction's example: Table 1 is the product of its marginals, .375 * .8
# = .3 and so on; K = 1 and p = (1/2, 1/2).
_HALVES = np.array([0.5, 0.5])


def _two_client_rates(policy, rounds):
  """Plays the example; returns r(t) of all rounds and the share selected."""
  model = availability.Independent(np.array([0.375, 0.8]), seed=7)
  r = rates.initial(_HALVES, 1, 'kp')
  trajectory = np.zeros((rounds, 2))
  taken = np.zeros(2)
  for t in range(1, rounds + 1):
    rng = randomness.generator(7, 'selection', t)
    situation = selection.Situation(
      r, _HALVES, model(t), 1, 0.001, rates.UNCORRELATED
    )
    cohort = selection.POLICIES[policy](situation, rng)
    selected = np.isin(np.arange(2), cohort.clients)
    trajectory[t - 1] = r = rates.update(r, selected, 0.001)
    taken += selected
  return trajectory, taken / rounds


def test_introduction_example_f3ast_settles_at_the_optimum():
  trajectory, share = _two_client_rates('f3ast', 20000)
  settled = trajectory[10000:]
  np.testing.assert_allclose(settled.mean(axis=0), [0.375, 0.5], atol=0.02)
  np.testing.assert_allclose(share, [0.375, 0.5], atol=0.02)
  # Around it r(t) moves by sqrt(beta / 2 var) = .011 in each coordinate.
  assert (settled.std(axis=0) < 0.02).all()


def test_introduction_example_naive_sampling_is_biased():
  trajectory, share = _two_client_rates('proportional', 20000)
  np.testing.assert_allclose(
    trajectory[10000:].mean(axis=0), [0.225, 0.65], atol=0.02
  )
  np.testing.assert_allclose(share, [0.225, 0.65], atol=0.02)


def test_delta_is_unbiased_at_the_stationary_rate():
  # At r* = (.375, .5) F3AST prefers client 0 whenever it is there, which keeps
  # the rates at r*. Then E[Delta] = sum p_k v_k whatever the updates v are.
  r = np.array([0.375, 0.5])
  v = np.array([[1.0, -2.0, 5.0], [0.5, 4.0, -1.0]])
  model = availability.Independent(np.array([0.375, 0.8]), seed=11)
  draws = 40000
  deltas, naive = np.zeros((draws, 3)), np.zeros((draws, 3))
  for t in range(1, draws + 1):
    cohort = selection.f3ast(r, _HALVES, model(t), 1, _rng(), beta=1e-12)
    deltas[t - 1] = cohort.weights @ v[cohort.clients]
    cohort = selection.proportional(
      _HALVES, model(t), 1, randomness.generator(1, 'naive', t)
    )
    naive[t - 1] = cohort.weights @ v[cohort.clients]
  target = _HALVES @ v

  def standard_errors_off(samples):
    error = samples.std(axis=0) / np.sqrt(draws)
    return np.abs(samples.mean(axis=0) - target) / error

  assert (standard_errors_off(deltas) < 4).all()
  assert (standard_errors_off(naive) > 20).any()  # The test can tell.


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
