"""Writes docs/tutorial.md from docs/tutorial.py, which is the one source.

  python tools/tutorial_page.py            writes the page
  python tools/tutorial_page.py --check    exit code 1 if it is not up to date

The docstring of the script and its comments that stand alone, with an empty
line after them, are the text; all else is code.
"""

import argparse
import ast
import itertools
import pathlib
import re
import sys

_DOCS = pathlib.Path(__file__).resolve().parents[1] / 'docs'


def page(source: str) -> str:
  """Returns the page of a script."""
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
  text = []
  for is_text, group in itertools.groupby(blocks, key=lambda block: block[0]):
    joined = '\n\n'.join(block for _, block in group)
    text.append(joined if is_text else f'```python\n{joined}\n```')
  return '\n\n'.join(text) + '\n'


def main() -> None:
  """Writes or checks the page."""
  parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
  parser.add_argument('--check', action='store_true', help='write nothing')
  check = parser.parse_args().check
  wanted = page((_DOCS / 'tutorial.py').read_text())
  path = _DOCS / 'tutorial.md'
  if not check:
    path.write_text(wanted)
  elif not path.exists() or path.read_text() != wanted:
    sys.exit(
      'docs/tutorial.md is not up to date; run python tools/tutorial_page.py.'
    )


if __name__ == '__main__':
  main()
