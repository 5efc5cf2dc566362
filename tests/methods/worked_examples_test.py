"""Two rounds of every method by hand, through the real process.

Three clients with F_k(w) = (w - b_k)^2 / 2, b = (0, 4, 8), two full-gradient
steps of rate 0.5 from w = 1: v_k = -0.75 (w - b_k). Clients 0 and 1 are there
in the first round, 1 and 2 in the second. r(0) = (1, 0.6, 0.4), beta = 0.1.
"""

import sys

import numpy as np
import pytest

from f3ast_tff import selection
from f3ast_tff.methods import afl
from f3ast_tff.methods import ca_fed
from f3ast_tff.methods import scaffold
from tests import quadratics

pytestmark = pytest.mark.usefixtures('in_process')

_SETS = [(0, 1), (1, 2)]
_EQUAL = {'p': quadratics.EQUAL, 'policy': 'uniform'}


def _near(actual, expected):
  np.testing.assert_allclose(
    np.ravel(actual), np.ravel(expected), rtol=0, atol=2e-6
  )


# What is built, the models after each round, the server's vector, the clients'.
_EXAMPLES = {
  'f3ast': ({}, [1.6796875, 4.687940473], None, None),
  'weight cap': ({'weight_cap': 0.45}, [1 - 0.75 * 0.45 + 2.25 * 0.45], 0, 0),
  'sum cap': ({'sum_cap': 0.5}, [1 - 0.1935483871 + 0.5443548387], 0, 0),
  'f3ast + fedprox': (
    {'proximal': 0.5}, [1.56640625, 4.138100787], None, None
  ),
  'fedprox by data': (
    {'policy': 'uniform_by_data', 'proximal': 0.5},
    [1.3125, 3.9921875],
    None,
    None,
  ),
  'mifa': ({'method': 'mifa'}, [1.3, 2.5375], 1.2375, [-0.75, 2.025, 5.025]),
  'mifa, 1/N': ({**_EQUAL, 'method': 'mifa'}, [1.5, 3.5], None, None),
  'fedvarp, 1/N': (
    {**_EQUAL, 'method': 'fedvarp'},
    [1.75, 4.3125],
    (-0.75 + 1.6875 + 4.6875) / 3,
    [-0.75, 1.6875, 4.6875],
  ),
  'f3ast + fedvarp': (
    {'method': 'fedvarp'},
    [1.6796875, 3.989419762],
    0.5 * -0.75 + 0.3 * 1.740234375 + 0.2 * 4.740234375,
    [-0.75, 1.740234375, 4.740234375],
  ),
  'fedstale': (
    {'method': 'fedvarp:0.5'},
    [1.6796875, (3.989419762 + 4.687940473) / 2],
    None,
    None,
  ),
  'fedawe, 1/N': (
    {**_EQUAL, 'method': 'fedawe'},
    [1.75, 7.46875],
    0,
    [1.75, 7.46875, 7.46875],
  ),
  'scaffold, 1/N': (
    {**_EQUAL, 'method': 'scaffold'},
    [1.75, 4.46875],
    -1.979166667,
    [0.75, -2.125, -4.5625],
  ),
  'f3ast + scaffold': (
    {'method': 'scaffold'},
    [1.6796875, 4.145034086],
    -1.226367187,
    [0.75, -2.227734375, -4.665234375],
  ),
  'feddyn, 1/N': (
    {**_EQUAL, 'method': 'feddyn:0.5'},
    [2.041666667, 6.093315972],
    -0.935329861,
    None,
  ),
  'f3ast + feddyn': (
    {'method': 'feddyn:0.5'},
    [1.81640625, 5.241616603],
    -0.628295898,
    [0.3125, -1.326904297, -1.932373047],
  ),
  'f3ast + afl': (
    {'method': 'afl:0.01'}, [1.6796875, 4.523661278], None, None
  ),
  'ca_fed, told pi': (
    {
      'policy': 'uniform',
      'method': ca_fed.build(
        np.array([0.8, 0.5, 0.2]), np.array([0.1, 0.5, 0.9])
      ),
    },
    [0.53125, 2.0921875],
    None,
    None,
  ),
}


@pytest.mark.parametrize('name', _EXAMPLES)
def test_by_hand(name):
  settings, expected, server, own = _EXAMPLES[name]
  built = quadratics.training(_SETS, **settings)
  (*models, last), state = quadratics.run(built, 3)
  _near(models[: len(expected)], expected)
  # In the third round nobody is there; only MIFA moves on.
  _near(last - models[1], state.vectors.server if 'mifa' in name else 0)
  if built.selector.method.vectors and server is not None:
    _near(state.vectors.server, server)
  if built.selector.method.vectors and own is not None:
    _near(state.vectors.clients, own)


@pytest.mark.parametrize(
  'method, models, last',
  [
    ('fedau:4', [2.1953125, 5.678125], [4 / 3, 2.5, 3]),
    ('fedau', [2.1953125, 3.066015625], [4 / 3, 2.5, 6]),
  ],
)
def test_fedau_by_hand(method, models, last):
  sets = [(0,), (0, 1), (), (0,), (1,), (2,)]
  built = quadratics.training(sets, policy='uniform', method=method)
  found, state = quadratics.run(built, 6)
  _near(found, [0.625, 1.15, 1.15, 0.71875, *models])
  _near(state.kept['mean_interval'], last)


def test_fedawe_by_share_by_hand():
  built = quadratics.training(_SETS, policy='uniform', method='fedawe')
  first = (1 - 1.5 * 0.75 + 1 + 0.9 * 2.25) / 2
  second = first + 0.9 * -0.75 * (first - 4)
  models, state = quadratics.run(built, 2)
  _near(models, [first, (second + 1 + 2 * 0.6 * 5.25) / 2])
  _near(state.kept['last_round'], [1, 2, 2])


def test_afl_by_hand():
  built = quadratics.training(_SETS, method='afl:0.01')
  _, state = quadratics.run(built, 2)
  _near(state.kept['shares'], [0.309600225, 0.214734101, 0.475665674])
  _near(afl.project(np.array([0.95, 0.2, 0.05])), [0.875, 0.125, 0])
  _near(afl.project(np.array([0.95, 0.2, 0.05]), 0.1), [0.8, 0.1, 0.1])


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


def test_all_clients_every_round_is_fedavg():
  # One step of each is that of FedAvg: 1 - 0.75 (1 - 4) = 3.25.
  for method in ('fedau', 'mifa', 'fedawe'):
    built = quadratics.training(
      [(0, 1, 2)], p=quadratics.EQUAL, k=3, method=method
    )
    _near(quadratics.run(built, 1)[0], 3.25)


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


def _in_the_model_sum_too(method):
  """The mistake: the weights p / r in the state sum."""
  return selection.Method(
    vectors=method.vectors,
    state_weights=lambda s, cohort: cohort.weights,
  )


@pytest.mark.parametrize(
  'method, end',
  [('scaffold', 4.6316), ('feddyn:1', 4.6316), ('fedvarp', 4.2306)],
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


def test_with_p_over_r_in_the_state_sum_they_rest_elsewhere():
  built = quadratics.training(
    _Coins(),
    a=_A,
    num_steps=5,
    rate=0.05,
    beta=0.01,
    method=_in_the_model_sum_too(scaffold.build()),
  )
  models, state = quadratics.run(built, 1200)
  assert abs(models[-1] - 4.6316) > 0.5
  mean = quadratics.P @ state.vectors.clients
  assert np.abs(state.vectors.server - mean).max() > 0.1


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
