"""Tests of what the README says."""

import pathlib
import re
import sys

import pytest

_ROOT = pathlib.Path(__file__).parents[2]
_README = _ROOT / 'README.md'


def test_what_the_readme_points_at_is_there():
  text = _README.read_text()
  assert '@' not in text.replace('@SERVER', '')
  for path in re.findall(r'\]\(([^)#:]+)\)', text):
    assert (_ROOT / path).exists(), path


def test_the_readme_is_short():
  assert len(_README.read_text().splitlines()) <= 120


def test_the_example_is_that_of_the_page_about_the_library():
  # Where it is run: see api_test.
  (block,) = re.findall(r'```python\n(.*?)```', _README.read_text(), re.DOTALL)
  page = (_ROOT / 'docs' / 'api.md').read_text()
  assert f'```python\n{block}```' in page


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
