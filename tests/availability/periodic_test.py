"""Tests of periodic availability against the definitions of its authors."""

import sys

import numpy as np
import pytest

from f3ast_tff import availability

_Q = np.array([1.0, 0.5, 0.2, 0.09])


def _table(model, num_rounds):
  return np.array([model.probabilities(t) for t in range(1, num_rounds + 1)])


def test_the_sine_of_fedawe():
  model = availability.sine(_Q)
  # .3 sin + .7: 1 at a quarter of 20 rounds, .4 at three quarters.
  by_hand = {5: 1.0, 10: 0.7, 15: 0.4, 20: 0.7, 25: 1.0}
  by_hand[1] = 0.3 * np.sin(np.pi / 10) + 0.7
  for t, factor in by_hand.items():
    np.testing.assert_allclose(model.probabilities(t), factor * _Q, rtol=1e-12)


def test_the_staircase_of_fedawe():
  table = _table(availability.staircase(_Q), 40)
  factors = ([1.0] * 10 + [0.4] * 10) * 2
  np.testing.assert_allclose(table, np.outer(factors, _Q), rtol=1e-12)
  odd = _table(availability.staircase(_Q, low=0.0, period=3), 4)
  np.testing.assert_array_equal(odd[:, 0], [1, 1, 0, 1])


def test_the_interleaved_sine_of_fedawe():
  table = _table(availability.interleaved(_Q), 40)
  expected = _table(availability.sine(_Q), 40)
  # .2 (.3 sin + .7) < .1 where the sine is below -2/3: between 222 and 318
  # degrees, rounds 13 (234) to 17 (306). And .09 is below .1 at best.
  for t in (13, 14, 15, 16, 17):
    expected[[t - 1, t + 19], 2] = 0
  expected[:, 3] = 0
  np.testing.assert_allclose(table, expected, rtol=1e-12)
  assert (table[[11, 17], 2] > 0.1).all()  # The rounds next to them.


def test_cyclic_clients_are_on_for_their_share_in_one_piece():
  # The nearest number of rounds, up and down, but at least one.
  q = np.array([0.0, 0.004, 0.254, 0.496, 1.0])
  model = availability.cyclic(q, seed=3, period=100)
  masks = np.array([model(t) for t in range(1, 301)])
  assert masks[:100].sum(axis=0).tolist() == [1, 1, 25, 50, 100]
  np.testing.assert_array_equal(masks[:100], masks[200:])
  # On only once in a period.
  begins = masks[1:101] & ~masks[:100]
  assert begins.sum(axis=0).tolist() == [1, 1, 1, 1, 0]
  np.testing.assert_array_equal(masks, _table(model, 300))  # Nothing is random.


def test_cycles_begin_anywhere():
  # The first round of 2,000 clients that are on in one of 4: uniform.
  model = availability.cyclic(np.full(2000, 0.25), seed=1, period=4)
  counts = np.array([model(t).sum() for t in (1, 2, 3, 4)])
  error = np.sqrt(2000 * 0.25 * 0.75)
  assert counts.sum() == 2000 and (np.abs(counts - 500) < 4 * error).all()


def test_time_zones_have_the_same_day_at_different_hours():
  model = availability.time_zones(np.ones(40), seed=2)
  table = _table(model, 48)
  # .4 sin + .5 is .9 at 6 hours: so in zone 0 in round 6, in zone 1, six hours
  # ahead, in round 24, and so on.
  for zone, hour in enumerate((6, 24, 18, 12)):
    members = model.groups == zone
    assert members.sum() == 10
    np.testing.assert_allclose(table[hour - 1, members], 0.9)
    np.testing.assert_allclose(table[(hour + 11) % 24, members], 0.1)
  np.testing.assert_allclose(table.sum(axis=1), 40 * 0.5)  # Day somewhere.


def test_blocks_take_turns():
  model = availability.blocks(np.ones(9), seed=4, groups=3, length=2)
  masks = np.array([model(t) for t in range(1, 13)])
  for block in range(3):
    members = model.groups == block
    assert members.sum() == 3
    on = np.zeros(6, bool)
    on[2 * block : 2 * block + 2] = True
    np.testing.assert_array_equal(
      masks[:, members], np.tile(on, 2)[:, None].repeat(3, axis=1)
    )


def test_blocks_are_negatively_correlated_with_each_other():
  q = np.array([0.8, 0.6, 0.5, 0.9])
  model = availability.blocks(q, seed=4, groups=2, length=3)
  num_rounds = 6000
  masks = np.array([model(t) for t in range(1, num_rounds + 1)])
  covariance = np.cov(masks.T, bias=True)
  same = model.groups[:, None] == model.groups
  # E[1_k 1_l] is q_k q_l / 2 in one block and 0 in two; E[1_k] = q_k / 2.
  expected = np.outer(q, q) * np.where(same, 0.25, -0.25)
  np.fill_diagonal(expected, q / 2 * (1 - q / 2))
  # The variance of a product of two indicators is at most 1/4.
  assert (np.abs(covariance - expected) < 4 * 0.5 / num_rounds**0.5).all()


@pytest.mark.parametrize(
  'model, is_positive',
  [
    (availability.blocks(np.ones(4), groups=2), False),
    (availability.blocks(np.ones(5), groups=2), False),
    (availability.blocks(np.ones(4), groups=4), False),
    (availability.time_zones(np.ones(8), zones=4), False),
    (availability.time_zones(np.ones(2), zones=1), True),
    (availability.time_zones(np.ones(1), zones=1), False),
    (availability.time_zones(np.array([0.0, 1.0]), zones=1), False),
    # Three of four in the one block: three pairs are positive, as many not.
    # Variances and covariances are 1/4 or -1/4.
    (
      availability.Periodic(np.ones(4), np.eye(2), np.array([0, 0, 0, 1])),
      False,
    ),
    # Of five, six are and four are not.
    (
      availability.Periodic(np.ones(5), np.eye(2), np.array([0, 0, 0, 0, 1])),
      True,
    ),
    (availability.cyclic(_Q), False),
    (availability.sine(_Q), True),
    (availability.staircase(_Q, low=1.0), False),
    (availability.interleaved(_Q), True),
    (availability.interleaved(_Q, gamma=0.0), False),
  ],
)
def test_positive_is_what_pairs_are_on_average(model, is_positive):
  assert model.positively_correlated is is_positive


@pytest.mark.parametrize(
  'factors, groups, message',
  [
    (np.ones(3), np.zeros(2, int), 'a row per round'),
    (np.full((3, 1), 1.1), np.zeros(2, int), 'probabilities in'),
    (np.ones((3, 1)), np.zeros(3, int), 'each of the 2 clients'),
    (np.ones((3, 1)), np.zeros(2), 'a whole number for each'),
    (np.ones((3, 2)), np.array([0, 2]), 'from 0 to 1, but range from 0 to 2'),
  ],
)
def test_bad_values_are_named(factors, groups, message):
  with pytest.raises(ValueError, match=message):
    availability.Periodic(np.ones(2), factors, groups)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
