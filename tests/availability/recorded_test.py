"""Tests of rounds that were drawn beforehand."""

import sys

import numpy as np
import pytest

from f3ast_tff import availability


def test_what_is_recorded_is_what_the_model_says():
  model = availability.smartphones(6, seed=2)
  masks = np.array([model(t) for t in (1, 2, 3)])
  recorded = availability.Recorded(masks, model)
  for t in (3, 1, 2):
    np.testing.assert_array_equal(recorded(t), model(t))
    np.testing.assert_array_equal(
      recorded.probabilities(t), model.probabilities(t)
    )
  assert recorded.num_clients == 6 and recorded.positively_correlated
  with pytest.raises(ValueError, match='3 rounds are recorded, but round 4'):
    recorded(4)
  with pytest.raises(ValueError, match='count from 1'):
    recorded(0)  # Not the last one.


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
