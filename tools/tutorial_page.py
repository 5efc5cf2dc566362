"""Writes docs/tutorial.md and docs/tutorial.ipynb from docs/tutorial.py.

  python tools/tutorial_page.py            writes the page and the notebook
  python tools/tutorial_page.py --check    exit code 1 if one is out of date

The docstring of the script and its comments that stand alone, with an empty
line after them, are the text; all else is code.
"""

import argparse
import ast
import itertools
import json
import pathlib
import re
import sys

_DOCS = pathlib.Path(__file__).resolve().parents[1] / 'docs'


def parts(source: str) -> list[tuple[bool, str]]:
  """Returns the parts of a script, each with whether it is text."""
  docstring = ast.get_docstring(ast.parse(source)) or ''
  title, _, introduction = docstring.partition('\n\n')
  code = source.split('"""', 2)[2]
  blocks = [(True, f'# {title.rstrip(".")}'), (True, introduction)]
  for paragraph in re.split(r'\n{2,}', code.strip('\n')):
    lines = paragraph.split('\n')
    if all(line.startswith('#') for line in lines):
      blocks.append((True, '\n'.join(line[2:] for line in lines)))
    else:
      blocks.append((False, paragraph))
  return [
    (is_text, '\n\n'.join(block for _, block in group))
    for is_text, group in itertools.groupby(blocks, key=lambda block: block[0])
  ]


def page(source: str) -> str:
  """Returns the page of a script."""
  text = (
    part if is_text else f'```python\n{part}\n```'
    for is_text, part in parts(source)
  )
  return '\n\n'.join(text) + '\n'


def notebook(source: str) -> str:
  """Returns the notebook of a script, in Jupyter's format 4.5."""
  cells = []
  for number, (is_text, part) in enumerate(parts(source)):
    cell = {
      'cell_type': 'markdown' if is_text else 'code',
      'id': f'part-{number}',
      'metadata': {},
      'source': part.splitlines(keepends=True),
    }
    if not is_text:
      cell.update(execution_count=None, outputs=[])
    cells.append(cell)
  python = {'display_name': 'Python 3', 'language': 'python', 'name': 'python3'}
  content = {
    'cells': cells,
    'metadata': {'kernelspec': python, 'language_info': {'name': 'python'}},
    'nbformat': 4,
    'nbformat_minor': 5,
  }
  return json.dumps(content, indent=1, ensure_ascii=False) + '\n'


def main() -> None:
  """Writes or checks the page and the notebook."""
  parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
  parser.add_argument('--check', action='store_true', help='write nothing')
  check = parser.parse_args().check
  source = (_DOCS / 'tutorial.py').read_text()
  for name, make in (('tutorial.md', page), ('tutorial.ipynb', notebook)):
    path, wanted = _DOCS / name, make(source)
    if not check:
      path.write_text(wanted)
    elif not path.exists() or path.read_text() != wanted:
      sys.exit(
        f'docs/{name} is not up to date; run python tools/tutorial_page.py.'
      )


if __name__ == '__main__':
  main()
