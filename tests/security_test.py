"""Tests that nothing from data or results is executed, or trusted as a path."""

import ast
import pathlib
import sys

import pytest
import tensorflow as tf

from experiments.paper import design
from experiments.paper import results
from f3ast_tff.datasets import cifar100
from f3ast_tff.datasets import shakespeare
from tests import fake_results
from tests import tff_file

_ROOT = pathlib.Path(__file__).parents[1]
_SOURCES = [
  path
  for folder in ('f3ast_tff', 'experiments', 'benchmarks', 'tools')
  for path in sorted((_ROOT / folder).rglob('*.py'))
]
# What can execute what it reads. CIFAR-100's official files are pickles, and so
# are FedScale's traces; restricted unpicklers read them, which `cifar100_test`
# and `convert_trace_test` attack.
_MODULES = {'pickle', 'marshal', 'shelve', 'dill', 'cloudpickle', 'yaml'}
_MAY_IMPORT = {('cifar100.py', 'pickle'), ('convert_trace.py', 'pickle')}
# The file that a user names with --add is a program of the user's own. Only the
# flag leads to it, which `added_test` checks.
_MAY_CALL = {('added.py', 'exec')}
_CALLS = {
  'eval',
  'exec',
  'os.system',
  'os.popen',
  'pd.read_pickle',
  'joblib.load',
  'tf.saved_model.load',
  'shutil.unpack_archive',
}


def _calls(tree):
  for node in ast.walk(tree):
    if isinstance(node, ast.Call):
      keywords = {k.arg: ast.unparse(k.value) for k in node.keywords}
      yield ast.unparse(node.func), keywords


def test_there_are_sources_to_look_at():
  assert {'checkpoint.py', 'runner.py', 'round_time.py'} <= {
    path.name for path in _SOURCES
  }


@pytest.mark.parametrize('path', _SOURCES, ids=lambda path: path.name)
def test_nothing_that_is_read_is_executed(path):
  tree = ast.parse(path.read_text())
  for name, keywords in _calls(tree):
    assert name not in _CALLS or (path.name, name) in _MAY_CALL, name
    assert 'extract' not in name, name  # Names in archives are paths.
    assert 'shell' not in keywords, name
    if name == 'np.load':
      assert keywords.get('allow_pickle') == 'False'
  for node in ast.walk(tree):
    names = []
    if isinstance(node, ast.Import):
      names = [alias.name.partition('.')[0] for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      names = [(node.module or '').partition('.')[0]]
    for name in _MODULES.intersection(names):
      assert (path.name, name) in _MAY_IMPORT


def test_only_the_flag_for_official_files_leads_to_a_pickle(
  tmp_path, monkeypatch
):
  def refuse(*_, **__):
    raise AssertionError('unpickles')

  monkeypatch.setattr(cifar100, '_Unpickler', refuse)
  folder = tmp_path / 'cifar-100-python'
  folder.mkdir()
  for name in ('train', 'test'):
    (folder / name).write_bytes(b'.')
  cifar100.load('sample', tmp_path)
  monkeypatch.setattr(cifar100.tff_cache, 'fetch', lambda *_: 1 / 0)
  with pytest.raises(ZeroDivisionError):  # The default asks for TFF's file.
    cifar100.load(data_dir=tmp_path)
  with pytest.raises(ValueError, match='unpickles'):
    cifar100.load('official', tmp_path)


def test_names_of_clients_are_no_paths(tmp_path):
  # The database that TFF offers, with clients that a stranger named.
  path = tmp_path / 'deep' / 'down' / 'shakespeare.sqlite'
  path.parent.mkdir(parents=True)
  example = tf.train.Example()
  example.features.feature['snippets'].bytes_list.value.append(b'to be')
  names = ('../../escaped', str(tmp_path / 'absolute'), 'a\0b', '$(touch x)')
  content = example.SerializeToString()
  tff_file.write(path, [('train', name, content) for name in names])
  assert shakespeare._read_sqlite(path, 'train') == [[b'to be']] * len(names)
  assert [p for p in tmp_path.rglob('*') if p.is_file()] == [path]


def test_a_result_file_cannot_name_another_place(tmp_path):
  key = design.Key('paper', 'synthetic', 'always', 'f3ast', '', 1)
  results.write(tmp_path, fake_results.result(key))
  path = results.path_of(tmp_path, key)
  path.write_text(path.read_text().replace('"paper"', '"../paper"', 1))
  with pytest.raises(results.ResultError, match='not the result that its name'):
    results.read(path)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
