"""Two rounds of every method by hand, through the real process.

Three clients with F_k(w) = (w - b_k)^2 / 2, b = (0, 4, 8), two full-gradient
steps of rate 0.5 from w = 1: v_k = -0.75 (w - b_k). Clients 0 and 1 are there
in the first round, 1 and 2 in the second. r(0) = (1, 0.6, 0.4), beta = 0.1.
"""

import sys

import numpy as np
import pytest

from f3ast_tff import methods
from f3ast_tff import selection
from f3ast_tff import vectors
from f3ast_tff.methods import afl
from f3ast_tff.methods import ca_fed
from f3ast_tff.methods import fedau
from f3ast_tff.methods import feddyn
from f3ast_tff.methods import scaffold
from tests import quadratics
from tests import situations
from tests import slow

pytestmark = pytest.mark.usefixtures('in_process')

_SETS = [(0, 1), (1, 2)]
_EQUAL = {'p': quadratics.EQUAL, 'policy': 'uniform'}


def _near(actual, expected):
  np.testing.assert_allclose(
    np.ravel(actual), np.ravel(expected), rtol=0, atol=1e-6
  )


# What is built, and what is known after the first and the second round: the
# model w, rates r, weights of those who take part, the server's vector, the
# clients' vectors, or what is kept under another name.
_EXAMPLES = {
  'f3ast': (
    {},
    {
      'w': [1.6796875, 4.687940473],
      'r': [(1, 0.64, 0.36), (0.9, 0.676, 0.424)],
      'weights': [(0.5, 0.46875), (0.443786982, 0.471698113)],
    },
  ),
  'weight cap': (
    {'weight_cap': 0.45}, {'w': [1 - 0.75 * 0.45 + 2.25 * 0.45]}
  ),
  'sum cap': ({'sum_cap': 0.5}, {'w': [1 - 0.1935483871 + 0.5443548387]}),
  'f3ast + fedprox': ({'proximal': 0.5}, {'w': [1.56640625, 4.138100787]}),
  'fedprox by data': (
    {'policy': 'uniform_by_data', 'proximal': 0.5},
    {'w': [1.3125, 3.9921875]},
  ),
  'mifa': (
    {'method': 'mifa'},
    {
      'w': [1.3, 2.5375],
      'server': [0.3, 1.2375],
      'clients': [(-0.75, 2.25, 0), (-0.75, 2.025, 5.025)],
    },
  ),
  'mifa, 1/N': ({**_EQUAL, 'method': 'mifa'}, {'w': [1.5, 3.5]}),
  'fedvarp, 1/N': (
    {**_EQUAL, 'method': 'fedvarp'},
    {
      'w': [1.75, 4.3125],
      'server': [0.5, (-0.75 + 1.6875 + 4.6875) / 3],
      'clients': [(-0.75, 2.25, 0), (-0.75, 1.6875, 4.6875)],
    },
  ),
  'f3ast + fedvarp': (
    {'method': 'fedvarp'},
    {
      'w': [1.6796875, 3.989419762],
      'server': [
        0.3, 0.5 * -0.75 + 0.3 * 1.740234375 + 0.2 * 4.740234375
      ],
      'clients': [(-0.75, 2.25, 0), (-0.75, 1.740234375, 4.740234375)],
    },
  ),
  'fedstale': (
    {'method': 'fedvarp:0.5'},
    {'w': [1.6796875, (3.989419762 + 4.687940473) / 2]},
  ),
  'fedstale, factor 0 is f3ast': (
    {'method': 'fedvarp:0'}, {'w': [1.6796875, 4.687940473]}
  ),
  'fedawe, 1/N': (
    {**_EQUAL, 'method': 'fedawe'},
    {
      'w': [1.75, 7.46875],
      'server': [0, 0],
      'clients': [(1.75, 1.75, 1), (1.75, 7.46875, 7.46875)],
    },
  ),
  'scaffold, 1/N': (
    {**_EQUAL, 'method': 'scaffold'},
    {
      'w': [1.75, 4.46875],
      'server': [-0.5, -1.979166667],
      'clients': [(0.75, -2.25, 0), (0.75, -2.125, -4.5625)],
    },
  ),
  'f3ast + scaffold': (
    {'method': 'scaffold'},
    {
      'w': [1.6796875, 4.145034086],
      'server': [-0.3, -1.226367187],
      'clients': [(0.75, -2.25, 0), (0.75, -2.227734375, -4.665234375)],
    },
  ),
  'feddyn, 1/N': (
    {**_EQUAL, 'method': 'feddyn:0.5'},
    {
      'w': [2.041666667, 6.093315972],
      'server': [-0.208333333, -0.935329861],
      'clients': [(0.3125, -0.9375, 0)],
    },
  ),
  'f3ast + feddyn': (
    {'method': 'feddyn:0.5'},
    {
      'w': [1.81640625, 5.241616603],
      'server': [-0.125, -0.628295898],
      'clients': [
        (0.3125, -0.9375, 0), (0.3125, -1.326904297, -1.932373047)
      ],
    },
  ),
  'f3ast + afl': (
    {'method': 'afl:0.01'},
    {
      'w': [1.6796875, 4.523661278],
      'shares': [
        (0.479895833, 0.345208333, 0.174895833),
        (0.309600225, 0.214734101, 0.475665674),
      ],
    },
  ),
  'ca_fed, told pi': (
    {
      'policy': 'uniform',
      'method': ca_fed.build(
        lambda round_num: np.array([0.8, 0.5, 0.2]), np.array([0.1, 0.5, 0.9])
      ),
    },
    {
      'w': [0.53125, 2.0921875],
      'weights': [0.625, 0.6],
      'loss': [(0.5, 4.5, 2.5), (0.5, 6.016113281, 27.891113281)],
    },
  ),
}


def _found(what, happened, state):
  if what == 'w':
    return quadratics.model_of(state)
  if what == 'weights':
    return happened.cohort.weights
  if what in ('server', 'clients'):
    return getattr(state.vectors, what)
  return state.rates if what == 'r' else state.kept[what]


@pytest.mark.parametrize('name', _EXAMPLES)
def test_by_hand(name):
  settings, expected = _EXAMPLES[name]
  built = quadratics.training(_SETS, **settings)
  *rounds, (_, last) = list(quadratics.states(built, 3))
  for what, values in expected.items():
    for value, (happened, state) in zip(values, rounds):
      _near(_found(what, happened, state), value)
  # In the third round nobody is there; only MIFA moves on.
  _near(
    quadratics.model_of(last) - quadratics.model_of(rounds[1][1]),
    last.vectors.server if 'mifa' in name else 0,
  )


@pytest.mark.parametrize(
  'method, models, third',
  [
    ('fedau:4', [2.1953125, 5.678125], [1, 1, 1, 4, 4, 3]),
    ('fedau', [2.1953125, 3.066015625], [1, 1, 1, 1, 1, 6]),
    # Every interval is cut at once: absent clients count as 0.
    ('fedau:1', [1.45703125, 2.4384765625], 6 * [1]),
  ],
)
def test_fedau_by_hand(method, models, third):
  sets = [(0,), (0, 1), (), (0,), (1,), (2,)]
  built = quadratics.training(sets, policy='uniform', method=method)
  first = [1, 1, 1, 4 / 3, 4 / 3, 4 / 3]
  second = [1, 2, 2, 2, 2.5, 2.5]
  if method == 'fedau:1':
    first = second = third
  *_, found = zip(*quadratics.states(built, 6))
  _near(
    [quadratics.model_of(state) for state in found],
    [0.625, 1.15, 1.15, 0.71875, *models],
  )
  _near(
    [state.kept['mean_interval'] for state in found],
    np.transpose([first, second, third]),
  )


def test_a_cutoff_of_fedau_is_paid_for_by_the_rare():
  # Who is there with probability q counts 1 - (1 - q)^50 of its share.
  q, method = 0.02, fedau.build(50)
  kept, rng = method.initial(np.ones(1)), np.random.default_rng(0)
  for _ in range(40_000):
    clients = np.flatnonzero(rng.random(1) < q)
    kept = method.next(
      situations.situation(np.ones(1), kept=kept),
      selection.with_equal_weights(clients),
    )
  assert kept['mean_interval'][0] * q == pytest.approx(0.636, rel=0.03)


def test_fedawe_by_share_by_hand():
  built = quadratics.training(_SETS, policy='uniform', method='fedawe')
  first = (1 - 1.5 * 0.75 + 1 + 0.9 * 2.25) / 2
  second = first + 0.9 * -0.75 * (first - 4)
  models, state = quadratics.run(built, 2)
  _near(models, [first, (second + 1 + 2 * 0.6 * 5.25) / 2])
  _near(state.kept['last_round'], [1, 2, 2])


def test_afl_by_hand():
  # All clients in every round: r = 1.
  built = quadratics.training(
    2 * [(0, 1, 2)],
    policy='uniform',
    k=3,
    rate_init='uniform',
    method='afl:0.01',
  )
  (_, first), (_, second) = quadratics.states(built, 2)
  _near([quadratics.model_of(s) for s in (first, second)], [2.35, 3.4075])
  _near(first.kept['shares'], [0.406666667, 0.246666667, 0.346666667])
  _near(second.kept['shares'], [0.367333333, 0.193333333, 0.439333333])
  _near(afl.project(np.array([0.95, 0.2, 0.05])), [0.875, 0.125, 0])
  _near(afl.project(np.array([0.95, 0.2, 0.05]), 0.1), [0.8, 0.1, 0.1])
  _near(afl.project(np.array([0.2, 1e38, 0.05]), 0.1), [0.1, 0.8, 0.1])


def test_annealed_and_corrected_rates_by_hand():
  sets = [(0,), (), (), (0,), (), ()]
  for step, rates in (
    ('annealed:5', [0.5, 3 / 7, 0.375, 4 / 9, 0.4, 0.36]),
    ('corrected', None),
  ):
    built = quadratics.training(
      sets,
      p=np.array([0.4, 0.3, 0.3]),
      k=1,
      rate_init='p',
      rate_step=step,
    )
    simulated = [r.rates[0] for r in built.selector.simulate(6)]
    if rates is None:  # The mean of the rounds so far, the newest first.
      seen = np.array([1, 0, 0, 1, 0, 0])
      weights = [0.9 ** np.arange(t)[::-1] for t in range(1, 7)]
      rates = [w @ seen[: w.size] / w.sum() for w in weights]
    _near(simulated, rates)
    # The process has the same step in its state.
    _, state = quadratics.run(built, 6)
    _near(state.rates[0], rates[-1])


def test_corrected_rates_from_zero_by_hand():
  # r = 0, 0, 0.1, 0.09, each over 1 - 0.9^t.
  built = quadratics.training(
    [(), (), (0,), ()], k=1, rate_step='corrected', rate_init='p'
  )
  found = [state.rates[0] for _, state in quadratics.states(built, 4)]
  np.testing.assert_allclose(found, [0, 0, 0.369004, 0.261704], atol=1e-6)


def test_the_echoes_of_who_is_there_sum_to_the_round():
  rng = np.random.default_rng(1)
  sets = [np.flatnonzero(rng.random(3) < 0.5) for _ in range(9)]
  selector = quadratics.training(sets, method='fedawe').selector
  kept, echoes = selector.initial_kept, np.zeros(3)
  for t in range(1, 10):
    found = selector.select(t, selector.initial_rates, kept=kept)
    clients = found.cohort.clients
    echoes[clients] += (
      found.state_weights * clients.size / (3 * quadratics.P[clients])
    )
    np.testing.assert_allclose(echoes[clients], t)
    kept = found.kept


@pytest.mark.parametrize(
  'method',
  slow.but(
    ['none', 'fedau', 'scaffold'],
    ['none', 'fedau', 'mifa', 'fedvarp', 'scaffold', 'fedawe'],
  ),
)
def test_all_clients_every_round_is_fedavg(method):
  # A step is 0.75 of the way to 4, the mean of b.
  built = quadratics.training(
    3 * [(0, 1, 2)], p=quadratics.EQUAL, k=3, method=method
  )
  models, _ = quadratics.run(built, 3)
  # SCAFFOLD's c and FedAWE's own models are those of FedAvg here, too.
  _near(models, [3.25, 3.8125, 3.953125])


@pytest.mark.parametrize(
  'method', slow.but(['none', 'mifa'], ['none', 'mifa', 'fedvarp', 'fedau'])
)
@pytest.mark.parametrize('policy', ['uniform_by_data', 'f3ast'])
def test_equal_clients_take_one_step_times_the_sum_of_weights(policy, method):
  built = quadratics.training(
    _SETS, policy=policy, b=(4, 4, 4), proximal=0.5, method=method
  )
  (happened, state), *_ = quadratics.states(built, 1)
  total = happened.cohort.weights.sum()
  if method == 'mifa':  # Of those who were seen.
    total = 0.8
  elif policy == 'uniform_by_data' and method != 'fedau':
    assert total == pytest.approx(1)
  else:
    assert abs(total - 1) > 0.01
  _near(quadratics.model_of(state), 1 + total * 0.625 * 3)


@pytest.mark.slow
def test_afl_and_f3ast_find_the_worst_mix():
  # max over lambda of sum lambda_k (w - b_k)^2 / 2 is least at w = 4, for
  # lambda = (0.5, 0, 0.5), but none is below 0.1 / 3. Who is there with
  # probability 0.9, 0.5, 0.3 makes one step of rate 0.05. Without 1 / r in the
  # step of lambda w would be below 3.
  selector = methods.build_selector(
    quadratics.P, _Coins(), 2, beta=0.01, method='afl:0.0001'
  )
  w, r, kept = 1.0, selector.initial_rates, selector.initial_kept
  models, shares = [], []
  for t in range(1, 10_001):
    losses = (w - quadratics.B) ** 2 / 2
    found = selector.select(t, r, lambda clients, f=losses: f[clients], kept)
    clients, weights = found.cohort
    r, kept = selector.next_rates(r, found.cohort), found.kept
    w -= 0.05 * weights @ (w - quadratics.B[clients])
    models.append(w)
    shares.append(kept['shares'])
  assert np.mean(models[3000:]) == pytest.approx(4, abs=0.05)
  np.testing.assert_allclose(
    np.mean(shares[3000:], axis=0), [0.48333, 0.03333, 0.48333], atol=0.01
  )


def test_shares_of_afl_sum_to_one():
  built = quadratics.training(
    [(0, 1), (2,), (1,), (0, 2), ()], method='afl:0.3'
  )
  for _, state in quadratics.states(built, 5):
    _near(state.kept['shares'].sum(), 1)
    assert state.kept['shares'].min() >= 0.1 / 3 - 1e-9


def test_the_bound_of_ca_fed_by_hand():
  settings, _ = _EXAMPLES['ca_fed, told pi']
  built = quadratics.training(_SETS, **settings)
  found = [state.kept['loss'] for _, state in quadratics.states(built, 2)]
  for losses, out, before, after in zip(
    found, (1, 2), (2.1, 7.633056641), (1.476428571, 3.684187012)
  ):
    terms = quadratics.P * losses
    _near(ca_fed.bound(terms.sum(), 0, losses.max()), before)
    rest = np.delete(terms, out).sum()
    _near(ca_fed.bound(rest, quadratics.P[out], losses.max()), after)


def test_ca_fed_estimates_chains_by_hand():
  # On, on, off, off, off, on: n11 = 1, n10 = 1, n00 = 2, n01 = 1. Never there.
  # Always. The estimates of a round are by the rounds before it.
  sets = [(0, 2), (0, 2), (2,), (2,), (2,), (0, 2)]
  built = quadratics.training(sets, policy='uniform', method='ca_fed')
  *_, (_, state) = quadratics.states(built, 6)
  pi, lam = ca_fed.estimates(
    situations.situation(quadratics.P, round_num=7, kept=state.kept)
  )
  _near(pi, [4 / 8, 1 / 8, 7 / 8])
  _near(lam, [2 / 4 + 3 / 5 - 1, 1 / 2 + 6 / 7 - 1, 6 / 7 + 1 / 2 - 1])


def test_ca_fed_with_equal_losses_excludes_nobody():
  settings, _ = _EXAMPLES['ca_fed, told pi']
  built = quadratics.training([(0, 1, 2)], k=3, b=(4, 4, 4), **settings)
  ((happened, _),) = quadratics.states(built, 1)
  _near(happened.cohort.weights, [0.5 / 0.8, 0.3 / 0.5, 0.2 / 0.2])


def test_ca_fed_excludes_nobody_if_bias_costs_much():
  losses, pi = np.array([0.5, 4.5, 2.5]), np.array([0.8, 0.5, 0.2])
  lam = np.array([0.1, 0.5, 0.9])
  found = ca_fed.excluded(quadratics.P, losses, pi, lam)
  assert found.tolist() == [False, True, False]
  assert not ca_fed.excluded(quadratics.P, losses, pi, lam, kappa=1e9).any()


@pytest.mark.parametrize(
  'method',
  slow.but(  # Numbers, and vectors.
    ['fedau', 'scaffold'],
    ['fedau', 'afl', 'mifa', 'fedvarp', 'fedawe', 'scaffold', 'feddyn'],
  ),
)
def test_an_update_that_is_not_finite_leaves_what_is_kept(method):
  # Client 1 has no number; what is kept is as if it had not been there.
  built, without = (
    quadratics.training(sets, b=(0, b, 8), policy='uniform', method=method)
    for sets, b in ((_SETS, np.nan), ([(0,), (2,)], 4))
  )
  _, bad = quadratics.run(built, 2)
  _, good = quadratics.run(without, 2)
  state = built.initialize()
  for t in (1, 2):
    state, _ = built.next(state, t)
  for name, value in dict(bad.kept).items():
    if name != 'shares':
      _near(value, good.kept[name])
    np.testing.assert_array_equal(value, state.kept[name])
  if method == 'afl':  # Nothing but the projection moves it.
    assert bad.kept['shares'][1] <= quadratics.P[1]
  if bad.vectors:
    rows = bad.vectors.clients
    first = 1 if method == 'fedawe' else 0
    assert rows[1] == first and np.isfinite(rows).all()
    assert rows[0] != first and rows[2] != first
    _near(rows, state.vectors.clients)
    if method != 'fedawe':  # There the server has none.
      _near(bad.vectors.server, quadratics.P @ rows)


def test_a_vector_of_the_server_that_overflows_leaves_all_as_it_was():
  method = selection.Method(
    vectors=vectors.Vectors(
      own=lambda own, server, v, mean_gradient: v,
      step=lambda server, model_sum, state_sum: (
        model_sum, server + 100 * state_sum * 1e38
      ),
    )
  )
  built = quadratics.training(_SETS, method=method)
  (happened, state), *_ = quadratics.states(built, 1)
  assert happened.metrics['selection']['excluded'] == 2
  assert quadratics.model_of(state) == 1
  assert not state.vectors.server[0].any() and not state.vectors.clients.any()


# Client drift: a = (1, 2, 4), five steps of rate 0.05. The optimum of sum p F
# is 4.6316; the rest point of FedAvg, where sum p v = 0, is 4.2306.
_A = (1, 2, 4)


class _Coins:
  """Each client is there with its own probability."""

  positively_correlated = False
  num_clients = 3

  def __call__(self, round_num):
    rng = np.random.default_rng(round_num)
    return rng.random(3) < (0.9, 0.5, 0.3)

  def probabilities(self, round_num):
    """As they are, in every round."""
    return np.array([0.9, 0.5, 0.3])


def _in_the_state_sum_too(method):
  """The mistake: the weights p / r in the state sum."""
  return selection.Method(
    vectors=method.vectors,
    state_weights=lambda s, cohort: cohort.weights,
  )


@pytest.mark.parametrize(
  'method, end',
  slow.but(
    ['scaffold', 'feddyn:1'],
    [
      ('scaffold', 4.6316),
      ('feddyn:1', 4.6316),
      ('fedvarp', 4.2306),
      ('mifa', 4.2306),
    ],
  ),
)
def test_where_methods_come_to_rest(method, end):
  built = quadratics.training(
    _Coins(), a=_A, num_steps=5, rate=0.05, beta=0.01, method=method
  )
  models, state = quadratics.run(built, 1200)
  # The server's vector is the mean of the clients' ones, whoever came when.
  mean = quadratics.P @ state.vectors.clients
  np.testing.assert_allclose(state.vectors.server[0], mean, atol=1e-4)
  assert np.abs(state.vectors.clients).max() > 0.1
  assert models[-1] == pytest.approx(end, abs=5e-4)
  assert np.std(models[-100:]) < 1e-4


@pytest.mark.parametrize(
  'method', [scaffold.build(), feddyn.build(1)], ids=['scaffold', 'feddyn']
)
def test_with_p_over_r_in_the_state_sum_they_rest_elsewhere(method):
  built = quadratics.training(
    _Coins(),
    a=_A,
    num_steps=5,
    rate=0.05,
    beta=0.01,
    method=_in_the_state_sum_too(method),
  )
  models, state = quadratics.run(built, 1200)
  assert abs(models[-1] - 4.6316) > 0.5
  mean = quadratics.P @ state.vectors.clients
  assert np.abs(state.vectors.server - mean).max() > 0.1


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
