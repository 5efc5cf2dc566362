"""Tests of `methods.power_of_choice` against brute force and by hand."""

import itertools
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff.methods import power_of_choice
from tests import situations


@hypothesis.given(
  situations.situations(),
  st.integers(1, 9),
  st.lists(
    st.sampled_from([0.0, 0.5, 1.0, 1.5, np.nan, np.inf, -np.inf]),
    min_size=9,
    max_size=9,
  ),
  st.integers(0, 99),
)
def test_it_picks_what_brute_force_picks(s, d, losses, seed):
  losses = np.array(losses)
  asked = []

  def losses_of(clients):
    asked.extend(clients)
    return losses[clients]

  cohort = power_of_choice.select(
    s._replace(num_candidates=d, losses_of=losses_of), situations.rng(seed)
  )
  num_candidates = min(d, s.available.sum()) if s.k else 0
  size = cohort.clients.size
  assert size == min(s.k, num_candidates)
  assert s.available[cohort.clients].all()
  assert cohort.weights == pytest.approx(np.full(size, 1 / max(1, size)))
  if s.k >= num_candidates:  # All of them train: nobody need be asked.
    assert not asked
    return
  assert len(asked) == len(set(asked)) == num_candidates
  assert s.available[asked].all()
  # What is not finite counts as less than any loss, hence -1 here.
  value = np.where(np.isfinite(losses), losses, -1.0)
  best = max(
    sum(value[list(subset)]) for subset in itertools.combinations(asked, s.k)
  )
  assert sum(value[cohort.clients]) == pytest.approx(best)
  assert set(cohort.clients) <= set(asked)


def test_it_returns_clients_and_not_places():
  # Three are there, 2, 5 and 7. Their losses rise with the index, so that two
  # are 5 and 7. Places in the list of candidates would be 1 and 2, and indexing
  # the wrong list, or taking the lowest, gives something else too.
  s = situations.situation(
    np.full(9, 1 / 9),
    2,
    np.isin(np.arange(9), [2, 5, 7]),
    num_candidates=3,
    losses_of=lambda clients: clients / 10,
  )
  cohort = power_of_choice.select(s, situations.rng())
  assert cohort.clients.tolist() == [5, 7]
  assert cohort.weights.tolist() == [0.5, 0.5]


@pytest.mark.parametrize('rounding', [0, 1e-7])
def test_equal_losses_are_broken_at_random(rounding):
  # In round 1 a model of zeros has the loss ln 10 everywhere; sums in float32
  # make it differ in the last digits, by the size of the client, always alike.
  losses = np.log(10) * (1 + rounding * np.array([3, -2, 0, 4, -4]))
  s = situations.situation(
    np.full(5, 0.2),
    2,
    num_candidates=5,
    losses_of=lambda clients: losses[clients],
  )
  pairs = dict.fromkeys(itertools.combinations(range(5), 2), 0.1)
  situations.assert_frequencies(
    situations.counts(power_of_choice.select, s, 3000), pairs
  )


def _highest(losses, k, seeds=1):
  return {
    tuple(power_of_choice.highest(losses, k, situations.rng(seed)).tolist())
    for seed in range(seeds)
  }


def test_highest_takes_what_is_above_for_sure_and_draws_among_ties():
  losses = np.array([1.0, 3.0, 2.0, 2.0 * (1 + 1e-6), 2.0 * (1 + 1e-4), 0.5])
  # The first three: 1 is above, 4 is above by more than rounding, and one of 2
  # and 3, which tie, in ascending order.
  assert _highest(losses, 3, 50) == {(1, 2, 4), (1, 3, 4)}
  assert _highest(losses, 0) == {()}
  assert _highest(losses, 9) == {(0, 1, 2, 3, 4, 5)}
  # What is not finite ranks below all, and ties with its like.
  strange = np.array([np.nan, -1.0, np.inf, -np.inf])
  assert _highest(strange, 1) == {(1,)}
  assert _highest(strange, 2, 50) == {(0, 1), (1, 2), (1, 3)}


def test_candidates_are_drawn_by_their_data():
  # Two of three without replacement, p = .6, .3, .1: client 2 is not a
  # candidate with probability .6 * .3/.4 + .3 * .6/.7 = .70714; of those who
  # are, the one with the higher index trains.
  s = situations.situation(
    [0.6, 0.3, 0.1], num_candidates=2, losses_of=lambda clients: clients
  )
  found = situations.counts(power_of_choice.select, s, 4000)
  situations.assert_frequencies(found, {(1,): 0.70714, (2,): 0.29286})


def test_without_losses_it_says_so():
  with pytest.raises(ValueError, match='losses_of'):
    power_of_choice.select(
      situations.situation(np.full(3, 1 / 3)), situations.rng()
    )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
