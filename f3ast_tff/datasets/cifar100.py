"""CIFAR-100 (Krizhevsky 2009) by client: 500 train and 100 test clients.

Every client has 100 images. The clients are TFF's own (source 'tff'), or drawn
by Pachinko allocation as TFF's were (sources 'official' and 'tfds'). Images are
kept as bytes; training sees a random 24x24 window of each, flipped at random,
and testing the central one, as in Reddi et al. (2020).
"""

from collections.abc import Mapping
import os
import pathlib
import pickle
from typing import Any, Optional, Union

import numpy as np

from f3ast_tff import randomness
from f3ast_tff.datasets import array_cache
from f3ast_tff.datasets import federated
from f3ast_tff.datasets import pachinko
from f3ast_tff.datasets import tff_cache

SOURCES = ('tff', 'tfds', 'official', 'sample')
EXPECTED = tff_cache.Expected(
  train_clients=500,
  train_examples=50_000,
  test_clients=100,
  test_examples=10_000,
)
IMAGE_SIZE = 32
CROP_SIZE = 24
_OFFICIAL_FOLDER = 'cifar-100-python'

_Path = Union[str, os.PathLike]
_Arrays = Mapping[str, np.ndarray]


def augment(
  examples: federated.Examples, rng: np.random.Generator
) -> dict[str, np.ndarray]:
  """Returns a random window of each image, flipped left to right or not.

  Args:
    examples: Images x of shape [n, 32, 32, 3], and any other fields.
    rng: Decides the windows and the flips.

  Returns:
    The examples with x of shape [n, 24, 24, 3]; other fields as they were.
  """
  x = examples['x']
  num_images, height, width, _ = x.shape
  window = np.arange(CROP_SIZE)
  top = rng.integers(height - CROP_SIZE + 1, size=num_images)
  left = rng.integers(width - CROP_SIZE + 1, size=num_images)
  flipped = rng.integers(2, size=num_images).astype(bool)
  rows = top[:, None] + window
  columns = left[:, None] + np.where(flipped[:, None], window[::-1], window)
  images = np.arange(num_images)[:, None, None]
  return {**examples, 'x': x[images, rows[:, :, None], columns[:, None, :]]}


def central_crop(x: np.ndarray) -> np.ndarray:
  """Returns the central 24x24 window of each image."""
  margin = (IMAGE_SIZE - CROP_SIZE) // 2
  end = IMAGE_SIZE - margin
  return np.ascontiguousarray(x[:, margin:end, margin:end])


def _as_tested(examples: federated.Examples) -> federated.Examples:
  return {**examples, 'x': central_crop(examples['x'])}


def load(
  source: str = 'tff',
  data_dir: Optional[_Path] = None,
  seed: int = 0,
  cache_dir: Optional[_Path] = None,
) -> federated.FederatedDataset:
  """Loads CIFAR-100.

  Args:
    source: Where images and clients come from. 'tff': TFF's file
      cifar100.sqlite, downloaded if absent. 'tfds': tensorflow-datasets.
      'official': the unpacked folder cifar-100-python. 'sample': a tiny
      stand-in for smoke tests, no images of CIFAR-100 at all.
    data_dir: The folder of the source; None means where TFF (or
      tensorflow-datasets) keeps its data.
    seed: Decides the clients of 'tfds' and 'official', and all of 'sample'.
    cache_dir: Where to keep the decoded images; None means f3ast_tff in the
      user's cache folder.

  Returns:
    The data set. Training images are `uint8` [n, 32, 32, 3], made 24x24 by its
    `augment`; test images are their central crops. Clients come in the order
    that TFF sorts them in.
  """
  if source == 'sample':
    return _sample(seed)
  if source == 'tff':
    path = tff_cache.fetch('cifar100', data_dir, EXPECTED)
    arrays = array_cache.load(
      cache_dir, 'cifar100-tff', [path], lambda: _read_sqlite(path)
    )
    return _dataset('CIFAR-100', arrays)
  if source == 'official':
    files = tff_cache.folder(data_dir) / _OFFICIAL_FOLDER
    arrays = _read_official(files)  # As quick to read as a cache would be.
    return _dataset('CIFAR-100 (official)', _divide(arrays, seed, EXPECTED))
  if source == 'tfds':
    builder = _tfds_builder(data_dir)
    records = sorted(pathlib.Path(builder.data_path).glob('*.tfrecord*'))
    arrays = array_cache.load(
      cache_dir, 'cifar100-tfds', records, lambda: _read_tfds(builder)
    )
    return _dataset('CIFAR-100 (tfds)', _divide(arrays, seed, EXPECTED))
  raise ValueError(
    f'The source of CIFAR-100 must be one of {", ".join(SOURCES)}, but it is '
    f'{source!r}.'
  )


def _dataset(
  name: str, arrays: _Arrays, is_sample: bool = False
) -> federated.FederatedDataset:
  """Returns the data set of arrays in which each client's rows are together.

  Args:
    name: What to call it.
    arrays: For both splits, x, y, and size: the number of rows per client.
    is_sample: Whether it is a stand-in.
  """
  ends = np.cumsum(arrays['train_size'])[:-1]
  train = zip(
    np.split(arrays['train_x'], ends), np.split(arrays['train_y'], ends)
  )
  sizes = arrays['test_size']
  return federated.FederatedDataset(
    name=name,
    train=[{'x': x, 'y': y} for x, y in train],
    test={'x': central_crop(arrays['test_x']), 'y': arrays['test_y']},
    test_owner=np.repeat(np.arange(len(sizes)), sizes),
    augment=augment,
    as_tested=_as_tested,
    is_sample=is_sample,
  )


def _divide(
  arrays: _Arrays, seed: int, sizes: tff_cache.Expected
) -> _Arrays:
  """Divides images with coarse labels among clients of equal size."""
  divided = {}
  for split, num_clients, num_examples in (
    ('train', sizes.train_clients, sizes.train_examples),
    ('test', sizes.test_clients, sizes.test_examples),
  ):
    rows = pachinko.allocate(
      arrays[f'{split}_coarse'],
      arrays[f'{split}_y'],
      num_clients,
      num_examples // num_clients,
      seed,
      purpose=f'CIFAR-100 {split} clients',
    )
    order = np.concatenate(rows)
    divided[f'{split}_x'] = arrays[f'{split}_x'][order]
    divided[f'{split}_y'] = arrays[f'{split}_y'][order]
    divided[f'{split}_size'] = np.array([len(r) for r in rows])
  return divided


# Source 'tff'.


def _read_sqlite(path: pathlib.Path) -> _Arrays:
  """Reads TFF's file, with clients and their examples in TFF's order."""
  # Slow to import, and not needed once the images are cached.
  import tensorflow as tf

  features = {
    'image': tf.io.FixedLenFeature([IMAGE_SIZE, IMAGE_SIZE, 3], tf.int64),
    'label': tf.io.FixedLenFeature([], tf.int64),
  }
  arrays = {}
  with tff_cache.reading(path) as database:
    for split in ('train', 'test'):
      query = database.execute(
        'SELECT client_id, serialized_example_proto FROM examples '
        'WHERE split_name = ? ORDER BY rowid',
        (split,),
      )
      clients: list[str] = []
      x, y = [], []
      while batch := query.fetchmany(500):
        ids, protos = zip(*batch)
        parsed = tff_cache.parse(path, protos, features, 'a CIFAR-100 image')
        clients.extend(ids)
        x.append(parsed['image'].numpy().astype(np.uint8))
        y.append(parsed['label'].numpy().astype(np.int32))
      owners = np.array(clients)
      order = np.argsort(owners, kind='stable')
      arrays[f'{split}_x'] = np.concatenate(x)[order]
      arrays[f'{split}_y'] = np.concatenate(y)[order]
      arrays[f'{split}_size'] = np.unique(owners, return_counts=True)[1]
  return arrays


# Source 'official'.


class _Inert:
  """Stands in for what the official files name of NumPy; runs none of it."""

  def __init__(self, *args: Any):
    self.args = args

  def __setstate__(self, state: Any) -> None:
    self.state = state


class _Unpickler(pickle.Unpickler):
  """Reads the official files, which are pickles, without trusting them.

  A pickle may call anything that `find_class` returns; pickle offers no other
  way than a subclass to restrict that.
  """

  def find_class(self, module: str, name: str) -> type[_Inert]:
    if (module, name) in (
      ('numpy', 'ndarray'),
      ('numpy', 'dtype'),
      ('numpy.core.multiarray', '_reconstruct'),
      ('numpy._core.multiarray', '_reconstruct'),
    ):
      return _Inert
    raise pickle.UnpicklingError(f'it asks to run {module}.{name}')


def _bytes_array(pickled: _Inert) -> np.ndarray:
  """Returns the `uint8` array that a pickle describes."""
  _, shape, dtype, fortran_order, content = pickled.state
  if dtype.args[0] not in ('u1', b'u1') or fortran_order:
    raise ValueError('its images are not bytes')
  return np.frombuffer(content, np.uint8).reshape(shape)


def _read_official(files: pathlib.Path) -> _Arrays:
  """Reads the files train and test of the official archive."""
  arrays = {}
  for split, num_examples in (
    ('train', EXPECTED.train_examples),
    ('test', EXPECTED.test_examples),
  ):
    path = files / split
    try:
      with open(path, 'rb') as file:
        fields = _Unpickler(file, encoding='bytes').load()
      pixels = _bytes_array(fields[b'data'])
      # Of each image first all red bytes, then all green, then all blue.
      planes = pixels.reshape(num_examples, 3, IMAGE_SIZE, IMAGE_SIZE)
      arrays[f'{split}_x'] = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
      for field, key in (('y', b'fine_labels'), ('coarse', b'coarse_labels')):
        labels = np.array(fields[key], np.int32)
        arrays[f'{split}_{field}'] = labels.reshape(num_examples)
    except OSError as error:
      raise tff_cache.DataError(
        f'{path} cannot be read ({error.strerror}); unpack '
        'cifar-100-python.tar.gz of the CIFAR-100 home page and name the '
        f'folder that has {_OFFICIAL_FOLDER} in it with --data_dir.'
      ) from error
    except Exception as error:  # What a broken pickle raises is anyone's guess.
      raise tff_cache.DataError(
        f'{path} is not the file of the official archive ({error}); unpack '
        'cifar-100-python.tar.gz of the CIFAR-100 home page again.'
      ) from error
  return arrays


# Source 'tfds'.


def _tfds_builder(data_dir: Optional[_Path]) -> Any:
  """Returns the tensorflow-datasets builder, with the data prepared."""
  try:
    import tensorflow_datasets as tfds

    # The type of data_dir decides how tensorflow-datasets opens it.
    place = None if data_dir is None else os.fspath(data_dir)
    builder = tfds.builder('cifar100', data_dir=place)
    builder.download_and_prepare()
  except Exception as error:  # Of the network, the disk, or tfds itself.
    reason = str(error).strip().partition('\n')[0]
    raise tff_cache.DataError(
      f'tensorflow-datasets could not provide cifar100 ({reason}): prepare it '
      'on a machine with a network and name its folder with --data_dir, or '
      'take another --data_source.'
    ) from error
  return builder


def _read_tfds(builder: Any) -> _Arrays:
  """Reads the images from tensorflow-datasets, in the archive's order."""
  arrays = {}
  for split in ('train', 'test'):
    dataset = builder.as_dataset(split=split, shuffle_files=False)
    columns: dict[str, list] = {}
    for batch in dataset.batch(1000).as_numpy_iterator():
      for name, values in batch.items():
        columns.setdefault(name, []).append(values)
    fields = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(fields['id'].astype(bytes), kind='stable')
    arrays[f'{split}_x'] = fields['image'][order]
    arrays[f'{split}_y'] = fields['label'][order].astype(np.int32)
    arrays[f'{split}_coarse'] = fields['coarse_label'][order].astype(np.int32)
  return arrays


# Source 'sample'.


def _sample(seed: int) -> federated.FederatedDataset:
  """Returns 20 training and 10 test clients with 20 images each.

  Ten classes, each with a colour and stripes of its own. Neither windows nor
  flips change those, so that a model can learn them.
  """
  rng = randomness.generator(seed, 'CIFAR-100 sample')
  sizes = tff_cache.Expected(20, 400, 10, 200)
  num_classes = 10
  colours = rng.normal(0.0, 45.0, (num_classes, 1, 1, 3))
  periods = np.linspace(3.0, 12.0, num_classes)
  arrays = {}
  for split, num_examples in (
    ('train', sizes.train_examples),
    ('test', sizes.test_examples),
  ):
    y = np.arange(num_examples, dtype=np.int32) % num_classes
    phases = rng.uniform(0.0, 2 * np.pi, (num_examples, 1))
    angles = 2 * np.pi * np.arange(IMAGE_SIZE) / periods[y][:, None] + phases
    noise = rng.normal(0.0, 15.0, (num_examples, IMAGE_SIZE, IMAGE_SIZE, 3))
    x = 128 + colours[y] + 30 * np.sin(angles)[:, :, None, None] + noise
    arrays[f'{split}_x'] = np.clip(x, 0, 255).astype(np.uint8)
    arrays[f'{split}_y'] = y
    arrays[f'{split}_coarse'] = y // 2
  return _dataset(
    'CIFAR-100 SAMPLE (not CIFAR-100)',
    _divide(arrays, seed, sizes),
    is_sample=True,
  )
