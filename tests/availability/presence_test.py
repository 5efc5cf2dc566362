"""Tests of clients that arrive and leave."""

import sys

import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff.availability import presence


def test_a_client_is_there_from_its_first_round_until_it_leaves():
  model = availability.Presence(
    availability.always(3),
    np.array([1, 3, 2]),
    np.array([4, presence.NEVER, 3]),
  )
  masks = np.array([model(t) for t in range(1, 6)])
  by_hand = [[1, 0, 0], [1, 0, 1], [1, 1, 0], [0, 1, 0], [0, 1, 0]]
  np.testing.assert_array_equal(masks, by_hand)
  for t in range(1, 6):
    np.testing.assert_array_equal(model.probabilities(t), by_hand[t - 1])


def test_while_it_is_there_the_other_model_decides():
  phones = availability.smartphones(30, seed=2)
  model = availability.arrivals(phones, seed=2, last=10, stay=10)
  assert model.positively_correlated
  for t in (1, 5, 30):
    there = (model.arrives <= t) & (t < model.leaves)
    np.testing.assert_array_equal(model(t), phones(t) & there)
    np.testing.assert_array_equal(
      model.probabilities(t), phones.probabilities(t) * there
    )


def test_arrivals_are_uniform_and_stays_geometric():
  n = 20000
  model = availability.arrivals(availability.always(n), 1, last=50, stay=8)
  # Uniform on 1 .. 50: mean 25.5, variance (50^2 - 1) / 12.
  error = np.sqrt((50**2 - 1) / 12 / n)
  assert abs(model.arrives.mean() - 25.5) < 4 * error
  assert model.arrives.min() == 1 and model.arrives.max() == 50
  # Geometric of mean 8: variance 8 * 7.
  stays = model.leaves - model.arrives
  assert stays.min() == 1
  assert abs(stays.mean() - 8) < 4 * np.sqrt(8 * 7 / n)
  share = 1 / 8  # Of one round.
  error = np.sqrt(share * (1 - share) / n)
  assert abs((stays == 1).mean() - share) < 4 * error


def test_clients_may_all_begin_and_may_stay():
  model = availability.arrivals(availability.always(5), last=1, stay=0)
  assert model(1).all() and model(10**9).all()


def test_there_is_no_long_run():
  with pytest.raises(ValueError, match='have no long-run rates'):
    availability.arrivals(availability.always(5)).long_run()


def test_a_round_for_each_client():
  with pytest.raises(ValueError, match=r'each of the 3 .* \(3,\) and \(2,\)'):
    availability.Presence(
      availability.always(3), np.ones(3, int), np.ones(2, int)
    )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
