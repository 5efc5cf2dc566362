"""Tests of clusters against the closed forms of their chains."""

import sys

import numpy as np
import pytest

from f3ast_tff import availability

_Q = np.array([0.9, 0.5, 0.7, 0.4])
_GROUPS = np.array([0, 0, 1, 1])
_SHARE = 0.4  # Of the rounds, on: 0.2 / (0.3 + 0.2).


def _model(seed, q=_Q):
  return availability.Clusters(q, _GROUPS, 2, 0.3, 0.2, seed)


def test_covariances_are_those_of_the_closed_form():
  # The round 7 of many seeds: independent of each other.
  num_seeds = 1500
  masks = np.array([_model(seed)(7) for seed in range(num_seeds)])
  together = masks.T.astype(float) @ masks / num_seeds
  same = _GROUPS[:, None] == _GROUPS
  expected = np.outer(_Q, _Q) * np.where(same, _SHARE, _SHARE**2)
  np.fill_diagonal(expected, _SHARE * _Q)
  error = np.sqrt(expected * (1 - expected) / num_seeds)
  assert (np.abs(together - expected) < 4 * error).all()
  np.testing.assert_allclose(_model(0).probabilities(7), _SHARE * _Q)


def test_run_lengths_of_clusters_are_geometric():
  model = _model(2, np.ones(4))
  masks = np.array([model(t) for t in range(1, 2001)])
  np.testing.assert_array_equal(masks[:, 0], masks[:, 1])
  np.testing.assert_array_equal(masks[:, 2], masks[:, 3])
  assert (masks[:, 0] != masks[:, 2]).any()
  on = masks[:, 0].astype(int)
  edges = np.flatnonzero(np.diff(on))
  lengths = np.diff(edges)  # Whole runs, by turns on and off.
  is_on = on[edges[:-1] + 1] == 1
  for found, chance in ((lengths[is_on], 0.3), (lengths[~is_on], 0.2)):
    # Geometric: mean 1 / a, variance (1 - a) / a^2.
    error = np.sqrt((1 - chance) / chance**2 / found.size)
    assert abs(found.mean() - 1 / chance) < 4 * error


def test_clients_are_dealt_evenly_and_by_chance():
  model = availability.clusters(np.ones(23), seed=1, groups=5)
  assert sorted(np.bincount(model.groups)) == [4, 4, 5, 5, 5]
  other = availability.clusters(np.ones(23), seed=2, groups=5)
  assert (model.groups != other.groups).any()


@pytest.mark.parametrize(
  'model, is_positive',
  [
    (_model(0), True),
    (_model(0, np.array([1.0, 0, 1, 0])), False),  # One of each can come.
    (availability.clusters(np.ones(3), groups=1), True),
    (availability.clusters(np.ones(3), groups=3), False),
    (availability.clusters(np.ones(3), groups=1, on_to_off=0.0), False),
    (availability.clusters(np.zeros(3), groups=1), False),
  ],
)
def test_two_clients_of_one_cluster_are_positive(model, is_positive):
  assert model.positively_correlated is is_positive


@pytest.mark.parametrize(
  'make, message',
  [
    (lambda: availability.clusters(np.ones(0)), 'N >= 1 clients'),
    (
      lambda: availability.Clusters(_Q, _GROUPS, 1, 0.1, 0.1),
      'from 0 to 0, but range from 0 to 1',
    ),
    (
      lambda: availability.clusters(_Q, groups=13).long_run(),
      'at most 12, but there are 13',
    ),
    (
      lambda: availability.clusters(_Q, 0, 2, 1.0, 1.0).long_run(),
      'turn in every round',
    ),
  ],
)
def test_what_is_not_possible_is_named(make, message):
  with pytest.raises(ValueError, match=message):
    make()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
