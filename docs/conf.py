"""Sphinx makes one site of the pages and the docstrings: `make docs`.

The source folder is the project's, so that links go where they go on GitHub.
"""

import pathlib
import sys

_DOCS = pathlib.Path(__file__).parent
sys.path[:0] = [str(_DOCS.parent), str(_DOCS)]

project = 'f3ast_tff'
root_doc = 'README'
include_patterns = ['*.md', 'docs/**']
exclude_patterns = ['.*', 'bazel-*', 'build', 'results', 'runs']
extensions = [
  'myst_parser',
  'sphinx.ext.autodoc',
  'sphinx.ext.autosummary',
  'sphinx.ext.napoleon',
  'site_pages',
]
myst_heading_anchors = 4

html_theme = 'furo'
html_title = project
html_static_path = ['_static']
html_css_files = ['site.css']
html_copy_source = False
html_show_search_summary = False  # Browsers read it from web servers only.

default_role = 'py:obj'
highlight_language = 'text'
maximum_signature_line_length = 80
napoleon_use_ivar = True
autodoc_default_options = {'members': True, 'ignore-module-all': True}
autodoc_member_order = 'bysource'
autodoc_preserve_defaults = True
autodoc_mock_imports = (  # So that none of them need be installed.
  'absl grpc matplotlib pandas portpicker psutil ray scipy tensorflow '
  'tensorflow_federated tqdm tree'
).split()
