"""Tests of `wording`."""

import sys

import pytest

from f3ast_tff import wording


@pytest.mark.parametrize(
  'number, what, text',
  [
    (0, 'round', '0 rounds'),
    (1, 'round', '1 round'),
    (2, 'round', '2 rounds'),
    (1, 'empty round', '1 empty round'),
    (12, 'empty round', '12 empty rounds'),
  ],
)
def test_one_is_one(number, what, text):
  assert wording.count(number, what) == text


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
