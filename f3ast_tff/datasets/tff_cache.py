"""TFF's data files: found, downloaded by TFF if absent, and checked.

TFF downloads straight to the final name and takes any file of that name for
complete, so that an interrupted download breaks all later runs. Here TFF
downloads into a temporary folder next to the final place, and the file gets its
name once it has been checked.
"""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import dataclasses
import io
import os
import pathlib
import socket
import sqlite3
import sys
import tempfile
from typing import Any, Optional, Union

NAMES = ('cifar100', 'shakespeare')
_TABLES = ('client_metadata', 'examples')  # What TFF reads.
_STALL_SECONDS = 60.0


class DataError(ValueError):
  """Data that is missing, incomplete or not what it should be."""


@dataclasses.dataclass(frozen=True)
class Expected:
  """How much a complete file holds.

  Attributes:
    train_clients: The number of clients with training examples.
    train_examples: The number of training examples.
    test_clients: The number of clients with test examples.
    test_examples: The number of test examples.
  """

  train_clients: int
  train_examples: int
  test_clients: int
  test_examples: int


def folder(data_dir: Union[str, os.PathLike, None]) -> pathlib.Path:
  """Returns the folder of the data files; None means the one TFF uses."""
  if data_dir is None:
    return pathlib.Path('~/.tff').expanduser()
  return pathlib.Path(data_dir).expanduser()


def connect(path: pathlib.Path) -> sqlite3.Connection:
  """Opens one of TFF's files for reading only; never creates one."""
  return sqlite3.connect(f'{path.resolve().as_uri()}?mode=ro', uri=True)


@contextlib.contextmanager
def reading(path: pathlib.Path) -> Iterator[sqlite3.Connection]:
  """Opens a file; what is found to be wrong with it is a `DataError`."""
  with contextlib.closing(connect(path)) as database:
    try:
      yield database
    except sqlite3.Error as error:
      raise DataError(
        f'{path} is damaged ({type(error).__name__}); delete it so that it is '
        'downloaded again.'
      ) from error


def parse(
  path: pathlib.Path,
  protos: Sequence[bytes],
  features: Mapping[str, Any],
  what: str,
) -> dict[str, Any]:
  """Returns the tensors of examples, or raises a `DataError`.

  Args:
    path: The file that they are from.
    protos: The serialized `tf.train.Example`s.
    features: As in `tf.io.parse_example`.
    what: What each has to be, for the message.

  Returns:
    A tensor for each feature.
  """
  # Slow to import, and not needed by those who take the sample.
  import tensorflow as tf

  try:
    return tf.io.parse_example(list(protos), features)
  # The latter where TensorFlow's message quotes what it cannot parse.
  except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
    raise DataError(
      f'{path} has an example that is not {what}; delete it so that it is '
      'downloaded again.'
    ) from error


def _problem(path: pathlib.Path, expected: Expected) -> Optional[str]:
  """Returns what is wrong with a file, as the rest of a sentence, or None."""
  try:
    with contextlib.closing(connect(path)) as database:
      tables = {
        name for (name,) in database.execute('SELECT name FROM sqlite_master')
      }
      missing = [table for table in _TABLES if table not in tables]
      if missing:
        return f'has no table {" and no table ".join(missing)}'
      clients = dict(
        database.execute(
          'SELECT split_name, COUNT(DISTINCT client_id) FROM client_metadata '
          'GROUP BY split_name'
        )
      )
      examples = dict(
        database.execute(
          'SELECT split_name, COUNT(*) FROM examples GROUP BY split_name'
        )
      )
      # Reads nothing; fails if one of these columns is missing.
      database.execute(
        'SELECT client_id, serialized_example_proto FROM examples LIMIT 0'
      )
  except sqlite3.Error as error:
    return f'is incomplete or not a database of TFF ({error})'
  for what, counts, split, number in (
    ('clients', clients, 'train', expected.train_clients),
    ('clients', clients, 'test', expected.test_clients),
    ('examples', examples, 'train', expected.train_examples),
    ('examples', examples, 'test', expected.test_examples),
  ):
    if counts.get(split, 0) != number:
      return (
        f'has {counts.get(split, 0):,} instead of {number:,} {split} {what}'
      )
  return None


def check(path: pathlib.Path, expected: Expected) -> None:
  """Raises `DataError` unless a file is one of TFF's and complete.

  Args:
    path: The file.
    expected: How much it has to hold.
  """
  try:
    with open(path, 'rb'):
      pass
  except OSError as error:
    raise DataError(
      f'{path} cannot be read ({error.strerror}); make it readable, or name '
      'another folder with --data_dir.'
    ) from error
  problem = _problem(path, expected)
  if problem is not None:
    raise DataError(
      f'{path} {problem}; delete it so that it is downloaded again.'
    )


def _other_ways(name: str, target: pathlib.Path) -> str:
  """Returns what to do without a network, a line for each way."""
  ways = [
    'run this on a machine with a network',
    f'copy {target.name} from such a machine to {target.parent}',
    f'name the folder that has {target.name} with --data_dir',
  ]
  if name == 'cifar100':
    ways += [
      'take --data_source=official, and --data_dir with the folder that has '
      'cifar-100-python',
      'take --data_source=tfds, with what tensorflow-datasets has prepared',
    ]
  ways.append('take --data_source=sample, for a smoke test only')
  return '\n'.join(f'  - {way}' for way in ways)


@contextlib.contextmanager
def _tidy_and_impatient() -> Iterator[None]:
  """Keeps TFF's progress bar out of logs, and TFF from waiting for ever.

  TFF draws its bar on stderr even if that is a file, and sets no timeout.
  """
  quiet: contextlib.AbstractContextManager = contextlib.nullcontext()
  if not sys.stderr.isatty():
    quiet = contextlib.redirect_stderr(io.StringIO())
  timeout = socket.getdefaulttimeout()
  socket.setdefaulttimeout(_STALL_SECONDS)
  try:
    with quiet:
      yield
  finally:
    socket.setdefaulttimeout(timeout)


def _download(name: str, target: pathlib.Path, expected: Expected) -> None:
  """Lets TFF download a file and gives it its name once it is complete."""
  # Slow to import, and not needed by those who have the file.
  import tensorflow_federated as tff

  load_data = getattr(tff.simulation.datasets, name).load_data
  failed = f'{target} is not there and downloading it failed'
  try:
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = tempfile.TemporaryDirectory(
      prefix=f'{name}-download-', dir=target.parent
    )
  except OSError as error:
    raise DataError(
      f'{target.parent} cannot be written to ({error.strerror}); name another '
      f'folder for the download of {target.name} with --data_dir.'
    ) from error
  with scratch as scratch_dir:
    download = pathlib.Path(scratch_dir) / target.name
    try:
      with _tidy_and_impatient():
        load_data(cache_dir=scratch_dir)
    except OSError as error:
      raise DataError(
        f'{failed} ({error}); do one of these:\n{_other_ways(name, target)}'
      ) from error
    except Exception as error:  # A full disk, or TFF cannot read what it got.
      raise DataError(
        f'{failed} ({error}): make sure that {target.parent} has space left, '
        'and try again.'
      ) from error
    problem = _problem(download, expected)
    if problem is not None:
      raise DataError(
        f'The download of {target} {problem}, so it was thrown away: try again.'
      )
    os.replace(download, target)


def fetch(
  name: str, data_dir: Union[str, os.PathLike, None], expected: Expected
) -> pathlib.Path:
  """Returns one of TFF's data files, downloaded if it is absent.

  Args:
    name: One of `NAMES`.
    data_dir: The folder of the file; None means the folder that TFF uses.
    expected: How much the file has to hold.

  Returns:
    The path of the file, which has been checked.
  """
  if name not in NAMES:
    raise ValueError(
      f'The data file must be one of {", ".join(NAMES)}, but it is {name!r}.'
    )
  path = folder(data_dir) / f'{name}.sqlite'
  if path.exists():
    check(path, expected)
  else:
    _download(name, path, expected)
  return path
