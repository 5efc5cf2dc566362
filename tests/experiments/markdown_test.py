"""Tests of `experiments.markdown`."""

import sys

import pytest

from experiments import markdown


def test_columns_are_aligned():
  text = markdown.table([['a', 'long'], ['x|y', 3], ['', 0.5]])
  assert text.splitlines() == [
    '| a    | long |',
    '|------|------|',
    r'| x\|y | 3    |',
    '|      | 0.5  |',
  ]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
