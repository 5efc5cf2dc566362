"""Tests of the CIFAR-100 data set.

Most use small files in the formats of the real ones. Those of the real data run
if F3AST_DATA_DIR names a folder with cifar100.sqlite (and cifar-100-python).
"""

import collections
import logging
import os
import pathlib
import pickle
import struct
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import randomness
from f3ast_tff.datasets import cifar100
from f3ast_tff.datasets import tff_cache
from tests import tff_file

SMALL = tff_cache.Expected(
  train_clients=12, train_examples=60, test_clients=3, test_examples=15
)
SPLITS = (('train', 12), ('test', 3))
PER_CLIENT = 5


@pytest.fixture(name='small')
def _small(monkeypatch):
  """Lets a complete data set have 12 and 3 clients with 5 images each."""
  monkeypatch.setattr(cifar100, 'EXPECTED', SMALL)


def _images(num_images, seed=0):
  rng = np.random.default_rng(seed)
  return rng.integers(0, 256, (num_images, 32, 32, 3)).astype(np.uint8)


def _labels(num_images):
  """Fine and coarse labels: ten classes in five pairs."""
  fine = np.arange(num_images) % 10
  return fine, fine // 2


# Augmentation.


def test_augmented_images_are_windows_of_the_originals():
  x = _images(200)
  examples = {'x': x, 'y': np.arange(200, dtype=np.int32)}
  augmented = cifar100.augment(examples, np.random.default_rng(1))
  assert list(augmented) == ['x', 'y']
  assert augmented['x'].shape == (200, 24, 24, 3)
  assert augmented['x'].dtype == np.uint8
  np.testing.assert_array_equal(augmented['y'], examples['y'])
  seen = set()
  for image, original in zip(augmented['x'], x):
    matches = [
      (top, left, flipped)
      for top in range(9)
      for left in range(9)
      for flipped in (False, True)
      if np.array_equal(
        image[:, ::-1] if flipped else image,
        original[top : top + 24, left : left + 24],
      )
    ]
    assert len(matches) == 1
    seen.update(matches)
  for axis, values in enumerate((range(9), range(9), (False, True))):
    assert {match[axis] for match in seen} == set(values)


def test_augmentation_is_a_pure_function_of_the_generator():
  examples = {'x': _images(10), 'y': np.zeros(10, np.int32)}
  before = examples['x'].copy()

  def augmented(round_num):
    rng = randomness.generator(7, 'augmentation', round_num, client=3)
    return cifar100.augment(examples, rng)['x']

  np.testing.assert_array_equal(augmented(1), augmented(1))
  assert (augmented(1) != augmented(2)).any()
  np.testing.assert_array_equal(examples['x'], before)


def test_a_client_without_examples_can_be_augmented():
  examples = {'x': _images(0), 'y': np.zeros(0, np.int32)}
  augmented = cifar100.augment(examples, np.random.default_rng(0))
  assert augmented['x'].shape == (0, 24, 24, 3)


def test_the_central_crop_is_that_of_tensorflow():
  x = _images(3)
  np.testing.assert_array_equal(
    cifar100.central_crop(x), tf.image.resize_with_crop_or_pad(x, 24, 24)
  )


# Source 'tff'.


def _write_sqlite(path, seed=0, image_size=32):
  """Writes a file as TFF's, with examples of the clients interleaved."""

  def proto(i, image):
    proto = tf.train.Example()
    for name, values in (
      ('image', image.reshape(-1)), ('label', [i]), ('coarse_label', [i % 20])
    ):
      proto.features.feature[name].int64_list.value.extend(values)
    return proto.SerializeToString()

  tff_file.write(
    path,
    [
      (split, str(i % num_clients), proto(i, image[:image_size]))
      for split, num_clients in SPLITS
      for i, image in enumerate(_images(num_clients * PER_CLIENT, seed))
    ],
  )


def _load_tff(folder, seed=0):
  return cifar100.load('tff', folder, seed, cache_dir=folder / 'cache')


def _check_equals_tff(dataset, data_dir, every=1):
  """Compares a data set with TFF's own client data."""
  train, test = tff.simulation.datasets.cifar100.load_data(str(data_dir))
  assert len(dataset.train) == len(train.client_ids)
  for k, client_id in list(enumerate(train.client_ids))[::every]:
    elements = list(
      train.create_tf_dataset_for_client(client_id).as_numpy_iterator()
    )
    for field, name in (('x', 'image'), ('y', 'label')):
      np.testing.assert_array_equal(
        dataset.train[k][field], [element[name] for element in elements]
      )
  for k, client_id in list(enumerate(test.client_ids))[::every]:
    elements = list(
      test.create_tf_dataset_for_client(client_id).as_numpy_iterator()
    )
    mine = dataset.test_owner == k
    np.testing.assert_array_equal(
      dataset.test['x'][mine],
      [e['image'][4:28, 4:28] for e in elements],
    )
    np.testing.assert_array_equal(
      dataset.test['y'][mine], [e['label'] for e in elements]
    )


def test_tff_clients_are_those_of_tff_in_its_order(small, tmp_path):
  # With 12 clients the order of texts, 0 1 10 11 2, is not that of numbers.
  _write_sqlite(tmp_path / 'cifar100.sqlite')
  dataset = _load_tff(tmp_path)
  _check_equals_tff(dataset, tmp_path)
  assert dataset.name == 'CIFAR-100'
  assert not dataset.is_sample
  assert dataset.train[0]['x'].dtype == np.uint8
  assert dataset.train[0]['y'].dtype == np.int32
  assert dataset.test['x'].dtype == np.uint8
  np.testing.assert_array_equal(dataset.num_examples, [PER_CLIENT] * 12)
  np.testing.assert_array_equal(np.bincount(dataset.test_owner), [5, 5, 5])


def test_an_example_that_is_no_image_is_named(small, tmp_path):
  _write_sqlite(tmp_path / 'cifar100.sqlite', image_size=31)
  with pytest.raises(tff_cache.DataError, match='not a CIFAR-100 image; del'):
    _load_tff(tmp_path)
  assert not list((tmp_path / 'cache').glob('*'))


# The cache.


def _equal(one, other):
  for a, b in zip(one.train, other.train):
    np.testing.assert_array_equal(a['x'], b['x'])
    np.testing.assert_array_equal(a['y'], b['y'])
  np.testing.assert_array_equal(one.test['x'], other.test['x'])
  np.testing.assert_array_equal(one.test_owner, other.test_owner)
  return len(one.train) == len(other.train)


@pytest.fixture(name='count_reads')
def _count_reads(monkeypatch):
  """The paths of the files that have been decoded so far."""
  reads = []
  read = cifar100._read_sqlite

  def counting(path):
    reads.append(path)
    return read(path)

  monkeypatch.setattr(cifar100, '_read_sqlite', counting)
  return reads


def test_images_are_decoded_once(small, tmp_path, count_reads):
  _write_sqlite(tmp_path / 'cifar100.sqlite')
  loaded = [_load_tff(tmp_path, seed) for seed in (0, 0, 5)]
  assert len(count_reads) == 1
  assert _equal(loaded[0], loaded[1])
  assert _equal(loaded[0], loaded[2])  # TFF's clients depend on no seed.
  (cache,) = (tmp_path / 'cache').iterdir()
  with np.load(cache, allow_pickle=False) as arrays:
    assert all(arrays[name].dtype != object for name in arrays.files)


def _flip_a_pixel(content):
  middle = len(content) // 2
  return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
  'damage',
  [
    lambda content: content[:-1000],
    lambda content: b'',
    lambda content: pickle.dumps(np.array([print], object)),
    _flip_a_pixel,
  ],
  ids=['truncated', 'empty', 'pickle', 'one bit'],
)
def test_a_damaged_cache_is_made_anew(damage, small, tmp_path, count_reads):
  _write_sqlite(tmp_path / 'cifar100.sqlite')
  first = _load_tff(tmp_path)
  (cache,) = (tmp_path / 'cache').iterdir()
  cache.write_bytes(damage(cache.read_bytes()))
  assert _equal(first, _load_tff(tmp_path))
  _load_tff(tmp_path)
  assert len(count_reads) == 2


def test_a_changed_source_is_decoded_anew(small, tmp_path, count_reads):
  path = tmp_path / 'cifar100.sqlite'
  _write_sqlite(path)
  _load_tff(tmp_path)
  path.unlink()
  _write_sqlite(path, seed=1)
  dataset = _load_tff(tmp_path)
  assert len(count_reads) == 2
  _check_equals_tff(dataset, tmp_path)
  assert len(list((tmp_path / 'cache').iterdir())) == 1


def test_a_cache_that_cannot_be_written_is_a_warning(small, tmp_path, caplog):
  _write_sqlite(tmp_path / 'cifar100.sqlite')
  (tmp_path / 'file').touch()
  with caplog.at_level(logging.WARNING):
    dataset = cifar100.load('tff', tmp_path, cache_dir=tmp_path / 'file')
  _check_equals_tff(dataset, tmp_path)
  (record,) = caplog.records
  assert f'cannot be kept in {tmp_path / "file"}' in record.getMessage()


@pytest.mark.parametrize('variable', ['HOME', 'XDG_CACHE_HOME'])
def test_the_default_cache_is_in_the_users_folder(
  variable, small, tmp_path, monkeypatch
):
  monkeypatch.delenv('XDG_CACHE_HOME', raising=False)
  monkeypatch.setenv(variable, str(tmp_path / 'user'))
  _write_sqlite(tmp_path / 'cifar100.sqlite')
  cifar100.load('tff', tmp_path)
  folder = {'HOME': '.cache/f3ast_tff', 'XDG_CACHE_HOME': 'f3ast_tff'}[variable]
  (cache,) = (tmp_path / 'user' / folder).iterdir()
  assert cache.name.startswith('cifar100-tff-')


# Source 'official'.


def _planes(images):
  return images.transpose(0, 3, 1, 2).reshape(len(images), 3072)


def _python2_pickle(fields):
  """Pickles as Python 2 did, with which the official files were made."""

  def text(value):
    return b'U' + bytes([len(value)]) + value

  def number(value):
    return b'J' + struct.pack('<i', value)

  body = b''
  for name, value in fields.items():
    body += text(name)
    if isinstance(value, list):
      body += b'](' + b''.join(map(number, value)) + b'e'
      continue
    content = value.tobytes()
    body += b'cnumpy.core.multiarray\n_reconstruct\n'
    body += b'cnumpy\nndarray\n' + number(0) + b'\x85' + text(b'b') + b'\x87R'
    body += b'(' + number(1)
    body += number(value.shape[0]) + number(value.shape[1]) + b'\x86'
    body += b'cnumpy\ndtype\n' + text(b'u1') + number(0) + number(1) + b'\x87R'
    body += b'(' + number(3) + text(b'|') + b'NNN' + number(-1) * 2
    body += number(0) + b'tb\x89'
    body += b'T' + struct.pack('<i', len(content)) + content + b'tb'
  return b'\x80\x02}(' + body + b'u.'


def _write_official(data_dir, pickled=_python2_pickle):
  folder = data_dir / 'cifar-100-python'
  folder.mkdir(parents=True)
  for split, num_clients in SPLITS:
    images = _images(num_clients * PER_CLIENT)
    fine, coarse = _labels(len(images))
    fields = {
      b'data': _planes(images),
      b'fine_labels': fine.tolist(),
      b'coarse_labels': coarse.tolist(),
    }
    (folder / split).write_bytes(pickled(fields))
  return folder


def _check_partition(dataset):
  """Every image of the small data set is there once, with its label."""
  images = _images(60)
  rows = {image.tobytes(): i for i, image in enumerate(images)}
  found = [
    (rows[x.tobytes()], y)
    for examples in dataset.train
    for x, y in zip(examples['x'], examples['y'])
  ]
  assert sorted(row for row, _ in found) == list(range(60))
  assert all(y == row % 10 for row, y in found)
  np.testing.assert_array_equal(dataset.num_examples, [PER_CLIENT] * 12)
  crops = {x[4:28, 4:28].tobytes(): i for i, x in enumerate(_images(15))}
  found = [(crops[x.tobytes()], y) for x, y in zip(*dataset.test.values())]
  assert sorted(row for row, _ in found) == list(range(15))
  assert all(y == row % 10 for row, y in found)
  np.testing.assert_array_equal(np.bincount(dataset.test_owner), [5, 5, 5])


@pytest.mark.parametrize('pickled', [_python2_pickle, pickle.dumps])
def test_official_images_are_all_there_once(pickled, small, tmp_path):
  folder = _write_official(tmp_path, pickled)
  with open(folder / 'train', 'rb') as file:  # The test's own pickle is right.
    fields = pickle.load(file, encoding='bytes')
  np.testing.assert_array_equal(fields[b'data'], _planes(_images(60)))
  dataset = cifar100.load('official', tmp_path)
  _check_partition(dataset)
  assert not dataset.is_sample


def test_the_seed_decides_the_clients_of_official(small, tmp_path):
  _write_official(tmp_path)

  def first_images(seed):
    dataset = cifar100.load('official', tmp_path, seed)
    return np.stack([examples['x'][0] for examples in dataset.train])

  np.testing.assert_array_equal(first_images(1), first_images(1))
  assert (first_images(1) != first_images(2)).any()


class _Runs:
  """A pickle of this calls a function when it is read."""

  def __init__(self, function, *args):
    self._call = (function, args)

  def __reduce__(self):
    return self._call


@pytest.mark.parametrize(
  ('function', 'named'),
  [
    (os.mkdir, 'posix.mkdir'),
    (eval, 'builtins.eval'),
    (np.load, 'numpy.load'),
    (collections.OrderedDict, 'collections.OrderedDict'),
  ],
)
def test_a_malicious_pickle_is_refused(function, named, small, tmp_path):
  folder = _write_official(tmp_path)
  victim = tmp_path / 'victim'
  argument = str(victim)
  if function is eval:
    argument = f'__import__("os").mkdir({argument!r})'
  content = pickle.dumps({b'data': _Runs(function, argument)})
  (folder / 'train').write_bytes(content)
  with pytest.raises(tff_cache.DataError, match=f'asks to run {named}'):
    cifar100.load('official', tmp_path)
  assert not victim.exists()
  if function is os.mkdir:  # It would have run with an ordinary unpickler.
    pickle.loads(content)
    assert victim.exists()


def test_numpy_itself_is_out_of_reach_of_a_pickle(small, tmp_path):
  # Were NumPy's own array made by the file, this would fill the memory.
  folder = _write_official(tmp_path)
  content = b'cnumpy\nndarray\n(J\xff\xff\xff\x7fJ\xff\xff\xff\x7ft\x85R.'
  (folder / 'train').write_bytes(content)
  with pytest.raises(tff_cache.DataError, match='not the file of the official'):
    cifar100.load('official', tmp_path)


@pytest.mark.parametrize(
  'fields',
  [
    {b'data': np.zeros((60, 3072))},
    {b'data': np.zeros((59, 3072), np.uint8)},
    {b'fine_labels': [1, 2, 3]},
    {b'coarse_labels': ['text'] * 60},
  ],
  ids=['floats', 'too few', 'few labels', 'texts'],
)
def test_other_content_is_named(fields, small, tmp_path):
  def changed(original):
    return pickle.dumps({**original, **fields})

  _write_official(tmp_path, changed)
  with pytest.raises(tff_cache.DataError, match='not the file of the official'):
    cifar100.load('official', tmp_path)


def test_a_truncated_official_file_is_named(small, tmp_path):
  path = _write_official(tmp_path) / 'train'
  os.truncate(path, path.stat().st_size // 2)
  with pytest.raises(
    tff_cache.DataError, match=f'^{path} is not the file .* again.$'
  ):
    cifar100.load('official', tmp_path)


def test_a_missing_official_folder_is_named(tmp_path):
  with pytest.raises(
    tff_cache.DataError, match=r'No such file .*cifar-100-python.*--data_dir'
  ):
    cifar100.load('official', tmp_path)


# Source 'tfds'.


def test_tfds_images_are_all_there_once(small, tmp_path, monkeypatch, capfd):
  # The builder of tensorflow-datasets runs for real, on a small archive.
  tfds = pytest.importorskip('tensorflow_datasets')
  folder = tmp_path / 'archive' / 'cifar-100-binary'
  folder.mkdir(parents=True)
  for split, num_clients in SPLITS:
    images = _images(num_clients * PER_CLIENT)
    fine, coarse = _labels(len(images))
    records = np.column_stack([coarse, fine, _planes(images)])
    (folder / f'{split}.bin').write_bytes(records.astype(np.uint8).tobytes())
  for kind, number in (('coarse', 20), ('fine', 100)):
    names = '\n'.join(f'{kind} {i}' for i in range(number))
    (folder / f'{kind}_label_names.txt').write_text(names)
  monkeypatch.setattr(
    tfds.download.DownloadManager,
    'download_and_extract',
    lambda self, url: str(folder.parent),
  )
  arguments = dict(data_dir=tmp_path / 'tfds', cache_dir=tmp_path / 'cache')
  first = cifar100.load('tfds', **arguments)
  _check_partition(first)
  assert not first.is_sample

  def fail(*args):
    raise AssertionError('decoded twice')

  monkeypatch.setattr(cifar100, '_read_tfds', fail)
  assert _equal(first, cifar100.load('tfds', **arguments))
  other = cifar100.load('tfds', seed=1, **arguments)
  _check_partition(other)
  assert (other.train[0]['x'] != first.train[0]['x']).any()


def test_without_network_tfds_names_the_ways_out(tmp_path, monkeypatch):
  tfds = pytest.importorskip('tensorflow_datasets')

  def download(self, url):
    raise ConnectionError('Failed to resolve host\nand a long story')

  monkeypatch.setattr(
    tfds.download.DownloadManager, 'download_and_extract', download
  )
  with pytest.raises(
    tff_cache.DataError,
    match=r'cifar100 \(Failed to resolve host[^\n]*another --data_source\.$',
  ):
    cifar100.load('tfds', tmp_path)


# Source 'sample'.


def test_the_sample_says_that_it_is_one():
  dataset = cifar100.load('sample')
  assert 'SAMPLE' in dataset.name
  assert dataset.is_sample
  np.testing.assert_array_equal(dataset.num_examples, [20] * 20)
  np.testing.assert_array_equal(np.bincount(dataset.test_owner), [20] * 10)
  assert dataset.train[0]['x'].shape == (20, 32, 32, 3)
  assert dataset.test['x'].shape == (200, 24, 24, 3)
  assert _equal(dataset, cifar100.load('sample'))


def test_a_sample_can_be_told_apart_by_colour_alone():
  # Nearest mean colour of the training images of each class, an easy
  # classifier; ten classes, so that guessing is right once in ten.
  dataset = cifar100.load('sample')
  x = np.concatenate([examples['x'] for examples in dataset.train])
  y = np.concatenate([examples['y'] for examples in dataset.train])
  colours = np.stack([x[y == c].mean(axis=(0, 1, 2)) for c in range(10)])
  seen = dataset.test['x'].mean(axis=(1, 2))
  nearest = np.linalg.norm(seen[:, None] - colours, axis=2).argmin(axis=1)
  assert (nearest == dataset.test['y']).mean() > 0.8


def test_an_unknown_source_is_refused():
  with pytest.raises(ValueError, match="one of tff, tfds, .* is 'keras'"):
    cifar100.load('keras')


# The real data.


@pytest.fixture(name='real_dir')
def _real_dir():
  folder = pathlib.Path(os.environ.get('F3AST_DATA_DIR', ''))
  if 'F3AST_DATA_DIR' not in os.environ:
    pytest.skip('F3AST_DATA_DIR names no folder with the real data')
  return folder


def _check_real(dataset):
  assert (len(dataset.train), dataset.test_owner.max() + 1) == (500, 100)
  np.testing.assert_array_equal(dataset.num_examples, [100] * 500)
  np.testing.assert_array_equal(np.bincount(dataset.test_owner), [100] * 100)
  assert dataset.test['x'].shape == (10_000, 24, 24, 3)
  labels = np.concatenate([examples['y'] for examples in dataset.train])
  np.testing.assert_array_equal(np.bincount(labels), [500] * 100)
  np.testing.assert_array_equal(np.bincount(dataset.test['y']), [100] * 100)


def _occurrences(dataset):
  """How often each training image and each test image occurs."""
  train = (image for examples in dataset.train for image in examples['x'])
  return tuple(
    collections.Counter(image.tobytes() for image in images)
    for images in (train, dataset.test['x'])
  )


@pytest.mark.slow
def test_real_images_are_the_same_in_both_sources(real_dir, tmp_path):
  if not (real_dir / 'cifar-100-python').is_dir():
    pytest.skip('F3AST_DATA_DIR has no folder cifar-100-python')
  by_tff = cifar100.load('tff', real_dir, cache_dir=tmp_path)
  again = cifar100.load('tff', real_dir, cache_dir=tmp_path)
  official = cifar100.load('official', real_dir)
  assert _equal(by_tff, again)
  for dataset in (by_tff, official):
    _check_real(dataset)
  # Each image as often as in the archive, where 14 of the training images and 2
  # of the test images are equal to others.
  assert _occurrences(by_tff) == _occurrences(official)
  _check_equals_tff(by_tff, real_dir, every=25)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
