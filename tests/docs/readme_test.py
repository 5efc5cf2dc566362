"""Tests of what the README says."""

import pathlib
import sys

import pytest

_README = pathlib.Path(__file__).parents[2] / 'README.md'


def test_the_readme_is_short():
  text = _README.read_text()
  assert len(text.splitlines()) <= 120
  assert len(text.split()) <= 900


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
