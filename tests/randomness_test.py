"""Tests of `randomness`."""

import itertools
import sys

import numpy as np
import pytest

from f3ast_tff import randomness


def test_equal_arguments_give_equal_streams():
  a = randomness.generator(3, 'selection', 7, 2).random(5)
  b = randomness.generator(3, 'selection', 7, 2).random(5)
  np.testing.assert_array_equal(a, b)


def test_every_argument_matters():
  arguments = itertools.product((0, 1), ('a', 'b'), (0, 1), (0, 1))
  first = {randomness.generator(*each).integers(2**62) for each in arguments}
  assert len(first) == 16


def test_global_state_does_not_matter():
  np.random.seed(0)
  a = randomness.generator(0, 'x').random()
  np.random.seed(1)
  assert randomness.generator(0, 'x').random() == a


@pytest.mark.parametrize('bad', [(-1, 'x', 0, 0), (0, 'x', -1, 0)])
def test_negative_arguments_are_refused(bad):
  with pytest.raises(ValueError, match='must be a whole number >= 0'):
    randomness.generator(*bad)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
