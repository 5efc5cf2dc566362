"""Tests of the Shakespeare data set, against TFF's own preprocessing."""

import os
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.simulation.baselines.shakespeare import (
  char_prediction_preprocessing,
)

from f3ast_tff.datasets import shakespeare
from f3ast_tff.datasets import tff_cache
from tests import tff_file

_DATA_DIR = os.environ.get('F3AST_DATA_DIR')
_needs_data = pytest.mark.skipif(
  not _DATA_DIR,
  reason='needs the environment variable F3AST_DATA_DIR to name a folder with '
  'shakespeare.sqlite',
)


def _by_tff(snippets, max_elements=None):
  """What TFF's own preprocessing makes of a client's snippets."""
  preprocess = char_prediction_preprocessing.create_preprocess_fn(
    tff.simulation.baselines.ClientSpec(
      num_epochs=1,
      batch_size=10_000,
      max_elements=max_elements,
      shuffle_buffer_size=1,
    )
  )
  if not isinstance(snippets, tf.data.Dataset):
    snippets = tf.data.Dataset.from_tensor_slices({'snippets': list(snippets)})
  ((x, y),) = preprocess(snippets).as_numpy_iterator()
  return x, y


def _write_sqlite(path, examples, change=''):
  """Writes TFF's format from (split, client, snippet)."""

  def proto(snippet):
    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[snippet]))
    features = tf.train.Features(feature={'snippets': feature})
    return tf.train.Example(features=features).SerializeToString()

  rows = [(split, client, proto(text)) for split, client, text in examples]
  tff_file.write(path, rows, change)


def test_vocabulary_is_that_of_tff():
  vocabulary = char_prediction_preprocessing.CHAR_VOCAB
  assert list(shakespeare.VOCABULARY) == vocabulary
  assert char_prediction_preprocessing.get_special_tokens() == (
    shakespeare.PAD,
    shakespeare.OUT_OF_VOCABULARY,
    shakespeare.BEGIN,
    shakespeare.END,
  )
  assert len(shakespeare.VOCABULARY) == 86
  assert shakespeare.NUM_TOKENS == 90


def test_sequences_by_hand():
  rows, rows_of_snippet = shakespeare.to_sequences([b'dh\xff', b'd' * 80])
  np.testing.assert_array_equal(rows_of_snippet, [1, 2])
  assert rows.dtype == np.uint8
  np.testing.assert_array_equal(rows[0], [88, 1, 2, 87, 89] + [0] * 76)
  np.testing.assert_array_equal(rows[1], [88] + [1] * 80)
  np.testing.assert_array_equal(rows[2], [89] + [0] * 80)


def test_sequences_equal_those_of_tff():
  rng = np.random.default_rng(0)
  # Lengths around those at which begin and end fill a sequence; all bytes.
  lengths = [0, 1, 78, 79, 80, 81, 159, 160, 161, 162, 400]
  snippets = [rng.bytes(length) for length in lengths]
  rows, rows_of_snippet = shakespeare.to_sequences(snippets)
  x, y = _by_tff(snippets)
  np.testing.assert_array_equal(rows[:, :-1], x)
  np.testing.assert_array_equal(rows[:, 1:], y)
  assert rows_of_snippet.sum() == len(x)


def test_no_snippets_make_no_sequences():
  rows, rows_of_snippet = shakespeare.to_sequences([])
  assert rows.shape == (0, 81)
  assert rows_of_snippet.shape == (0,)


def test_reads_a_file_of_tff(tmp_path, monkeypatch):
  examples = [
    ('train', 'b', b'first'),
    ('test', 'b', b'of b'),
    ('train', 'a', b'x' * 100),
    ('train', 'b', b'second'),
    ('test', 'a', b'y' * 100),
    ('train', 'b', b'third'),
  ]
  _write_sqlite(tmp_path / 'shakespeare.sqlite', examples)
  monkeypatch.setattr(shakespeare, 'EXPECTED', tff_cache.Expected(2, 4, 2, 2))
  dataset = shakespeare.load(data_dir=tmp_path, max_snippets=2)
  assert dataset.name == 'Shakespeare'
  assert not dataset.is_sample
  np.testing.assert_array_equal(dataset.num_examples, [2, 2])
  np.testing.assert_array_equal(dataset.test_owner, [0, 0, 1])
  x, y = _by_tff([b'first', b'second'])
  np.testing.assert_array_equal(dataset.train[1]['x'], x)
  np.testing.assert_array_equal(dataset.train[1]['y'], y)
  x, y = _by_tff([b'y' * 100, b'of b'])
  np.testing.assert_array_equal(dataset.test['x'], x)
  np.testing.assert_array_equal(dataset.test['y'], y)
  everything = shakespeare.load(data_dir=tmp_path, max_snippets=None)
  np.testing.assert_allclose(everything.p, [2 / 5, 3 / 5])


@pytest.mark.parametrize('content', [b'text', b'\xff\xff'])
def test_refuses_what_is_not_a_snippet(tmp_path, monkeypatch, content):
  _write_sqlite(
    tmp_path / 'shakespeare.sqlite',
    [('train', 'a', b'one'), ('test', 'a', b'two')],
    f"UPDATE examples SET serialized_example_proto = x'{content.hex()}'",
  )
  monkeypatch.setattr(shakespeare, 'EXPECTED', tff_cache.Expected(1, 1, 1, 1))
  with pytest.raises(ValueError, match='not a snippet of text; delete it'):
    shakespeare.load(data_dir=tmp_path)


def test_sample_says_that_it_is_one():
  dataset = shakespeare.load('sample')
  assert dataset.is_sample
  assert 'SAMPLE' in dataset.name
  assert len(dataset.train) == 12
  assert set(dataset.test_owner) == set(range(12))
  for examples in (*dataset.train, dataset.test):
    assert examples['x'].dtype == examples['y'].dtype == np.uint8
    assert examples['x'].shape == examples['y'].shape
    assert examples['x'].shape[1] == 80
    np.testing.assert_array_equal(examples['x'][:, 1:], examples['y'][:, :-1])
    assert examples['x'].max() < shakespeare.NUM_TOKENS
    assert not (examples['x'] == shakespeare.OUT_OF_VOCABULARY).any()
  assert abs(dataset.p.sum() - 1) < 1e-12
  assert len(dataset.test_owner) == len(dataset.test['y'])


def test_seed_decides_the_sample():
  first, again, other = (shakespeare.load('sample', seed=s) for s in (1, 1, 2))
  np.testing.assert_array_equal(first.test['x'], again.test['x'])
  assert not np.array_equal(first.train[0]['x'], other.train[0]['x'])


def test_unknown_source():
  with pytest.raises(ValueError, match="one of tff, sample, but it is 'leaf'"):
    shakespeare.load('leaf')


def test_no_snippets():
  with pytest.raises(ValueError, match='at least 1, or None for all'):
    shakespeare.load('sample', max_snippets=0)


@_needs_data
def test_real_data_has_all_clients_and_sequences():
  dataset = shakespeare.load(data_dir=_DATA_DIR)
  everything = shakespeare.load(data_dir=_DATA_DIR, max_snippets=None)
  assert len(dataset.train) == len(everything.train) == 715
  np.testing.assert_array_equal(np.unique(dataset.test_owner), np.arange(715))
  assert dataset.num_examples.sum() == 35_102
  assert everything.num_examples.sum() == 37_784
  assert dataset.num_examples.min() >= 1
  assert len(dataset.test['y']) == len(dataset.test_owner) == 5_490
  x = np.concatenate([examples['x'] for examples in everything.train])
  assert np.count_nonzero(x == shakespeare.BEGIN) == 16_068
  test_begins = dataset.test['x'] == shakespeare.BEGIN
  assert np.count_nonzero(test_begins) == 2_356
  # By which the report turns a mean over characters into one over positions.
  assert np.count_nonzero(dataset.test['y']) == 338_974
  # Roles whose test text is empty: what is left to predict is its end.
  predictions = np.bincount(
    dataset.test_owner, np.count_nonzero(dataset.test['y'], axis=1)
  )
  assert np.count_nonzero(predictions == 1) == 26


@_needs_data
def test_real_data_equals_that_of_tff():
  path = tff_cache.fetch('shakespeare', _DATA_DIR, shakespeare.EXPECTED)
  dataset = shakespeare.load(data_dir=_DATA_DIR)
  train, test = tff.simulation.datasets.shakespeare.load_data(
    cache_dir=str(path.parent)
  )
  largest = np.argsort(dataset.num_examples)[-3:]
  for k in (0, 100, 357, 714, *largest):
    client = train.client_ids[k]
    x, y = _by_tff(train.create_tf_dataset_for_client(client), 128)
    np.testing.assert_array_equal(dataset.train[k]['x'], x)
    np.testing.assert_array_equal(dataset.train[k]['y'], y)
    x, y = _by_tff(test.create_tf_dataset_for_client(test.client_ids[k]))
    is_own = dataset.test_owner == k
    np.testing.assert_array_equal(dataset.test['x'][is_own], x)
    np.testing.assert_array_equal(dataset.test['y'][is_own], y)
  assert train.client_ids == test.client_ids


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
