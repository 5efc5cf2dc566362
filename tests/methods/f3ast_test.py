"""Tests of `methods.f3ast` against brute force, closed forms and the paper."""

import itertools
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff import methods
from f3ast_tff import rates
from f3ast_tff.methods import f3ast
from f3ast_tff.methods import fedavg
from tests import situations

# The introduction's example: Table 1 is the product of its marginals, .375 * .8
# = .3 and so on; K = 1 and p = (1/2, 1/2).
_HALVES = np.array([0.5, 0.5])
_TWO = availability.Independent(np.array([0.375, 0.8]), seed=7)


@hypothesis.given(
  situations.situations(),
  st.sampled_from(rates.CORRELATIONS),
  st.integers(0, 99),
)
@hypothesis.settings(max_examples=200)
def test_it_is_the_best_feasible_set(s, correlation, seed):
  # Equation (4) by brute force: every S within A_t with |S| <= K_t. The
  # derivative is written out here rather than taken from the library.
  utility = (s.p if correlation == rates.POSITIVE else s.p**2) / s.r**2
  best = max(
    sum(utility[list(subset)])
    for size in range(min(s.k, s.available.sum()) + 1)
    for subset in itertools.combinations(np.flatnonzero(s.available), size)
  )
  cohort = f3ast.select(
    s._replace(correlation=correlation), situations.rng(seed)
  )
  assert utility[cohort.clients].sum() == pytest.approx(best, rel=1e-8)
  assert len(set(cohort.clients)) == len(cohort.clients) <= s.k
  assert s.available[cohort.clients].all()


def test_a_round_by_hand():
  # Scores p^2/r^2: 1, 9, .64, 4; client 1 is away; the best two are 3 and 0.
  s = situations.situation(
    [0.4, 0.3, 0.2, 0.1],
    2,
    available=[1, 0, 1, 1],
    r=[0.4, 0.1, 0.25, 0.05],
    beta=0.1,
  )
  cohort = f3ast.select(s, situations.rng())
  np.testing.assert_array_equal(cohort.clients, [0, 3])
  # r_0 = .9 * .4 + .1 = .46 and r_3 = .9 * .05 + .1 = .145
  np.testing.assert_allclose(cohort.weights, [0.4 / 0.46, 0.1 / 0.145])


@pytest.mark.parametrize(
  'correlation, expected', [(rates.UNCORRELATED, 0), (rates.POSITIVE, 1)]
)
def test_the_two_forms_of_h_choose_differently(correlation, expected):
  # p^2/r^2: .25 and .16; p/r^2: .5 and 1.6.
  s = situations.situation([0.5, 0.1], r=[1.0, 0.25], correlation=correlation)
  assert f3ast.select(s, situations.rng()).clients.tolist() == [expected]


@pytest.mark.parametrize('correlation', rates.CORRELATIONS)
def test_ties_are_broken_at_random_even_behind_rounding(correlation):
  # At the tie point all scores are equal in exact arithmetic, not in floats.
  p = np.array([0.07, 0.13, 0.19, 0.29, 0.32])
  r = 0.3 * (np.sqrt(p) if correlation == rates.POSITIVE else p)
  s = situations.situation(p, 2, r=r, correlation=correlation)
  # Each of the ten pairs alike.
  pairs = dict.fromkeys(itertools.combinations(range(5), 2), 0.1)
  situations.assert_frequencies(
    situations.counts(f3ast.select, s, 3000), pairs
  )


@pytest.mark.parametrize(
  'policy, expected',
  [('f3ast', [0.375, 0.5]), ('proportional', [0.225, 0.65])],
)
def test_introduction_example(policy, expected):
  # F3AST settles at the optimum; naive sampling is biased.
  selector = methods.build_selector(
    _HALVES, _TWO, 1, policy=policy, beta=0.002, seed=7
  )
  steps = list(selector.simulate(6000))
  settled = np.array([step.rates for step in steps[3000:]])
  share = np.bincount(
    np.concatenate([step.cohort.clients for step in steps]), minlength=2
  ) / len(steps)
  np.testing.assert_allclose(settled.mean(axis=0), expected, atol=0.03)
  np.testing.assert_allclose(share, expected, atol=0.03)
  # Around it r(t) moves by sqrt(beta / 2 var) = .016 in each coordinate.
  assert (settled.std(axis=0) < 0.03).all()


def test_delta_is_unbiased_at_the_stationary_rate():
  # At r* = (.375, .5) F3AST prefers client 0 whenever it is there, which keeps
  # the rates at r*. Then E[Delta] = sum p_k v_k whatever the updates v are.
  v = np.array([[1.0, -2.0, 5.0], [0.5, 4.0, -1.0]])
  draws = 10000
  deltas, naive = np.zeros((2, draws, 3))
  rng = situations.rng(11)
  for t, mask in enumerate(rng.random((draws, 2)) < _TWO.q):
    s = situations.situation(_HALVES, 1, mask, [0.375, 0.5], beta=1e-12)
    for samples, select in ((deltas, f3ast.select), (naive, fedavg.select)):
      cohort = select(s, rng)
      samples[t] = cohort.weights @ v[cohort.clients]

  def standard_errors_off(samples):
    error = samples.std(axis=0) / np.sqrt(draws)
    return np.abs(samples.mean(axis=0) - _HALVES @ v) / error

  assert (standard_errors_off(deltas) < 4).all()
  assert (standard_errors_off(naive) > 10).any()  # The test can tell.


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
