"""Runs the tutorial, and compares its page with it."""

import pathlib
import re
import runpy
import subprocess
import sys

import pytest

_ROOT = pathlib.Path(__file__).parents[2]
_SCRIPT = _ROOT / 'docs' / 'tutorial.py'


def _numbers(text):
  """Returns the row of each method in what the tutorial prints."""
  rows = re.findall(r'^(?:#? +)?(FedAvg|F3AST) +([\d. ]+)$', text, re.MULTILINE)
  return {method: list(map(float, row.split())) for method, row in rows}


def test_the_page_is_made_from_the_script():
  tool = _ROOT / 'tools' / 'tutorial_page.py'
  subprocess.run([sys.executable, '-S', str(tool), '--check'], check=True)


def test_the_tutorial_runs_and_prints_what_the_page_says(
  tmp_path, monkeypatch, capsys
):
  picture = tmp_path / 'tutorial.png'
  monkeypatch.setattr(sys, 'argv', [str(_SCRIPT), f'--picture={picture}'])
  ran = runpy.run_path(str(_SCRIPT))
  printed = _numbers(capsys.readouterr().out)
  said = _numbers((_ROOT / 'docs' / 'tutorial.md').read_text())
  assert list(printed) == ['FedAvg', 'F3AST']
  for method, row in printed.items():
    # Other processors round differently; who is selected does not depend on it.
    assert row[:2] == pytest.approx(said[method][:2], abs=0.04)
    assert row[2] == pytest.approx(said[method][2], abs=0.001)
  assert ran['p'].sum() == pytest.approx(1)
  assert picture.read_bytes()[:4] == b'\x89PNG'


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
