"""Writes docs/modules: a page per module of the package, from its docstrings.

  python tools/api_docs.py            writes the pages
  python tools/api_docs.py --check    exit code 1 if they are not up to date

It reads the sources with `ast` and imports none of them, so that it needs
neither TensorFlow nor anything else.
"""

import argparse
import ast
from collections.abc import Iterator
import pathlib
import re
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = 'f3ast_tff'
SECTIONS = 'Args|Attributes|Raises|Returns|Yields'
INDEX = """# Modules

Made from the docstrings by `python tools/api_docs.py`.

| module | in one line |
|---|---|
"""
_DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


def _escape(text: str) -> str:
  """Keeps stars outside of code from being taken for emphasis."""
  parts = re.split(r'(`[^`]*`)', text)
  return ''.join(p if p[:1] == '`' else p.replace('*', r'\*') for p in parts)


def _prose(text: str) -> str:
  """Returns paragraphs; those that are indented are shown as they stand."""
  blocks = []
  for block in re.split(r'\n\s*\n', text.strip('\n')):
    if block.startswith('  '):
      lines = [line[2:] for line in block.split('\n')]
      blocks.append('\n'.join(['```text', *lines, '```']))
    elif block:
      # A formula may follow its sentence without an empty line between.
      blocks.append(_escape(re.sub(r'\n {2,}', '\n', block)))
  return '\n\n'.join(blocks)


def _items(text: str) -> str:
  """Returns the entries of a section, `  name: text`, as a list."""
  flat = re.sub(r'\n {4,}', ' ', text.strip('\n'))  # One line for each.
  return _escape(re.sub(r'^  ([*\w]+):', r'- `\1`:', flat, flags=re.MULTILINE))


def markdown(docstring: str) -> str:
  """Returns a docstring in Google's style as Markdown."""
  parts = re.split(rf'^({SECTIONS}):\n', docstring, flags=re.MULTILINE)
  blocks = [_prose(parts[0])]
  for name, text in zip(parts[1::2], parts[2::2]):
    if name in ('Returns', 'Yields'):
      blocks.append(f'**{name}** {_escape(" ".join(text.split()))}')
    else:
      blocks.append(f'**{name}**\n\n{_items(text)}')
  return '\n\n'.join(blocks)


def _signature(node: ast.FunctionDef) -> str:
  """Returns `name(arguments) -> result`, on several lines if it is long."""
  result = f' -> {ast.unparse(node.returns)}' if node.returns else ''
  line = f'{node.name}({ast.unparse(node.args)}){result}'
  if len(line) <= 80:
    return line
  given = node.args
  each = [ast.unparse(a) for a in given.args]
  for place, value in enumerate(reversed(given.defaults), 1):
    each[-place] += f' = {ast.unparse(value)}'
  if given.vararg or given.kwonlyargs:
    each.append('*' + (ast.unparse(given.vararg) if given.vararg else ''))
  for argument, default in zip(given.kwonlyargs, given.kw_defaults):
    value = f' = {ast.unparse(default)}' if default else ''
    each.append(ast.unparse(argument) + value)
  return f'{node.name}(\n' + ''.join(f'  {a},\n' for a in each) + f'){result}'


def _is_public(node: Any) -> bool:
  if not isinstance(node, _DEFINITIONS):
    return False
  return not node.name.startswith('_') or node.name == '__call__'


def _class(node: ast.ClassDef) -> Iterator[str]:
  bases = ', '.join(ast.unparse(base) for base in node.bases)
  lines = [f'@{ast.unparse(d)}' for d in node.decorator_list]
  lines.append(f'class {node.name}' + (f'({bases})' if bases else ''))
  for field in node.body:
    if isinstance(field, ast.AnnAssign):
      kind = ast.unparse(field.annotation)
      lines.append(f'  {ast.unparse(field.target)}: {kind}')
  yield '\n'.join(['```python', *lines, '```'])
  yield markdown(ast.get_docstring(node) or '')
  for method in filter(_is_public, node.body):
    decorators = [ast.unparse(d) for d in method.decorator_list]
    if not any(d.endswith('.setter') for d in decorators):
      yield f'#### `{node.name}.{method.name}`'
      if 'property' not in decorators:
        yield f'```python\n{_signature(method)}\n```'
      yield markdown(ast.get_docstring(method) or '')


def page(module: str, source: str) -> str:
  """Returns the page of a module."""
  tree = ast.parse(source)
  path = module.replace('.', '/') + '.py'
  blocks = [f'# {module}', markdown(ast.get_docstring(tree) or '')]
  blocks.append(f'Source: [{path}](../../{path}) · [all modules](README.md)')
  for node in filter(_is_public, tree.body):
    blocks.append(f'## `{node.name}`')
    if isinstance(node, ast.ClassDef):
      blocks.extend(_class(node))
    else:
      blocks.append(f'```python\n{_signature(node)}\n```')
      blocks.append(markdown(ast.get_docstring(node) or ''))
  return '\n\n'.join(block for block in blocks if block) + '\n'


def pages(root: pathlib.Path = ROOT) -> dict[str, str]:
  """Returns the text of every page by its name, the index included."""
  made, index = {}, INDEX
  for path in sorted((root / PACKAGE).rglob('*.py')):
    if path.name != '__init__.py':
      module = '.'.join(path.relative_to(root).with_suffix('').parts)
      name = module[len(PACKAGE) + 1 :] + '.md'
      made[name] = page(module, path.read_text())
      first = made[name].split('\n')[2]
      index += f'| [`{module}`]({name}) | {first} |\n'
  return {**made, 'README.md': index}


def main() -> None:
  """Writes or checks the pages."""
  parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
  parser.add_argument('--check', action='store_true', help='write nothing')
  check = parser.parse_args().check
  folder = ROOT / 'docs' / 'modules'
  folder.mkdir(exist_ok=True)
  wanted = pages()
  found = {path.name: path.read_text() for path in folder.glob('*.md')}
  different = sorted({n for n, _ in wanted.items() ^ found.items()})
  if check and different:
    sys.exit(
      f'docs/modules is not up to date ({", ".join(different)}); run python '
      'tools/api_docs.py.'
    )
  for name in different:
    (folder / name).unlink(missing_ok=True)
    if name in wanted:
      (folder / name).write_text(wanted[name])
  print(f'{len(wanted)} pages in docs/modules, {len(different)} changed.')


if __name__ == '__main__':
  main()
