"""Runs the tutorial, and compares its page and its notebook with it."""

import json
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


def test_the_page_and_the_notebook_are_made_from_the_script():
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


def test_the_notebook_holds_the_script_and_nothing_that_was_run():
  notebook = json.loads((_ROOT / 'docs' / 'tutorial.ipynb').read_text())
  cells = notebook['cells']
  code = [cell for cell in cells if cell['cell_type'] == 'code']
  assert len(code) > 5 and len({cell['id'] for cell in cells}) == len(cells)
  assert not any(cell['outputs'] for cell in code)
  # The lines of code are those of the script, in its order.
  lines = iter(_SCRIPT.read_text().splitlines())
  for cell in code:
    for line in ''.join(cell['source']).splitlines():
      assert line in lines, line  # Consumes the lines up to it.
  assert not [line for line in lines if line and not line.startswith('#')]


@pytest.mark.slow
def test_the_notebook_runs_in_jupyter(tmp_path, monkeypatch):
  pytest.importorskip('ipykernel')
  nbclient = pytest.importorskip('nbclient')
  nbformat = pytest.importorskip('nbformat')
  monkeypatch.setenv('PYTHONPATH', str(_ROOT))
  path = _ROOT / 'docs' / 'tutorial.ipynb'
  notebook = nbformat.read(path, as_version=4)
  nbformat.validate(notebook)
  nbclient.NotebookClient(
    notebook, timeout=600, resources={'metadata': {'path': str(tmp_path)}}
  ).execute()
  printed = ''.join(
    output.get('text', '')
    for cell in notebook.cells
    for output in cell.get('outputs', ())
  )
  said = _numbers((_ROOT / 'docs' / 'tutorial.md').read_text())
  for method, row in _numbers(printed).items():
    assert row == pytest.approx(said.pop(method), abs=0.04)
  assert not said
  assert (tmp_path / 'tutorial.png').read_bytes()[:4] == b'\x89PNG'


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
