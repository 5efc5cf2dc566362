"""What conf.py cannot say: menus, pages of the API, docstrings, links."""

import pathlib
import re
import shutil

from docutils import nodes
from sphinx import addnodes

import f3ast_tff

_ROOT = pathlib.Path(__file__).parents[1]
_API = """
API reference
=============

The public names, which ``import f3ast_tff`` gives; below them all modules.

.. autosummary::
   :nosignatures:

   {names}

.. py:data:: f3ast_tff.__version__

By folder, all modules:

.. toctree::
   :maxdepth: 2

   {folders}
"""


def _menu(caption, pages):
  lines = ['', '```{toctree}', ':hidden:', ':glob:', f':caption: {caption}']
  return '\n'.join([*lines, '', *pages, '```', ''])


def _read(app, docname, source):
  """Gives pages their menus; the site's has the groups of docs/README.md."""
  app.env.note_dependency(__file__)
  source[0] = source[0].replace(' ± ', '\xa0±\xa0')  # One number, one line.
  if docname == 'README':
    app.env.note_dependency('docs/README.md')
    pages = ['docs/README', 'docs/api/index']
    menus = {'documentation': pages}
    for line in (_ROOT / 'docs' / 'README.md').read_text().splitlines():
      if group := re.match(r'\| (\w[^|]*) \|', line):
        pages = menus[group[1]] = []
      pages += [f'docs/{p}' for p in re.findall(r'\]\((\w\S*)\.md\)', line)]
    menus['project'] = ['*']
    source[0] += ''.join(_menu(*menu) for menu in menus.items() if menu[1])
  elif docname == 'docs/paper/README':
    files = r'`(report\.html|cells\.csv|claims\.md)`'
    source[0] = re.sub(files, r'[\1](\1)', source[0])
    source[0] += _menu('Tables', ['*'])
  elif docname.startswith('docs/paper/'):  # Tables of it have no heading.
    source[0] = re.sub(r'\A\*\*(.*)\*\*\n', r'# \1\n', source[0])


def _write_api(app):
  """Writes docs/api: the public names, then a page for each folder."""
  folders = {}
  for path in sorted((_ROOT / 'f3ast_tff').rglob('*.py')):
    parts = path.relative_to(_ROOT).with_suffix('').parts
    module = '.'.join(parts).removesuffix('.__init__')
    folders.setdefault('.'.join(parts[:-1][:2]), []).append(module)
  pages = {
    folder: f'{folder.replace(".", "/")}/\n{"=" * 40}\n'
    + ''.join(
      f'\n{module}\n{"-" * 60}\n\n.. automodule:: {module}\n'
      for module in modules
    )
    for folder, modules in folders.items()
  }
  names = (
    '.'.join(filter(None, ['~f3ast_tff', *place]))
    for place in f3ast_tff._PLACES.values()
  )
  pages['index'] = _API.format(
    names='\n   '.join(names), folders='\n   '.join(folders)
  )
  api = _ROOT / 'docs' / 'api'
  api.mkdir(exist_ok=True)
  for page in api.iterdir():
    if page.stem not in pages:
      page.unlink()
  for name, text in pages.items():
    page = api / f'{name}.rst'
    if not page.exists() or page.read_text() != text:
      page.write_text(text)


def _code(match):
  """Returns a piece of code; with a dot it may be a name of another module."""
  code, after = match.groups()
  role = ':py:obj:`.' if re.fullmatch(r'[a-z_]\w*(\.\w+)+', code) else '`'
  return f'{role}{code}`' + (after and rf'\ {after}')


def _docstring(app, what, name, thing, options, lines):
  """Makes reStructuredText: indented paragraphs are code, names are links."""
  paragraphs, code, section = [], False, False
  for text in '\n'.join(lines).split('\n\n'):
    section = section or bool(re.match(r'[A-Z][a-z]+:\n', text))
    if text.startswith('  ') and not section:
      paragraphs += [text] if code else ['::', text]
      code = True
      continue
    code = False
    text = re.sub(r'`([^`]+)`(\w?)', _code, text.replace('|', r'\|'))
    paragraphs.append(text)
  lines[:] = '\n\n'.join(paragraphs).split('\n')


def _signature(app, what, name, thing, options, signature, returned):
  """Shortens defaults that are no literals, and the names of TF and TFF."""

  def short(text):
    text = re.sub(r'<function (\w+)[^>]*>', r'\1', text or '')
    text = re.sub(r'<[^>]*>', '...', text)
    text = text.replace('tensorflow_federated.', 'tff.')
    return text.replace('tensorflow.', 'tf.') or None

  return short(signature), short(returned)


def _skip(app, what, name, thing, skip, options):
  """Skips the fields of named tuples: their class documents them."""
  return str(thing.__doc__).startswith('Alias for field') or None


def _link(app, doctree):
  """Has links to files open them, in the folder that they have on GitHub."""
  for node in list(doctree.findall(addnodes.download_reference)):
    path, _ = app.env.relfn2path(node['reftarget'])
    app.env.note_dependency(path)
    (app.outdir / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_ROOT / path, app.outdir / path)
    link = nodes.reference('', '', refuri=node['reftarget'], internal=True)
    link += node.children
    node.replace_self(link)


def _finish(app, error):
  (app.outdir / 'index.html').write_text(
    '<!DOCTYPE html><meta http-equiv="refresh" content="0; url=README.html">\n'
  )


def setup(app):
  """Is called by Sphinx."""
  app.connect('builder-inited', _write_api)
  app.connect('source-read', _read)
  app.connect('autodoc-process-docstring', _docstring, priority=400)
  app.connect('autodoc-process-signature', _signature)
  app.connect('autodoc-skip-member', _skip)
  app.connect('doctree-read', _link, priority=400)
  app.connect('build-finished', _finish)
  return {'parallel_read_safe': True}
