"""Tests of `vector_files`."""

import sys

import numpy as np
import pytest

from f3ast_tff import vector_files


@pytest.fixture(name='files')
def _files(tmp_path):
  return vector_files.VectorFiles(tmp_path / 'v', np.ones(3, np.float32))


def _write(files, client, round_num, references):
  row = np.full((1, 3), 10 * client + round_num, np.float32)
  return files.write(np.array([client]), row, round_num, references)


def _names(files):
  return sorted(path.name for path in files.folder.iterdir())


def test_references_name_what_they_named(files):
  none = vector_files.no_references(3)
  one = _write(files, 1, 4, none)
  two = _write(files, 1, 6, one)
  everybody = np.arange(3)
  np.testing.assert_array_equal(files.read(everybody, none), np.ones((3, 3)))
  np.testing.assert_array_equal(files.read(everybody, one)[:, 0], [1, 14, 1])
  np.testing.assert_array_equal(files.read(everybody, two)[:, 0], [1, 16, 1])


def test_what_no_state_needs_is_removed(files):
  references = vector_files.no_references(2)
  for round_num in (2, 10, 12):
    references = _write(files, 1, round_num, references)
  (files.folder / 'client_1_round_13.npy.tmp').touch()
  files.forget(11)
  files.cut_back(12)
  assert _names(files) == ['client_1_round_10.npy', 'client_1_round_12.npy']
  files.cut_back(10)
  assert _names(files) == ['client_1_round_10.npy']


@pytest.mark.parametrize('content', [None, b'', b'no array'])
def test_a_damaged_file_is_named(files, content):
  references = _write(files, 1, 4, vector_files.no_references(2))
  path = files.folder / 'client_1_round_4.npy'
  path.unlink() if content is None else path.write_bytes(content)
  with pytest.raises(vector_files.VectorFileError, match='client_1_round_4'):
    files.read(np.array([1]), references)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
