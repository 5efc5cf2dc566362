"""Tests of clients that are Markov chains."""

import sys

import numpy as np
import pytest

from f3ast_tff import availability


def test_the_numbers_of_fedau():
  q = np.array([0.5, 0.2, 0.04, 1.0, 0.0])
  model = availability.persistent(q)
  # .05 (1 - q) / q is .05, .2, 1.2 (so both are divided by 1.2), 0.
  np.testing.assert_allclose(model.on_to_off, [0.05, 0.2, 1.0, 0.0, 1.0])
  np.testing.assert_allclose(
    model.off_to_on, [0.05, 0.05, 0.05 / 1.2, 0.05, 0.0]
  )
  np.testing.assert_allclose(model.probabilities(1), q, atol=1e-15)


def test_run_lengths_are_geometric():
  model = availability.equal_chains(np.full(40, 0.025), 6, 0.25, 0.1)
  masks = np.array([model(t) for t in range(1, 401)]).astype(int)
  lengths = {0: [], 1: []}
  for on in masks.T:
    edges = np.flatnonzero(np.diff(on))
    for begin, end in zip(edges[:-1], edges[1:]):
      lengths[on[end]].append(end - begin)
  # A run that is cut off at the end is left out, which hardly shows: at most
  # one in 400 / 14.
  for state, chance in ((1, 0.25), (0, 0.1)):
    found = np.array(lengths[state])
    error = np.sqrt((1 - chance) / chance**2 / found.size)
    assert abs(found.mean() - 1 / chance) < 4 * error


def test_clients_are_independent_of_each_other():
  # The round 5 of many seeds; correlations of independent clients have
  # standard error 1 / sqrt(n).
  p = np.full(6, 1 / 6)
  masks = np.array([
    availability.equal_chains(p, seed, 0.2, 0.3)(5) for seed in range(900)
  ])
  correlation = np.corrcoef(masks.T) - np.eye(6)
  assert np.abs(correlation).max() < 4 / 30


def test_chains_that_turn_in_every_round_have_no_known_long_run():
  model = availability.Markov(np.array([0.5, 1.0]), np.ones(2))
  with pytest.raises(ValueError, match='as client 1 does'):
    model.long_run()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
