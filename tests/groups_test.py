"""Tests of `groups` against brute force, numbers by hand and simulation."""

import collections
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest
from scipy import optimize

from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import groups
from f3ast_tff import methods
from f3ast_tff import rates
from f3ast_tff import selection
from f3ast_tff.theory import region
from f3ast_tff.theory import small_system
from tests import situations
from tests import systems


@st.composite
def _cases(draw):
  """Draws scores with ties, a mask, K and bounds; K may be too small."""
  n = draw(st.integers(1, 7))
  lists = lambda values: st.lists(values, min_size=n, max_size=n)  # noqa: E731
  scores = st.sampled_from([0.0, 0.5, 1.0, 2.0, 7.0]) | st.floats(0, 10)
  bounds = draw(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)).map(sorted),
             min_size=3, max_size=3)
  )
  return (
    np.array(draw(lists(scores))),
    np.array(draw(lists(st.booleans()))),
    draw(st.integers(0, n + 1)),
    groups.Bounds(
      np.array(draw(lists(st.integers(0, 2)))), *np.transpose(bounds)
    ),
  )


@hypothesis.given(_cases(), st.integers(0, 99))
@hypothesis.settings(max_examples=200)
def test_it_is_the_best_of_all_feasible_sets(case, seed):
  scores, available, k, bounds = case
  feasible = list(systems.feasible_sets(available, k, bounds))
  seen = np.where(available, scores, np.nan)  # Who is away may have any score.
  best_set = lambda: groups.best_set(  # noqa: E731
    seen, available, k, bounds, situations.rng(seed), 1e-9
  )
  if not feasible:
    with pytest.raises(ValueError, match=f'but K is {k}'):
      best_set()
    return
  chosen = tuple(best_set().tolist())
  assert chosen in feasible
  best = max(sum(scores[list(s)]) for s in feasible)
  assert sum(scores[list(chosen)]) == pytest.approx(best, rel=1e-8)
  # As many as can take part do, also where they add nothing.
  assert not any(set(chosen) < set(other) for other in feasible)


@hypothesis.given(_cases(), st.integers(0, 99))
def test_without_bounds_it_is_the_top_k(case, seed):
  scores, available, k, bounds = case
  _, first = np.unique(scores, return_index=True)
  available &= np.isin(np.arange(scores.size), first)  # No ties.
  scores = np.round(scores, 6) + 1e-7 * np.arange(scores.size)
  free = bounds._replace(least=np.zeros(3, int), most=np.full(3, scores.size))
  np.testing.assert_array_equal(
    selection.top_k(scores, available, k, situations.rng(seed), free),
    selection.top_k(scores, available, k, situations.rng(seed)),
  )


@pytest.mark.parametrize(
  'text, k, expected',
  [
    ('a:..1,b:..2', 2, [0, 2]),
    ('a:..1,b:..1', 3, [0, 2]),
    ('a:0..2,b:2..2', 3, [0, 2, 3]),
    ('1..', 2, [0, 2]),
    ('..', 2, [0, 1]),
    ('a:..0,..', 3, [2, 3]),
    ('a:..0', 3, [2, 3]),
  ],
)
def test_four_clients_by_hand(text, k, expected):
  bounds = groups.quotas('aabb', text)(1)
  scores, everyone = np.array([9.0, 8.0, 7.0, 6.0]), np.ones(4, bool)
  chosen = selection.top_k(scores, everyone, k, situations.rng(), bounds)
  assert chosen.tolist() == expected


def test_too_few_of_a_group_relax_its_bound():
  # Of the second group one is available and two should take part.
  bounds = groups.quotas('aaabb', 'b:2..')(1)
  scores = np.array([9.0, 8.0, 7.0, 1.0, 0.5])
  for there, expected in (([1, 1, 1, 1, 0], [0, 1, 3]), ([1] * 5, [0, 3, 4])):
    available = np.array(there, bool)
    chosen = selection.top_k(scores, available, 3, situations.rng(), bounds)
    assert chosen.tolist() == expected


def _frequencies(scores, k, bounds, draws=2000):
  found = collections.Counter()
  everyone, rng = np.ones(len(scores), bool), situations.rng(1)
  for _ in range(draws):
    chosen = selection.top_k(np.array(scores), everyone, k, rng, bounds)
    found[tuple(chosen.tolist())] += 1
  return found


def test_ties_are_broken_at_random_between_groups_and_inside():
  # Five clients tie, at most one of the first four: each comes alike.
  bounds = groups.quotas('aaaab', 'a:..1')(1)
  alike = {(k,): 0.2 for k in range(5)}
  situations.assert_frequencies(_frequencies([0.7] * 5, 1, bounds), alike)
  # They tie behind rounding, too.
  near = [0.7 * (1 + 1e-15 * k) for k in range(5)]
  situations.assert_frequencies(_frequencies(near, 1, bounds), alike)
  # Whom a group must have is drawn as well.
  bounds = groups.quotas('aabb', 'a:1..')(1)
  situations.assert_frequencies(
    _frequencies([1.0, 1.0, 3.0, 2.0], 2, bounds), {(0, 2): 0.5, (1, 2): 0.5}
  )


def test_infinite_scores_come_first_and_nan_is_refused():
  bounds = groups.quotas('aab', 'a:..1')(1)
  found = _frequencies([np.inf, np.inf, 1.0], 2, bounds, 1000)
  situations.assert_frequencies(found, {(0, 2): 0.5, (1, 2): 0.5})
  with pytest.raises(ValueError, match='NaN'):
    _frequencies([np.nan, 1.0, 1.0], 2, bounds, 1)


def test_draws_in_proportion_skip_groups_that_are_full():
  # Client 0 first (.5), or 1 (.3), then only 2 is left; or 2 first (.2), then 0
  # or 1 as .5 : .3.
  p = np.array([0.5, 0.3, 0.2])
  s = situations.situation(p, 2, bounds=groups.quotas('aab', 'a:..1')(1))
  found = situations.counts(methods.POLICIES['proportional'], s, 2000)
  situations.assert_frequencies(found, {(0, 2): 0.625, (1, 2): 0.375})
  # Uniformly: 1/3, 1/3, and 1/3 halved.
  found = situations.counts(methods.POLICIES['uniform'], s, 2000)
  situations.assert_frequencies(found, {(0, 2): 0.5, (1, 2): 0.5})


def test_quotas_go_through_a_schedule_and_start_over():
  quotas = groups.quotas('aab', 'a:1..2,b:..0/..1')
  for t in (1, 3, 5):
    _, least, most = quotas(t)
    assert (least.tolist(), most.tolist()) == ([1, 0], [2, 0])
    _, least, most = quotas(t + 1)
    assert (least.tolist(), most.tolist()) == ([0, 0], [1, 1])
  with pytest.raises(ValueError, match='Rounds count from 1'):
    quotas(0)


def test_groups_by_index_and_by_label():
  assert groups.blocks(7, 3) == ['0', '0', '0', '1', '1', '2', '2']
  assert groups.blocks(2, 2) == ['0', '1']
  shares = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
  assert groups.by_label(shares) == ['1', '0', '0']
  with pytest.raises(ValueError, match='blocks:3 needs as many clients.* 2'):
    groups.blocks(2, 3)


@pytest.mark.parametrize(
  'text', ['', '3', 'a', 'a:', 'a:3', ':1..2', '1-2', '1..2,', 'a:1..2/',
           '-1..2', '1..2,1..3', 'a:..1,a:..2', '1...2', '1.5..2', '٣..']
)
def test_a_quota_that_cannot_be_read_is_refused(text):
  with pytest.raises(ValueError, match='group_quota is .* must read like'):
    groups.quotas('aab', text)


@pytest.mark.parametrize(
  'text, message',
  [
    ('2..1', "has '2..1', but the first number"),
    ('a:..2,c:..2', "the group 'c', but the groups are 'a', 'b'"),
    ('b:2..', "At least 2 .* group 'b' are to take part, but it has 1"),
    ('b:2..5', "At least 2 and at most 5.*'b'.* it has 1"),
  ],
)
def test_a_quota_that_cannot_be_kept_is_refused(text, message):
  with pytest.raises(ValueError, match=message) as error:
    groups.quotas('aab', text)
  assert '\n' not in str(error.value) and str(error.value).endswith('.')


@pytest.mark.parametrize(
  'group_of, least, most, message',
  [
    ([0, 2], [[0, 0]], [[1, 1]], 'from 0 to 1 for each client'),
    ([0, -1], [[0, 0]], [[1, 1]], 'from 0 to 1'),
    ([0.0, 1.0], [[0, 0]], [[1, 1]], 'from 0 to 1'),
    ([0, 1], [[0]], [[1]], 'a column for each of the 2 groups'),
    ([0, 1], [0, 0], [1, 1], 'a row per round'),
    ([0, 1], [[1, 0]], [[0, 1]], 'At least 1 and at most 0'),
    ([0, 1], [[-1, 0]], [[1, 1]], 'At least -1'),
  ],
)
def test_wrong_arrays_are_named(group_of, least, most, message):
  with pytest.raises(ValueError, match=message):
    groups.Quotas('ab', *map(np.array, (group_of, least, most)))


@pytest.mark.parametrize('text', ['', 'blocks', 'blocks:0', 'blocks:-1',
                                  'blocks:x', 'labels:2', 'file:', 'a.csv'])
def test_a_grouping_that_cannot_be_read_is_refused(text):
  with pytest.raises(ValueError, match='groups is .* must be blocks:G'):
    groups.parse_grouping(text)


_OWN = communication.fixed(1).__call__  # Has no minimum.


@pytest.mark.parametrize(
  'text, constraint, needed',
  [
    ('1..', communication.fixed(1), (2, 1)),
    ('1..', communication.fixed(2), None),
    # The smallest K that comes.
    ('1..', communication.Uniform(1, 3), (2, 1)),
    ('1..', communication.Uniform(2, 3), None),
    ('1..', communication.MarkovLink(3, 1, 0.1, 0.1), (2, 1)),
    ('1..', communication.MarkovLink(3, 1, 0.0, 0.1), None),
    ('1..', communication.MarkovLink(1, 3, 0.1, 0.0), None),
    # Schedules round by round: (2, 3), (0, 0), (2, 3), ...
    ('1../..', communication.Schedule((3, 0)), None),
    ('1../..', communication.Schedule((0, 3)), (2, 0)),
    # Of two and three rounds: all pairs meet.
    ('1../..', communication.Schedule((3, 3, 0)), (2, 0)),
    # Of four and two: rounds 1 and 3 meet the first K, 2 and 4 the second.
    ('1../../a:1../..', communication.Schedule((2, 0)), None),
    ('../../a:1../1..', communication.Schedule((1, 1)), (2, 1)),
    ('1..', _OWN, None),
  ],
)
def test_more_than_k_is_refused_when_that_is_known(text, constraint, needed):
  quotas = groups.quotas('aab', text)
  if needed is None:
    groups.check(quotas, constraint)
    return
  message = 'requires {} clients .* can be {} there'.format(*needed)
  with pytest.raises(ValueError, match=message):
    groups.check(quotas, constraint)
  with pytest.raises(ValueError, match='group_quota requires'):
    methods.build_selector(
      np.full(3, 1 / 3), 'always', constraint, quotas=quotas
    )


def test_who_cannot_keep_quotas_is_refused():
  p, quotas = np.full(3, 1 / 3), groups.quotas('aab', '..1')
  for policy in (
    'power_of_choice',
    'proportional_with_replacement',
    'fixed_policy',
    lambda s, rng: None,
  ):
    with pytest.raises(ValueError, match='uniform, uniform_by_data, or'):
      methods.build_selector(p, 'always', 2, policy=policy, quotas=quotas)
  with pytest.raises(ValueError, match='for 3 clients, but p has 2'):
    methods.build_selector([0.5, 0.5], 'always', 2, quotas=quotas)


def test_a_policy_of_ones_own_may_keep_them():
  @selection.keeps_quotas
  def last_of_each(situation, rng):
    del rng
    of = situation.bounds.group_of
    clients = [np.flatnonzero(of == g)[-1] for g in range(of.max() + 1)]
    return selection.with_equal_weights(np.array(clients))

  selector = methods.build_selector(
    np.full(4, 0.25), 'always', 2, policy=last_of_each,
    quotas=groups.quotas('aabb', '..1'),
  )
  cohort = selector.select(1, selector.initial_rates).cohort
  assert cohort.clients.tolist() == [1, 3]


def test_rounds_of_f3ast_are_those_of_a_plain_loop():
  # r(0) = K / N leaves no ties that chance would break.
  p = np.arange(1, 10) / 45
  model = availability.home_devices(9, seed=5)
  quotas = groups.quotas('abcabcabc', 'a:1..1,b:..2/c:..0,b:1..')
  selector = methods.build_selector(
    p, model, communication.Schedule((3, 2, 4)), rate_init='uniform',
    beta=0.07, seed=5, quotas=quotas,
  )
  limits = (
    {'a': (1, 1), 'b': (0, 2), 'c': (0, 9)},
    {'a': (0, 9), 'b': (1, 9), 'c': (0, 0)},
  )
  r = [3 / 9] * 9
  for t, step in enumerate(selector.simulate(60), 1):
    limit, k_t = limits[(t - 1) % 2], (3, 2, 4)[(t - 1) % 3]
    there = [k for k in range(9) if model(t)[k]]
    there.sort(key=lambda k: -(p[k] ** 2) / r[k] ** 2)
    chosen = []
    for g, (least, _) in limit.items():
      chosen += [k for k in there if 'abc'[k % 3] == g][:least]
    for k in there:
      used = sum(j % 3 == k % 3 for j in chosen)
      if k not in chosen and len(chosen) < k_t:
        chosen += [k] if used < limit['abc'[k % 3]][1] else []
    r = [0.93 * r[k] + 0.07 * (k in chosen) for k in range(9)]
    assert step.cohort.clients.tolist() == sorted(chosen)
    np.testing.assert_allclose(
      step.cohort.weights, [p[k] / r[k] for k in sorted(chosen)]
    )


def _settled(selector, num_rounds=4000):
  """Returns the mean of r(t) over the second half of the rounds."""
  steps = [step.rates for step in selector.simulate(num_rounds)]
  return np.mean(steps[num_rounds // 2 :], axis=0)


def test_the_rates_go_to_the_best_ones_that_quotas_allow():
  system, p = systems.with_quotas(21, n=6)
  of, least, most = system.bounds
  assert least.any() and (most < np.bincount(of, minlength=3)).any()
  quotas = groups.Quotas('abc', of, least[None], most[None])
  selector = methods.build_selector(
    p, small_system.Configurations(system, seed=3), system.k,
    beta=0.005, seed=3, quotas=quotas,
  )
  best = region.minimise_h(system, p)
  np.testing.assert_allclose(_settled(selector), best, atol=0.03)
  # The test can tell: without quotas the rates are others.
  free = small_system.System(system.masks, system.probabilities, system.k)
  assert np.abs(region.minimise_h(free, p) - best).max() > 0.3


def test_the_rates_go_to_the_best_ones_of_a_schedule():
  # In every other round the first group may not take part. What is achievable
  # is the mean of what is in the two kinds of rounds, so the bounds of all sets
  # are means; the best rates under them by another solver.
  q, p = np.array([0.9, 0.8, 0.7, 0.6]), np.array([0.5, 0.2, 0.2, 0.1])
  quotas = groups.quotas('aabb', 'a:..0/a:1..')
  kinds = []
  for t in (1, 2):
    free = small_system.independent(q, 2)
    kinds.append(
      small_system.System(free.masks, free.probabilities, 2, quotas(t))
    )
  sets = small_system.all_sets(4)[1:]
  bounds = np.array([
    np.mean([region.rank(kind, np.flatnonzero(u)) for kind in kinds])
    for u in sets
  ])
  best = optimize.minimize(
    lambda r: (p**2 / r).sum(),
    np.full(4, 0.2),
    jac=lambda r: -(p**2) / r**2,
    method='SLSQP',
    bounds=[(1e-6, 1)] * 4,
    constraints={
      'type': 'ineq',
      'fun': lambda r: bounds - sets @ r,
      'jac': lambda r: -sets.astype(float),
    },
    options={'ftol': 1e-15, 'maxiter': 500},
  ).x
  selector = methods.build_selector(
    p, availability.Independent(q, seed=4), 2, beta=0.005, seed=4,
    quotas=quotas,
  )
  settled = _settled(selector)
  np.testing.assert_allclose(settled, best, atol=0.03)
  assert rates.variance_bound(p, settled) == pytest.approx(
    (p**2 / best).sum(), rel=0.02
  )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
