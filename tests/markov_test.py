"""Tests of `markov` against a plain forward simulation."""

import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import markov

_PROBABILITY = st.floats(0, 1).filter(lambda x: x == 0 or x > 1e-6)


def _simulate(table, rounds, a, b):
  """The chain written as its definition: one step after the other."""
  state = table[1] < b / (a + b)
  for t in range(2, rounds + 1):
    on_next = np.where(state, ~(table[t] < a), ~(table[t] < 1 - b))
    state = on_next
  return state


@hypothesis.given(
  st.lists(st.tuples(_PROBABILITY, _PROBABILITY), min_size=1, max_size=4),
  st.integers(1, 40),
  st.integers(0, 1000),
)
@hypothesis.settings(max_examples=100)
def test_equals_forward_simulation(chains, rounds, seed):
  a, b = np.array(chains).T
  hypothesis.assume((a + b > 0).all())
  table = np.random.default_rng(seed).random((rounds + 1, a.size))
  got = markov.two_state(lambda t: table[t], rounds, a, b)
  np.testing.assert_array_equal(got, _simulate(table, rounds, a, b))


def test_long_run_share_and_persistence():
  a, b, rounds = 0.1, 0.3, 10000
  table = np.random.default_rng(0).random((rounds + 1, 1))
  states = np.array([
    markov.two_state(lambda t: table[t], t, np.array([a]), np.array([b]))[0]
    for t in range(1, rounds + 1)
  ])
  assert abs(states.mean() - b / (a + b)) < 0.02
  left = (states[:-1] & ~states[1:]).sum() / states[:-1].sum()
  assert abs(left - a) < 0.015


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
