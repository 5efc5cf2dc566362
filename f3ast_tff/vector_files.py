"""Vectors of clients in files, for models whose table memory cannot hold.

A folder has a file for each client and each round that changed its vector. Who
has which version is an array of references, which belongs to the server's state
and is in a checkpoint as all of it. A version is never changed, so that after a
kill the references of a checkpoint still name what they named; `forget` removes
versions that no checkpoint needs any more.
"""

from collections.abc import Iterator
import dataclasses
import io
import os
import pathlib
import re
from typing import NamedTuple
import zlib

import numpy as np

_NAME = re.compile(r'client_(\d+)_round_(\d+)\.npy')


class VectorFileError(RuntimeError):
  """The file of a client's vector is not there, or not what it was."""


class _Version(NamedTuple):
  client: int
  round_num: int
  path: pathlib.Path


def no_references(num_clients: int) -> np.ndarray:
  """Returns int64 [N, 2], the round and checksum of each one's file: none."""
  return np.zeros((num_clients, 2), np.int64)


@dataclasses.dataclass(frozen=True, eq=False)
class VectorFiles:
  """Files of vectors.

  Attributes:
    folder: Where they are; made by the first one that is written.
    first: float32, the vector of a client that has none.
  """

  folder: pathlib.Path
  first: np.ndarray

  def _path(self, client: int, round_num: int) -> pathlib.Path:
    return self.folder / f'client_{client}_round_{round_num}.npy'

  def read(self, clients: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Returns the vectors of some clients, a row for each.

    Args:
      clients: Their indices.
      references: Of all clients.

    Raises:
      VectorFileError: If one is not there, or damaged.
    """
    rows = np.tile(self.first, (len(clients), 1))
    for row, client in zip(rows, clients.tolist()):
      round_num, checksum = references[client].tolist()
      if round_num:
        row[:] = self._read(self._path(client, round_num), checksum)
    return rows

  def _read(self, path: pathlib.Path, checksum: int) -> np.ndarray:
    try:
      vector = np.load(path, mmap_mode='r', allow_pickle=False)
      is_whole = (
        vector.shape == self.first.shape
        and vector.dtype == self.first.dtype
        and zlib.crc32(vector) == checksum
      )
    except (OSError, ValueError, EOFError):
      is_whole = False
    if not is_whole:
      raise VectorFileError(
        f'{path} is missing or damaged; begin the run again in another folder.'
      )
    return vector

  def write(
    self,
    clients: np.ndarray,
    rows: np.ndarray,
    round_num: int,
    references: np.ndarray,
  ) -> np.ndarray:
    """Writes the vectors that a round changed; returns the new references."""
    references = references.copy()
    if not len(clients):
      return references
    self.folder.mkdir(parents=True, exist_ok=True)
    for client, row in zip(clients.tolist(), rows):
      _write(self._path(client, round_num), row)
      references[client] = round_num, zlib.crc32(row)
    # A checkpoint must not name what a power cut could still take away.
    descriptor = os.open(self.folder, os.O_RDONLY)
    try:
      os.fsync(descriptor)
    finally:
      os.close(descriptor)
    return references

  def _versions(self) -> Iterator[_Version]:
    for path in list(self.folder.glob('client_*')):
      match = _NAME.fullmatch(path.name)
      if match:
        yield _Version(int(match[1]), int(match[2]), path)

  def cut_back(self, round_num: int) -> None:
    """Removes what was written after a round, and what kills left behind."""
    for path in self.folder.glob('*.tmp'):
      path.unlink()
    for version in self._versions():
      if version.round_num > round_num:
        version.path.unlink()

  def forget(self, round_num: int) -> None:
    """Removes what no state after that round, or a later one, refers to."""
    newest: dict[int, _Version] = {}
    for version in self._versions():
      if version.round_num > round_num:
        continue
      other = newest.setdefault(version.client, version)
      if other != version:
        older, newest[version.client] = sorted((other, version))
        older.path.unlink()

  def size(self) -> int:
    """Returns how many bytes there are."""
    return sum(version.path.stat().st_size for version in self._versions())


def _write(path: pathlib.Path, vector: np.ndarray) -> None:
  """Writes a file that is there whole or not at all."""
  content = io.BytesIO()
  np.save(content, vector, allow_pickle=False)
  temporary = path.with_name(path.name + '.tmp')
  try:
    with open(temporary, 'wb') as file:
      file.write(content.getbuffer())
      file.flush()
      os.fsync(file.fileno())
  except OSError:  # A full disk needs the space of what is no use.
    temporary.unlink(missing_ok=True)
    raise
  os.replace(temporary, path)
