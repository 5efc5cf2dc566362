"""Tests of `small_system`."""

import sys

import numpy as np
import pytest

from f3ast_tff import groups
from f3ast_tff.theory import small_system
from tests import systems

_TWO = np.eye(2, dtype=bool)


def test_configurations_come_as_often_as_they_should():
  model = small_system.Configurations(systems.TWO, seed=3)
  np.testing.assert_allclose(model.probabilities(5), [0.375, 0.8])
  assert model.num_clients == 2 and not model.positively_correlated
  masks = np.array([model(t) for t in range(1, 4001)])
  np.testing.assert_array_equal(model(17), masks[16])
  for mask, chance in zip(systems.TWO.masks, systems.TWO.probabilities):
    found = (masks == mask).all(axis=1).mean()
    assert abs(found - chance) < 5 * np.sqrt(chance * (1 - chance) / 4000)
  other = small_system.Configurations(systems.TWO, seed=4)
  assert any((other(t) != masks[t - 1]).any() for t in range(1, 50))
  with pytest.raises(ValueError, match='count from 1'):
    model.probabilities(0)


@pytest.mark.parametrize(
  'q, k, message',
  [
    ([0.5, 1.5], 1, 'probability'),
    ([0.5, np.nan], 1, 'probability'),
    ([0.5] * 20, 1, 'at most 12 clients'),
    ([0.5] * 3, -1, 'whole number'),
  ],
)
def test_bad_chances_are_named(q, k, message):
  with pytest.raises(ValueError, match=message):
    small_system.independent(np.array(q), k)


@pytest.mark.parametrize(
  'masks, probabilities, message',
  [
    (np.ones((2, 2), bool), [0.5, 0.5], 'once'),
    (np.eye(2), [0.5, 0.5], 'boolean'),
    (_TWO, [0.4, 0.3, 0.3], 'one number for each of the 2'),
    (_TWO, [0.4, 0.4], 'sum to 1'),
    (_TWO, [np.nan, 1.0], 'sum to 1'),
  ],
)
def test_bad_configurations_are_named(masks, probabilities, message):
  with pytest.raises(ValueError, match=message):
    small_system.System(masks, np.array(probabilities), 1)


@pytest.mark.parametrize(
  'group_of, least, most, message',
  [
    ([0], [0], [1], 'each of the 2 clients'),
    ([0, 1], [1, 0], [0, 1], 'least <= most'),
    ([0, 1], [1, 1], [1, 1], 'require 2 clients, but K is 1'),
  ],
)
def test_bad_quotas_are_named(group_of, least, most, message):
  bounds = groups.Bounds(*map(np.array, (group_of, least, most)))
  with pytest.raises(ValueError, match=message):
    small_system.System(_TWO, np.array([0.5, 0.5]), 1, bounds)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
