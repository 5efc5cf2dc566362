"""Tests of the wheel, and of the parts of tools/try_wheel.py that are quick."""

import importlib
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

import f3ast_tff

_TOOLS = pathlib.Path(__file__).parents[2] / 'tools'

_PROGRAM = """
import sys, f3ast_tff
there = f3ast_tff.availability.scarce(1000, seed=0)
print(f3ast_tff.__file__, f3ast_tff.__version__, 100 < there(1).sum() < 300)
assert 'tensorflow' not in sys.modules
"""


@pytest.fixture
def try_wheel(monkeypatch):
  monkeypatch.syspath_prepend(str(_TOOLS))
  return importlib.import_module('try_wheel')


def test_the_wheel_holds_the_package_and_works_from_elsewhere(
  try_wheel, tmp_path
):
  wheel = try_wheel.build(tmp_path)
  try_wheel.check_content(wheel)
  assert wheel.name == f'f3ast_tff-{f3ast_tff.__version__}-py3-none-any.whl'
  place, elsewhere = tmp_path / 'installed', tmp_path / 'elsewhere'
  elsewhere.mkdir()
  with zipfile.ZipFile(wheel) as archive:
    archive.extractall(place)
  done = subprocess.run(
    [sys.executable, '-c', _PROGRAM],
    cwd=elsewhere,
    env={**os.environ, 'PYTHONPATH': str(place)},
    capture_output=True,
    text=True,
    check=True,
    timeout=60,
  )
  file = place / 'f3ast_tff' / '__init__.py'
  assert done.stdout.split() == [str(file), f3ast_tff.__version__, 'True']


def test_a_wheel_that_lacks_a_file_or_has_one_too_many(try_wheel, tmp_path):
  wheel = tmp_path / 'x.whl'
  with zipfile.ZipFile(wheel, 'w') as archive:
    archive.writestr('f3ast_tff/__init__.py', '')
    archive.writestr('experiments/__init__.py', '')
    archive.writestr('f3ast_tff-0.1.0.dist-info/METADATA', '')
  with pytest.raises(SystemExit) as end:
    try_wheel.check_content(wheel)
  assert "'f3ast_tff/py.typed'" in str(end.value)
  assert "should not have ['experiments/__init__.py']" in str(end.value)


def test_the_tests_for_the_wheel_need_the_package_only(try_wheel):
  chosen = try_wheel.fast_tests()
  assert 'tests/rates_test.py' in chosen
  assert 'tests/experiments/flags_test.py' not in chosen
  for path in chosen:
    text = (_TOOLS.parent / path).read_text()
    assert 'from experiments' not in text


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
