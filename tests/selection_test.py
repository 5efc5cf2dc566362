"""Tests of `selection`: what policies are made of."""

import itertools
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import selection
from tests import situations


def _rng(seed=0):
  return np.random.default_rng(seed)


@st.composite
def _scores_and_masks(draw):
  n = draw(st.integers(1, 60))
  # Few values, so that many tie.
  values = st.sampled_from([0.0, 1e-300, 0.5, 1.0, 2.0, 1e300, np.inf])
  scores = draw(st.lists(values | st.floats(0, 1), min_size=n, max_size=n))
  mask = draw(st.lists(st.booleans(), min_size=n, max_size=n))
  return np.array(scores), np.array(mask), draw(st.integers(0, n + 1))


@hypothesis.given(
  _scores_and_masks(), st.sampled_from([1, 4, 2**16]), st.integers(0, 99)
)
@hypothesis.settings(max_examples=200)
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


def test_infinite_scores_come_first():
  scores, everyone = np.array([1.0, np.inf, 5.0, np.inf]), np.ones(4, bool)
  assert selection.top_k(scores, everyone, 3, _rng()).tolist() == [1, 2, 3]
  drawn = {
    int(selection.top_k(scores, everyone, 1, _rng(s))[0]) for s in range(20)
  }
  assert drawn == {1, 3}


@pytest.mark.parametrize('n', [2, 30])
def test_nan_is_found_beside_what_is_sampled(monkeypatch, n):
  monkeypatch.setattr(selection, '_SAMPLE', 1)
  for place in range(n):
    scores = np.where(np.arange(n) == place, np.nan, 1.0)
    with pytest.raises(ValueError, match='NaN'):
      selection.top_k(scores, np.ones(n, bool), n // 2, _rng())


def _drawn(draw, p, available, k, draws=8000):
  """Returns how often each sequence of clients was drawn."""
  rng, found = _rng(1), {}
  for _ in range(draws):
    clients = tuple(np.sort(draw(p, available, k, rng)).tolist())
    found[clients] = found.get(clients, 0) + 1
  return found


def test_draws_without_replacement_are_in_sequence_with_probability_p():
  p = np.array([0.5, 0.3, 0.2])
  # P(S = {i, j}) = p_i p_j / (1 - p_i) + p_j p_i / (1 - p_j).
  expected = {
    (i, j): p[i] * p[j] / (1 - p[i]) + p[j] * p[i] / (1 - p[j])
    for i, j in ((0, 1), (0, 2), (1, 2))
  }
  found = _drawn(selection.draw_by_share, p, np.ones(3, bool), 2)
  situations.assert_frequencies(found, expected)


def test_draws_with_replacement_by_brute_force():
  # All 3^4 sequences of four draws from clients 0, 2 and 3.
  p = np.array([0.2, 0.5, 0.06, 0.24])
  available = np.array([True, False, True, True])
  q = {0: 0.4, 2: 0.12, 3: 0.48}  # p / .5
  expected = {}
  for sequence in itertools.product(q, repeat=4):
    key = tuple(sorted(sequence))
    chance = np.prod([q[k] for k in sequence])
    expected[key] = expected.get(key, 0) + chance
  found = _drawn(selection.draw_by_share_with_replacement, p, available, 4)
  situations.assert_frequencies(found, expected)


@pytest.mark.parametrize(
  'draw',
  [selection.draw_by_share, selection.draw_by_share_with_replacement],
)
def test_who_has_no_data_is_not_drawn_by_data(draw):
  p = np.array([0.5, 0.5, 0.0])
  for k in (2, 3):
    assert set(draw(p, np.ones(3, bool), k, _rng())) <= {0, 1}
  assert draw(p, np.array([False, False, True]), 2, _rng()).size == 0


@pytest.mark.parametrize('n', [0, 1, 4])
def test_a_mean_has_equal_weights(n):
  cohort = selection.with_equal_weights(np.arange(n))
  assert cohort.weights.tolist() == [1 / max(1, n)] * n


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
