"""Tests of `released`: the rules of the released code, replayed by hand.

The rules are written here a second time, with plain Python numbers, one round
after the other.
"""

import sys

import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff import methods
from f3ast_tff import randomness
from f3ast_tff import selection
from f3ast_tff.methods import released
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import selector as selector_lib

_STEP_SIZES = {'sgd': config_lib.LearningRates(0.01, 1.0)}
_BATCH = 20
_K = 3
_BETA = 0.05
_ROUNDS = 50


def _rng(seed=0):
  return randomness.generator(seed, 'test')


def test_names_are_read():
  assert released.parse('paper') == released.Protocol()
  assert released.parse('divide_by_k,linspace_sine') == released.Protocol(
    divide_by_k=True, linspace_sine=True
  )
  everything = released.parse('released')
  assert all(getattr(everything, name) for name in released.NAMES)
  with pytest.raises(ValueError, match="but it holds 'divide'"):
    released.parse('divide')


def test_three_rounds_of_f3ast_by_hand():
  # p = r(0) = (.5, .3, .2), K = 2, beta = .5. Client 2 is away in round 1,
  # everybody is there in round 2, only client 1 in round 3.
  p = np.array([0.5, 0.3, 0.2])
  masks = [[1, 1, 0], [1, 1, 1], [0, 1, 0]]
  expected = [
    # Scores 1, 1, 0. r = (.75, .65, .1); weights .5/.75 and .3/.65, halved.
    ([0, 1], [0.75, 0.65, 0.1], [1 / 3, 3 / 13]),
    # Scores .444, .213, 4. r = (.875, .325, .55); weights .5/.875, .2/.55.
    ([0, 2], [0.875, 0.325, 0.55], [2 / 7, 2 / 11]),
    # Scores 0, .852, 0: client 0 is taken too, by its index, though away.
    # r = (.9375, .6625, .275); weights .5/.9375 and .3/.6625.
    ([0, 1], [0.9375, 0.6625, 0.275], [4 / 15, 12 / 53]),
  ]
  r = p.copy()
  for mask, (clients, rates_after, weights) in zip(masks, expected):
    situation = selection.Situation(r, p, np.array(mask, bool), 2, 0.5)
    cohort = released.f3ast(situation, released.parse('released'), _rng())
    np.testing.assert_array_equal(cohort.clients, clients)
    np.testing.assert_allclose(cohort.weights, weights)
    r = 0.5 * r + 0.5 * np.isin(np.arange(3), cohort.clients)
    np.testing.assert_allclose(r, rates_after)


def _replay_f3ast(sizes, masks):
  """Plays the released rules; returns clients and weights by round, and r."""
  batches = [-(-n // _BATCH) for n in sizes]
  p = [b / sum(batches) for b in batches]
  r = list(p)
  history = []
  for mask in masks:
    scores = [p[k] ** 2 / r[k] ** 2 if mask[k] else 0.0 for k in range(len(p))]
    # Highest first; of equal ones, the lowest index first.
    chosen = sorted(range(len(p)), key=lambda k: (-scores[k], k))[:_K]
    for k in range(len(p)):
      r[k] = (1 - _BETA) * r[k] + (_BETA if k in chosen else 0.0)
    history.append((sorted(chosen), sum(p[k] / r[k] for k in chosen) / _K))
  return history, r


def test_fifty_rounds_of_f3ast_as_the_released_code_plays_them():
  sizes = np.array([113, 58, 3071, 60, 97, 211, 51, 86, 402])
  config = config_lib.Config(
    avail='home_devices',
    protocol='released',
    rounds=_ROUNDS,
    clients_per_round=str(_K),
    beta=_BETA,
    batch_size=_BATCH,
    seed=2,
  ).resolve(_STEP_SIZES)
  steps = list(selector_lib.build(config, sizes, sizes).simulate(_ROUNDS))
  # Who is there does not depend on the run's seed.
  model = availability.home_devices(9, seed=1)
  masks = [model(t) for t in range(1, _ROUNDS + 1)]
  assert any(mask.sum() < _K for mask in masks)  # Or the test shows less.
  history, r = _replay_f3ast(sizes.tolist(), masks)
  for step, (chosen, sum_of_weights) in zip(steps, history):
    assert step.cohort.clients.tolist() == chosen
    assert step.cohort.weights.sum() == pytest.approx(sum_of_weights)
  np.testing.assert_allclose(steps[-1].rates, r, rtol=1e-12)


def test_fifty_rounds_of_fedavg_draw_with_replacement_and_weigh_by_size():
  p = np.array([0.7, 0.1, 0.2])
  sizes = np.array([70, 10, 20])
  counts = np.zeros(3)
  repeated = 0
  for t in range(_ROUNDS):
    mask = np.array([True, t % 2 == 0, True])
    situation = selection.Situation(
      p, p, mask, _K, num_predictions=sizes
    )
    cohort = released.proportional(situation, _rng(t))
    # By hand: the same draw, then sizes counted as often as drawn.
    there = [k for k in range(3) if mask[k]]
    share = np.array([p[k] for k in there]) / sum(p[k] for k in there)
    drawn = list(_rng(t).choice(there, _K, p=share))
    total = sum(sizes[k] for k in drawn)
    expected = {k: drawn.count(k) * sizes[k] / total for k in set(drawn)}
    assert dict(zip(cohort.clients, cohort.weights)) == pytest.approx(expected)
    repeated += len(set(drawn)) < _K
    counts[drawn] += 1
  assert repeated > 30 and counts[0] > counts[2] > counts[1]


def test_fifty_rounds_of_power_of_choice():
  p = np.array([0.4, 0.1, 0.2, 0.3])
  sizes = np.array([40, 10, 20, 30])
  for t in range(_ROUNDS):
    losses = _rng(1000 + t).permutation(4) / 4
    mask = np.array([True, True, t % 3 > 0, True])
    asked = []

    def losses_of(clients, losses=losses, asked=asked):
      asked.extend(clients)
      return losses[clients]

    situation = selection.Situation(
      p, p, mask, 2, num_candidates=3, losses_of=losses_of,
      num_predictions=sizes,
    )
    cohort = released.power_of_choice(situation, _rng(t))
    there = [k for k in range(4) if mask[k]]
    share = np.array([p[k] for k in there]) / sum(p[k] for k in there)
    candidates = list(_rng(t).choice(there, 3, p=share))
    assert sorted(set(candidates)) == asked
    best = sorted(candidates, key=lambda k: -losses[k])[:2]
    total = sum(sizes[k] for k in best)
    expected = {k: best.count(k) * sizes[k] / total for k in set(best)}
    assert dict(zip(cohort.clients, cohort.weights)) == pytest.approx(expected)


@pytest.mark.parametrize('name', ['f3ast', 'proportional', 'power_of_choice'])
def test_nobody_there(name):
  p = np.full(3, 1 / 3)
  situation = selection.Situation(
    p, p, np.zeros(3, bool), 2, num_predictions=np.ones(3)
  )
  policy = released.policy_with_departures(name, released.parse('released'))
  cohort = policy(situation, _rng())
  # The released F3AST takes clients that are away.
  assert cohort.clients.size == (2 if name == 'f3ast' else 0)
  assert cohort.weights.size == cohort.clients.size


@pytest.mark.parametrize('name', list(methods.POLICIES))
def test_departures_concern_their_own_method_only(name):
  assert released.policy_with_departures(name, released.Protocol()) == name
  departs = released.policy_with_departures(name, released.parse('divide_by_k'))
  assert (departs == name) == (name != 'f3ast')


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
