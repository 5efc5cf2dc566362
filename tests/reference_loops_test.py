"""Tests of the loops that methods are compared with.

By hand: three clients with F_k(w) = (w - b_k)^2 / 2, two full-gradient steps of
rate 0.5 from w = 1, clients 1 and 2 in the first round and 2 and 3 in the
second (here counted from 0).
"""

import itertools
import sys

import numpy as np
import pytest

from tests import reference_loops as loops
from tests import slow

_P = np.array([0.5, 0.3, 0.2])
_EQUAL = np.full(3, 1 / 3)
_B = np.array([0.0, 4.0, 8.0])
_W = np.array([1.0])
_R = np.array([1.0, 0.6, 0.4])
_ROUNDS = [([0, 1], [0, 1]), ([1, 2], [1, 2])]
_ALL = [([0, 1, 2], [0, 1, 2])] * 2
_RATES = {'r': _R, 'beta': 0.1}


def _trainer(a=(1, 1, 1), b=_B, num_steps=2, rate=lambda t: 0.5):
  """Returns `train` of F_k(w) = a_k (w - b_k)^2 / 2."""

  def train(k, round_num, start, correction, proximal):
    return loops.local_sgd(
      lambda w, batch: a[batch] * (w - b[batch]),
      start,
      [k] * num_steps,
      rate(round_num),
      correction,
      proximal,
    )

  return train


_train = _trainer()


def _loss(k, w):
  return ((w - _B[k]) ** 2).item() / 2


def _near(actual, expected):
  np.testing.assert_allclose(
    np.ravel(actual), np.ravel(expected), rtol=0, atol=1e-6
  )


def test_local_training_by_hand():
  for k in range(3):
    end, num_steps = _train(k, 1, _W, np.zeros(1), 0.0)
    _near(end - _W, -0.75 * (_W - _B[k]))
    assert num_steps == 2


def test_f3ast_by_hand():
  models, state = loops.f3ast(_W, _P, _ROUNDS, _train, **_RATES)
  _near(state['rates'], [[1, 0.64, 0.36], [0.9, 0.676, 0.424]])
  _near(list(state['weights'][0].values()), [0.5, 0.46875])
  _near(list(state['weights'][1].values()), [0.443786982, 0.471698113])
  _near(models, [1.6796875, 4.687940473])
  _near(models[1] - models[0], 3.008252973)


# Section 1.


def _participation(*lists):
  return [(list(np.flatnonzero(row)), None) for row in zip(*lists)]


@pytest.mark.parametrize(
  'cutoff, used_by_third, models, last',
  [
    (4, [1, 1, 1, 1, 4, 4], [2.1953125, 5.678125], [4 / 3, 2.5, 3]),
    (np.inf, [1] * 6, [2.1953125, 3.066015625], [4 / 3, 2.5, 6]),
  ],
)
def test_fedau_by_hand(cutoff, used_by_third, models, last):
  rounds = _participation(
    (1, 1, 0, 1, 0, 0), (0, 1, 0, 0, 1, 0), (0, 0, 0, 0, 0, 1)
  )
  actual, state = loops.fedau(_W, _P, rounds, _train, cutoff)
  first = [1, 1, 1, 1, 4 / 3, 4 / 3]
  second = [1, 1, 2, 2, 2, 2.5]
  _near(np.transpose(state['used']), [first, second, used_by_third])
  _near(actual, [0.625, 1.15, 1.15, 0.71875, *models])
  _near(state['om'], last)


@pytest.mark.parametrize(
  'q, cutoff, factor', [(0.1, 50, 0.995), (0.02, 50, 0.636), (0.01, 50, 0.395)]
)
def test_fedau_cutoff_biases_against_the_rare(q, cutoff, factor):
  assert 1 - (1 - q) ** cutoff == pytest.approx(factor, abs=5e-4)
  # A long run of one client: the mean interval goes to factor / q.
  seen = np.random.default_rng(0).random(40000) < q
  rounds = [([0] if s else [], None) for s in seen]
  _, state = loops.fedau(
    np.zeros(1), np.ones(1), rounds, lambda *_: (np.zeros(1), 1), cutoff
  )
  assert state['om'][0] * q == pytest.approx(factor, rel=0.05)


# Section 2.

_PI, _LAM = np.array([0.8, 0.5, 0.2]), np.array([0.1, 0.5, 0.9])


def test_ca_fed_by_hand():
  rounds = [(None, available) for _, available in _ROUNDS]
  models, state = loops.ca_fed(_W, _P, rounds, _train, _loss, _PI, _LAM)
  first, second = state['history']
  everyone = np.ones(3, bool)
  _near(first['losses'], [0.5, 4.5, 2.5])
  _near(loops.ca_fed_bound(_P, everyone, first['losses'], 1), 2.1)
  _near(first['bound'], 1.476428571)
  _near(first['q'], [0.625, 0, 1])
  _near(second['losses'], [0.5, 6.016113281, 27.891113281])
  _near(loops.ca_fed_bound(_P, everyone, second['losses'], 1), 7.633056641)
  _near(second['bound'], 3.684187012)
  _near(second['q'], [0.625, 0.6, 0])
  _near(models, [0.53125, 2.0921875])


def test_ca_fed_bound_in_closed_form():
  excess = np.array([0.3, 2.0, 1.1])
  for kept in np.array(list(itertools.product([True, False], repeat=3))):
    if kept.any():
      gone = _P[~kept].sum()
      _near(
        loops.ca_fed_bound(_P, kept, excess, 0.7),
        (_P * excess)[kept].sum() / (1 - gone) + 0.7 * gone**2 * 2.0,
      )


def test_ca_fed_parameters():
  excess = np.array([0.5, 4.5, 2.5])  # Without client 1: 0.623571429 less.
  for tau, kept in (0.62, [True, False, True]), (0.63, [True] * 3):
    actual, _ = loops.ca_fed_kept(_P, _PI, _LAM, excess, tau=tau)
    np.testing.assert_array_equal(actual, kept)
  # Without kappa everyone goes whose loss is above the mean of the rest; the
  # last stays.
  kept, bound = loops.ca_fed_kept(_P, _PI, _LAM, excess, kappa=0.0)
  assert list(kept) == [True, False, False] and bound == 0.5
  # rho keeps a part of the last loss: of client 1 the reported one, of client 2
  # the mean of the first round.
  rounds = [(None, available) for _, available in _ROUNDS]
  _, state = loops.ca_fed(_W, _P, rounds, _train, _loss, _PI, _LAM, rho=0.25)
  new = np.array([6.016113281, 27.891113281])
  _near(
    state['history'][1]['losses'],
    [0.5, *(0.25 * np.array([4.5, 2.5]) + 0.75 * new)],
  )


def test_ca_fed_least_losses():
  # Above the least: (0.25, 0.25, 2.5).  All 0.7; without client 2 0.2 / 0.8 +
  # 0.04 * 2.5; without client 1 as well 0.25 + 0.25 * 2.5.
  least = np.array([0.25, 4.25, 0])
  _, state = loops.ca_fed(
    _W, _P, [(None, [0, 1])], _train, _loss, _PI, _LAM, least=least
  )
  _near(state['history'][0]['bound'], 0.35)
  _near(state['history'][0]['q'], [0.625, 0.6, 0])


def test_ca_fed_walks():
  # Either of clients 1 and 2 may go, not both: the larger |lambda| first.
  p, excess = np.array([0.4, 0.3, 0.3]), np.array([0.0, 1.0, 1.0])
  kept, bound = loops.ca_fed_kept(
    p, _PI, np.array([0, 0.9, -0.95]), excess, kappa=1.7
  )
  assert list(kept) == [True, True, False]
  _near(bound, 0.3 / 0.7 + 1.7 * 0.09)
  # Clients 1 and 2 are below the mean until 3 goes; then either may go, in the
  # second walk the one less available first.
  kept, bound = loops.ca_fed_kept(
    np.array([0.7, 0.1, 0.1, 0.1]),
    np.array([0.9, 0.5, 0.3, 0.6]),
    np.array([0.1, 0.9, 0.8, 0.5]),
    np.array([0.0, 1.0, 1.0, 10.0]),
    kappa=0.28,
  )
  assert list(kept) == [True, True, False, False]
  _near(bound, 0.1 / 0.8 + 0.28 * 0.04 * 10)


def test_ca_fed_keeps_everyone_at_a_large_kappa():
  rounds = [(None, available) for _, available in _ROUNDS]
  models, _ = loops.ca_fed(_W, _P, rounds, _train, _loss, _PI, _LAM, kappa=1e12)
  w = _W - 0.75 * (0.625 * _W + 0.6 * (_W - 4))
  _near(models, [w, w - 0.75 * (0.6 * (w - 4) + 1.0 * (w - 8))])


def test_ca_fed_with_some_of_the_rest():
  # All are available and kept; client 2 alone counts three times.
  models, _ = loops.ca_fed(
    _W, _P, [([2], [0, 1, 2])], _train, _loss, _PI, _LAM, kappa=1e12
  )
  _near(models, 1 + 3 * 1.0 * 5.25)
  with pytest.raises(ValueError, match='among'):  # Client 1 is excluded.
    loops.ca_fed(_W, _P, [([1], [0, 1])], _train, _loss, _PI, _LAM)


def test_chains_by_hand():
  # on, on, off, off, off, on: n11=1, n10=1, n00=2, n01=1; never there; always.
  rounds = [[0, 2], [0, 2], [2], [2], [2], [0, 2]]
  pi, lam = loops.chains(rounds, 3, prior=1.0)
  _near(pi, [4 / 8, 1 / 8, 7 / 8])
  _near(lam, [2 / 4 + 3 / 5 - 1, 1 / 2 + 6 / 7 - 1, 6 / 7 + 1 / 2 - 1])
  _, lam = loops.chains(rounds[:5], 3, prior=1.0)  # n11=1, n10=1, n00=2.
  _near(lam[0], 2 / 4 + 3 / 4 - 1)
  pi, lam = loops.chains(rounds[:1], 3, prior=1.0)  # No transition yet.
  _near(pi, [2 / 3, 1 / 3, 2 / 3])
  _near(lam, [0, 0, 0])


def test_chains_find_the_chain():
  rng = np.random.default_rng(0)
  on, rounds = True, []
  for _ in range(40000):
    on ^= rng.random() < (0.03 if on else 0.07)
    rounds.append([0] if on else [])
  pi, lam = loops.chains(rounds, 1, prior=1.0)
  assert pi[0] == pytest.approx(0.7, abs=0.03)
  assert lam[0] == pytest.approx(0.9, abs=0.01)


# Section 3.


def test_mifa_by_hand():
  models, state = loops.mifa(_W, _P, _ROUNDS[:1], _train)
  _near(state['y'], [-0.75, 2.25, 0])
  _near(state['D'], 0.3)
  models, state = loops.mifa(_W, _P, _ROUNDS, _train)
  _near(state['y'], [-0.75, 2.025, 5.025])
  _near(state['D'], 1.2375)
  _near(models, [1.3, 2.5375])
  models, _ = loops.mifa(_W, _EQUAL, _ROUNDS, _train)
  _near(models, [1.5, 3.5])


def test_mifa_with_a_schedule_by_hand():
  def rate(t):
    return 0.5 / t

  train = _trainer(rate=rate)
  models, state = loops.mifa(_W, _P, _ROUNDS[:1], train, rate)
  _near(-state['y'], [1.5, -4.5, 0])
  models, state = loops.mifa(_W, _P, _ROUNDS, train, rate)
  _near(-state['y'], [1.5, -4.725, -11.725])
  _near(models, [1.3, 2.053125])
  _near(models[1] - models[0], 0.753125)


def test_mifa_moves_when_nobody_is_there():
  models, _ = loops.mifa(_W, _P, [*_ROUNDS, ([], [])], _train)
  _near(models[2] - models[1], 1.2375)


# Section 4.


def test_fedvarp_by_hand():
  models, state = loops.fedvarp(_W, _EQUAL, _ROUNDS[:1], _train)
  _near(state['y'], [-0.75, 2.25, 0])
  models, state = loops.fedvarp(_W, _EQUAL, _ROUNDS, _train)
  _near(models, [1.75, 4.3125])
  _near(state['y'], [-0.75, 1.6875, 4.6875])
  models, state = loops.fedvarp(_W, _P, _ROUNDS, _train, **_RATES)
  _near(models, [1.6796875, 3.989419762])
  _near(models[1] - models[0], 2.309732262)
  _near(state['y'], [-0.75, 1.740234375, 4.740234375])


def test_fedstale():
  half, _ = loops.fedvarp(_W, _P, _ROUNDS, _train, **_RATES, s=0.5)
  none, _ = loops.fedvarp(_W, _P, _ROUNDS, _train, **_RATES, s=0.0)
  plain, _ = loops.f3ast(_W, _P, _ROUNDS, _train, **_RATES)
  _near(none, plain)
  _near(half[1], (3.989419762 + 4.687940473) / 2)


# Section 5.


def test_fedawe_by_hand():
  models, state = loops.fedawe(_W, _P, _ROUNDS[:1], _train)
  _near(models, (0.25 + 3.25) / 2)
  _near(state['x'], [1.75, 1.75, 1])
  models, state = loops.fedawe(_W, _P, _ROUNDS, _train)
  _near(models, [1.75, (3.4375 + 11.5) / 2])
  _near(models[1], 7.46875)
  _near(state['x'], [1.75, 7.46875, 7.46875])
  assert list(state['tau']) == [1, 2, 2]


def test_fedawe_by_share_by_hand():
  models, _ = loops.fedawe(_W, _P, _ROUNDS, _train, by_share=True)
  first = (1 - 1.5 * 0.75 + 1 + 0.9 * 2.25) / 2
  second = first + 0.9 * -0.75 * (first - 4)
  _near(models, [first, (second + 1 + 2 * 0.6 * 5.25) / 2])


# Section 6.


def test_scaffold_by_hand():
  models, state = loops.scaffold(_W, _EQUAL, _ROUNDS[:1], _train, 0.5)
  _near(state['c'], -0.5)
  _near(state['c_k'], [0.75, -2.25, 0])
  models, state = loops.scaffold(_W, _EQUAL, _ROUNDS, _train, 0.5)
  _near(models, [1.75, 4.46875])
  _near(state['c'], -1.979166667)
  _near(state['c_k'], [0.75, -2.125, -4.5625])


def test_scaffold_counts_steps():
  # Of a single step the client's state is its gradient.
  train = _trainer(num_steps=1)
  _, state = loops.scaffold(_W, _P, _ROUNDS[:1], train, 0.5, **_RATES)
  _near(state['c_k'], [1, -3, 0])


def test_scaffold_with_rates_by_hand():
  _, state = loops.scaffold(_W, _P, _ROUNDS[:1], _train, 0.5, **_RATES)
  _near(state['c'], -0.3)
  models, state = loops.scaffold(_W, _P, _ROUNDS, _train, 0.5, **_RATES)
  _near(models, [1.6796875, 4.145034086])
  _near(models[1] - models[0], 2.465346586)
  _near(state['c'], -1.226367187)
  _near(state['c_k'], [0.75, -2.227734375, -4.665234375])


# Section 7.


def test_feddyn_by_hand():
  models, state = loops.feddyn(_W, _EQUAL, _ROUNDS[:1], _train, 0.5)
  _near(state['h'], -0.208333333)
  _near(state['g_k'], [0.3125, -0.9375, 0])
  _near(models[0] + state['h'] / 0.5 - _W, 0.625)  # Delta.
  models, state = loops.feddyn(_W, _EQUAL, _ROUNDS, _train, 0.5)
  _near(state['h'], -0.935329861)
  _near(models, [2.041666667, 6.093315972])
  _near(models[1] + state['h'] / 0.5 - models[0], 2.180989583)


def test_feddyn_with_rates_by_hand():
  models, state = loops.feddyn(_W, _P, _ROUNDS[:1], _train, 0.5, **_RATES)
  _near(state['h'], -0.125)
  _near(models[0] + state['h'] / 0.5 - _W, 0.56640625)
  models, state = loops.feddyn(_W, _P, _ROUNDS, _train, 0.5, **_RATES)
  _near(state['h'], -0.628295898)
  _near(models, [1.81640625, 5.241616603])
  _near(models[1] + state['h'] / 0.5 - models[0], 2.168618556)
  _near(state['g_k'], [0.3125, -1.326904297, -1.932373047])


def test_feddyn_as_its_authors_coded_it():
  # alpha_k = alpha / (N p_k); the table is -g_k / alpha_k, summed over updates.
  alphas, table, w = 0.5 / (3 * _P), np.zeros(3), _W
  models, tables = [], []
  for t, (clients, _) in enumerate(_ROUNDS, 1):
    ends = {
      k: _train(k, t, w, alphas[k] * table[k], alphas[k])[0] for k in clients
    }
    for k in clients:
      table[k] += (ends[k] - w).item()
    w = np.mean(list(ends.values()), axis=0) + table.mean()
    models.append(w)
    tables.append(table.copy())
  _near(models, [1.972222222, 5.595957647])
  _near(tables[0], [-0.666666667, 1.833333333, 0])


# Section 8.


def test_afl_by_hand():
  models, state = loops.afl(_W, _P, _ALL, _train, _loss, 0.01)
  _near([_loss(k, _W) for k in range(3)], [0.5, 4.5, 24.5])
  _near([_loss(k, models[0]) for k in range(3)], [2.76125, 1.36125, 15.96125])
  _near(models, [2.35, 3.4075])
  _near(
    state['lambdas'],
    [
      [0.406666667, 0.246666667, 0.346666667],
      [0.367333333, 0.193333333, 0.439333333],
    ],
  )


def test_afl_with_rates_by_hand():
  models, state = loops.afl(_W, _P, _ROUNDS, _train, _loss, 0.01, **_RATES)
  _near(_loss(1, _W) / 0.64, 7.03125)
  _near(_loss(1, models[0]) / 0.676, 3.982137646)
  _near(_loss(2, models[0]) / 0.424, 47.106544926)
  _near(models, [1.6796875, 4.523661278])
  _near(models[1] - models[0], 2.843973778)
  _near(
    state['lambdas'],
    [
      [0.479895833, 0.345208333, 0.174895833],
      [0.309600225, 0.214734101, 0.475665674],
    ],
  )


def test_to_simplex():
  _near(loops.to_simplex([0.95, 0.2, 0.05]), [0.875, 0.125, 0])
  _near(loops.to_simplex([0.95, 0.2, 0.05], 0.1), [0.8, 0.1, 0.1])
  rng = np.random.default_rng(0)
  for values in rng.normal(size=(20, 5)):
    nearest = loops.to_simplex(values)
    assert nearest.min() >= 0 and nearest.sum() == pytest.approx(1)
    others = rng.dirichlet(np.ones(5), 200)
    assert (
      np.linalg.norm(others - values, axis=1)
      >= np.linalg.norm(nearest - values)
    ).all()


# Section 9.


def test_fedprox_by_hand():
  for k, start, update in (
    (0, 1.0, -0.625),
    (1, 1.0, 1.875),
    (1, 1.56640625, 1.520996094),
    (2, 1.56640625, 4.020996094),
  ):
    end, _ = _train(k, 1, np.array([start]), np.zeros(1), 0.5)
    _near(end - start, update)
  models, _ = loops.fedprox(_W, _P, _ROUNDS, _train, 0.5, **_RATES)
  _near(models, [1.56640625, 4.138100787])
  _near(models[1] - models[0], 2.571694537)
  models, _ = loops.fedprox(_W, _P, _ROUNDS, _train, 0.5)
  _near(models, [1.3125, 3.9921875])
  _near(models[1] - models[0], 2.6796875)


# Section 10.


def _rates(first, beta, seen, **options):
  _, state = loops.f3ast(
    _W,
    np.ones(1),
    [([0] if s else [], None) for s in seen],
    _train,
    np.array([first]),
    beta,
    **options,
  )
  return np.ravel(state['rates'])


def test_annealed_step_by_hand():
  rates = _rates(0.4, 0.1, (1, 0, 0, 1, 0, 0), t0=5)
  _near(rates, [0.5, 3 / 7, 0.375, 4 / 9, 0.4, 0.36])
  # As the steps are 1/6, 1/7, ..., r(0) is a prior worth t0 rounds.
  _near(rates[:4], (5 * 0.4 + np.array([1, 1, 1, 2])) / np.array([6, 7, 8, 9]))


def test_corrected_rates_by_hand():
  seen = (0, 0, 1, 0)
  _near(_rates(0.0, 0.1, seen), [0, 0, 0.1, 0.09])
  expected = [0, 0, 0.369004, 0.261704]
  _near(_rates(0.0, 0.1, seen, corrected=True), expected)
  _near(_rates(0.7, 0.1, seen, corrected=True), expected)  # r(0) drops out.
  # Annealed and corrected: the plain share of rounds so far.
  _near(_rates(0.7, 0.01, seen, corrected=True, t0=5), [0, 0, 1 / 3, 1 / 4])


@pytest.mark.parametrize(
  'options, first, second',
  [
    ({'cap': 0.48}, [0.48, 0.46875], [0.443786982, 0.471698113]),
    ({'cap': 0.45}, [0.45, 0.45], [0.443786982, 0.45]),
    ({'sum_cap': 1.0}, [0.5, 0.46875], [0.443786982, 0.471698113]),
    ({'sum_cap': 0.5}, [0.258064516, 0.241935484], [0.242377940, 0.257622060]),
    ({'cap': 0.45, 'sum_cap': 0.9}, [0.45, 0.45], [0.443786982, 0.45]),
    ({'cap': 0.45, 'sum_cap': 0.6}, [0.3, 0.3], [0.297914598, 0.302085402]),
  ],
)
def test_caps_by_hand(options, first, second):
  models, state = loops.f3ast(_W, _P, _ROUNDS, _train, **_RATES, **options)
  _near([list(w.values()) for w in state['weights']], [first, second])
  _near(models[0], 1 - 0.75 * first[0] + 2.25 * first[1])


def _over_designs(p, r, updates, probabilities, self_normalised):
  """Returns the mean and the variance of Delta over sets with probabilities."""
  deltas = []
  for clients in probabilities:
    models, _ = loops.f3ast(
      np.zeros(1),
      p,
      [(clients, None)],
      lambda k, *_: (np.array([updates[k]]), 1),
      r,
      0.0,  # The rates stay.
      self_normalised=self_normalised,
    )
    deltas.append(models[0].item())
  mean = np.dot(list(probabilities.values()), deltas)
  square = np.dot(list(probabilities.values()), np.square(deltas))
  return mean, square - mean**2


@pytest.mark.parametrize(
  'updates, plain, self_normalised',
  [
    ((1, 1, 1), (1, 0.2111), (0.965, 0.0338)),
    ((0, 4, 8), (2.8, 7.4133), (2.1678, 3.7404)),
    ((10, 11, 12), (10.7, 27.1078), (10.1920, 3.9906)),
    ((-3, 1, 6), (0, 3.7000), (-0.5813, 4.3802)),
  ],
)
def test_horvitz_thompson_and_hajek(updates, plain, self_normalised):
  r = np.array([0.9, 0.5, 0.3])
  probabilities = {
    tuple(np.flatnonzero(seen)): np.prod(np.where(seen, r, 1 - r))
    for seen in itertools.product([False, True], repeat=3)
  }
  for flag, expected in (False, plain), (True, self_normalised):
    actual = _over_designs(_P, r, updates, probabilities, flag)
    np.testing.assert_allclose(actual, expected, atol=5.1e-5)


def test_two_clients_of_the_paper():
  p, r = np.array([0.5, 0.5]), np.array([0.375, 0.5])
  probabilities = {(): 0.125, (0,): 0.375, (1,): 0.5}
  mean, variance = _over_designs(p, r, (1, 3), probabilities, False)
  _near(mean, 2)
  assert variance == pytest.approx(1.1667, abs=1e-4)
  mean, _ = _over_designs(p, r, (1, 3), probabilities, True)
  _near(mean, 1.875)
  assert mean / 0.875 == pytest.approx(2.1429, abs=1e-4)


# Section 13.


def test_full_participation_is_fedavg():
  one = {'r': np.ones(3), 'beta': 0.1}
  arguments = (_W, _EQUAL, _ALL, _train)
  expected, _ = loops.fedavg(*arguments)
  for models, _ in (
    loops.fedau(*arguments),
    loops.mifa(*arguments),
    loops.fedvarp(*arguments),
    loops.fedvarp(*arguments, **one),
    loops.f3ast(*arguments, **one),
    loops.fedprox(*arguments, 0.0),
    loops.fedawe(*arguments),
  ):
    _near(models, expected)
  for form in {}, one:
    models, _ = loops.scaffold(*arguments, 0.5, **form)
    _near(models[0], expected[0])


def _random_rounds(rng, num_rounds, num_clients=3):
  return [
    (list(np.flatnonzero(rng.random(num_clients) < 0.5)),) * 2
    for _ in range(num_rounds)
  ]


@pytest.mark.parametrize('form', [{}, _RATES])
def test_states_are_weighted_means(form):
  rounds = _random_rounds(np.random.default_rng(1), 30)
  assert any(not clients for clients, _ in rounds)
  train = _trainer(rate=lambda t: 0.05)
  _, state = loops.scaffold(_W, _P, rounds, train, 0.05, **form)
  _near(state['c'], _P @ state['c_k'])
  _, state = loops.feddyn(_W, _P, rounds, train, 0.1, **form)
  _near(state['h'], _P @ state['g_k'])
  _, state = loops.mifa(_W, _P, rounds, train)
  _near(state['D'], _P @ state['y'])
  _, state = loops.fedvarp(_W, _P, rounds, train, **form)
  _near(state['D'], _P @ state['y'])
  _, state = loops.afl(_W, _P, rounds, train, _loss, 0.001, **form)
  _near(np.sum(state['lambdas'], axis=1), np.ones(30))
  rounds.append(([0, 2], [0, 2]))
  _, state = loops.fedawe(_W, _P, rounds, train)
  assert list(state['echoes'][[0, 2]]) == [31, 31]
  assert (state['echoes'] == state['tau']).all()


def test_equal_clients():
  train = _trainer(b=np.full(3, 4.0))
  step = 2.25
  models, _ = loops.fedavg(_W, _P, _ROUNDS, train)
  _near(models[0], 1 + step)
  models, _ = loops.fedavg(_W, _P, _ROUNDS, train, by_share=True)
  _near(models[0], 1 + step)
  models, _ = loops.fedprox(_W, _P, _ROUNDS, train, 0.5)
  _near(models[0], 1 + 1.875)  # One client's step with this mu.
  models, _ = loops.f3ast(
    _W, _P, _ROUNDS, train, **_RATES, self_normalised=True
  )
  _near(models[0], 1 + step)
  models, _ = loops.f3ast(_W, _P, _ROUNDS, train, **_RATES)
  _near(models[0], 1 + 0.96875 * step)


def test_limits():
  plain, _ = loops.f3ast(_W, _P, _ROUNDS, _train, **_RATES)
  models, _ = loops.fedprox(_W, _P, _ROUNDS, _train, 0.0, **_RATES)
  _near(models, plain)
  # A cutoff of 1: absent clients count as 0.
  rounds = _random_rounds(np.random.default_rng(2), 10)
  models, state = loops.fedau(_W, _P, rounds, _train, cutoff=1)
  _near(state['used'], np.ones((10, 3)))
  w = _W
  for (clients, _), model in zip(rounds, models):
    w = w - 0.75 * sum(_P[k] * (w - _B[k]) for k in clients)
    _near(model, w)


def test_nobody_moves_nothing_but_mifa():
  rounds = [*_ROUNDS, ([], [])]
  arguments = (_W, _P, rounds, _train)
  for models, _ in (
    loops.f3ast(*arguments, **_RATES),
    loops.fedavg(*arguments),
    loops.fedau(*arguments),
    loops.fedvarp(*arguments),
    loops.fedvarp(*arguments, **_RATES),
    loops.fedawe(*arguments),
    loops.scaffold(*arguments, 0.5),
    loops.feddyn(*arguments, 0.5),
    loops.feddyn(*arguments, 0.5, **_RATES),
    loops.afl(*arguments, _loss, 0.01, **_RATES),
    loops.ca_fed(_W, _P, [(None, a) for _, a in rounds], _train, _loss),
  ):
    assert len(models) == 3
    _near(models[2], models[1])


# The quadratics of section 0.

_A = np.array([1.0, 2.0, 4.0])
_Q = np.array([0.9, 0.5, 0.3])
_OPTIMUM = 4.6316
_STEEP = _trainer(a=_A, num_steps=5, rate=lambda t: 0.05)


def _chosen(seed, num_rounds, beta=0.01, limit=2):
  """F3AST's choices: the largest p / r of those available."""
  rng = np.random.default_rng(seed)
  r, rounds = _R, []
  for _ in range(num_rounds):
    available = np.flatnonzero(rng.random(3) < _Q)
    best = available[np.argsort(-(_P / r)[available], kind='stable')][:limit]
    r = (1 - beta) * r + beta * loops.took_part(_P, best)
    rounds.append((list(best), list(available)))
  return rounds


def test_the_optimum_of_the_quadratics():
  assert (_P * _A) @ _B / (_P @ _A) == pytest.approx(_OPTIMUM, abs=5e-5)
  shrink = 1 - (1 - 0.05 * _A) ** 5
  drifted = (_P * shrink) @ _B / (_P @ shrink)
  assert drifted == pytest.approx(4.2306, abs=5e-5)


@pytest.mark.parametrize('seed', slow.but([0], [0, 1, 2]))
def test_drift_is_cured_with_p_in_the_state_sum(seed):
  arguments = (_W, _P, _chosen(seed, 1500), _STEEP)
  form = {'r': _R, 'beta': 0.01}
  for method, parameter, server, own in (
    (loops.scaffold, 0.05, 'c', 'c_k'),
    (loops.feddyn, 1.0, 'h', 'g_k'),
  ):
    models, state = method(*arguments, parameter, **form)
    assert models[-1].item() == pytest.approx(_OPTIMUM, abs=1e-4)
    assert np.std(models[-300:]) < 1e-6
    _near(state[server], _P @ state[own])
    # With p / r there it comes to rest as well, but elsewhere.
    models, state = method(*arguments, parameter, **form, p_in_state=False)
    assert abs(models[-1].item() - _OPTIMUM) > 0.5
    assert np.std(models[-300:]) < 1e-6
    assert abs(state[server] - _P @ state[own]) > 0.1


@pytest.mark.parametrize('seed', slow.but([0], [0, 1, 2]))
def test_drift_stays_without_control(seed):
  rounds = _chosen(seed, 1500)
  form = {'r': _R, 'beta': 0.01}
  models, _ = loops.f3ast(_W, _P, rounds, _STEEP, **form)
  assert np.mean(models[300:]) == pytest.approx(4.20, abs=0.1)
  assert np.std(models[300:]) == pytest.approx(1.2, abs=0.2)
  for models, _ in (
    loops.mifa(_W, _P, rounds, _STEEP),
    loops.fedvarp(_W, _P, rounds, _STEEP, **form),
  ):
    assert models[-1].item() == pytest.approx(4.2306, abs=1e-4)
    assert np.std(models[-300:]) < 1e-6


def test_fedawe_by_share_on_quadratics():
  rng = np.random.default_rng(0)
  rounds = [
    (list(np.flatnonzero(rng.random(3) < _Q)), None) for _ in range(10000)
  ]
  train = _trainer(a=_A, num_steps=1, rate=lambda t: 0.05)
  for by_share, mean in (True, 4.60), (False, 5.67):
    models, _ = loops.fedawe(_W, _P, rounds, train, by_share, 0.1)
    assert np.mean(models[2000:]) == pytest.approx(mean, abs=0.03)


@pytest.mark.parametrize(
  'bare, w, lam',
  [(False, 3.997, (0.499, 0, 0.501)), (True, 2.918, (0.633, 0, 0.367))],
)
def test_afl_needs_rates_in_its_ascent(bare, w, lam):
  rng = np.random.default_rng(0)

  def choice():
    available = np.flatnonzero(rng.random(3) < _Q)

    def choose(lam, r):
      scores = (lam / r)[available]
      return list(available[np.argsort(-scores, kind='stable')][:2])

    return choose

  models, state = loops.afl(
    _W,
    _P,
    [(choice(), None) for _ in range(10000)],
    _trainer(num_steps=1, rate=lambda t: 0.05),
    _loss,
    1e-4,
    _R,
    0.01,
    bare=bare,
  )
  assert np.mean(models[3000:]) == pytest.approx(w, abs=0.03)
  np.testing.assert_allclose(
    np.mean(state['lambdas'][3000:], axis=0), lam, atol=0.005
  )


# Softmax regression.


def _examples():
  rng = np.random.default_rng(3)
  return rng.normal(size=(6, 4)), np.array([0, 2, 1, 1, 0, 2])


def test_softmax_gradient_is_that_of_the_loss():
  batch = _examples()
  w = np.random.default_rng(4).normal(size=4 * 3 + 3)
  small = 1e-6 * np.eye(w.size)
  numerical = [
    (loops.softmax_loss(w + e, batch) - loops.softmax_loss(w - e, batch)) / 2e-6
    for e in small
  ]
  _near(loops.softmax_gradient(w, batch), numerical)
  assert loops.softmax_loss(0 * w, batch) == pytest.approx(np.log(3))


def test_softmax_training_runs_in_every_loop():
  x, y = _examples()

  def train(k, round_num, start, correction, proximal):
    batches = [(x[2 * k : 2 * k + 2], y[2 * k : 2 * k + 2])] * (k + 1)
    return loops.local_sgd(
      loops.softmax_gradient, start, batches, 0.1, correction, proximal
    )

  def loss(k, w):
    return loops.softmax_loss(w, (x[2 * k : 2 * k + 2], y[2 * k : 2 * k + 2]))

  arguments = (np.zeros(15), _P, _ROUNDS, train)
  for models, _ in (
    loops.f3ast(*arguments, **_RATES),
    loops.fedavg(*arguments),
    loops.fedprox(*arguments, 0.5),
    loops.fedau(*arguments),
    loops.mifa(*arguments),
    loops.fedvarp(*arguments, **_RATES),
    loops.fedawe(*arguments),
    loops.scaffold(*arguments, 0.1, **_RATES),
    loops.feddyn(*arguments, 0.5, **_RATES),
    loops.afl(*arguments, loss, 0.01, **_RATES),
    loops.ca_fed(np.zeros(15), _P, [(None, [0, 1])] * 2, train, loss),
  ):
    assert np.shape(models) == (2, 15)
    assert np.isfinite(models).all()
    # The updates of softmax regression sum to 0 over classes.
    _near(np.sum(models[-1].reshape(5, 3), axis=1), np.zeros(5))
    assert loops.softmax_loss(models[-1], (x[2:4], y[2:4])) < np.log(3)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
