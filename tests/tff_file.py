"""Small files of the format in which TFF keeps its data sets."""

import collections
from collections.abc import Iterable
import contextlib
import pathlib
import sqlite3


def write(
  path: pathlib.Path,
  examples: Iterable[tuple[str, str, bytes]],
  change: str = '',
) -> None:
  """Writes a file.

  Args:
    path: Where.
    examples: The split, the client and the content of each example.
    change: SQL by which the file becomes another than it should be.
  """
  rows = list(examples)
  sizes = collections.Counter((client, split) for split, client, _ in rows)
  with contextlib.closing(sqlite3.connect(path)) as database:
    database.executescript(
      'CREATE TABLE examples (split_name TEXT NOT NULL, client_id TEXT NOT '
      'NULL, serialized_example_proto BLOB NOT NULL);'
      'CREATE TABLE client_metadata (client_id TEXT NOT NULL, split_name TEXT '
      'NOT NULL, num_examples INTEGER NOT NULL);'
      'CREATE INDEX by_client ON examples (client_id, split_name);'
    )
    database.executemany('INSERT INTO examples VALUES (?, ?, ?)', rows)
    database.executemany(
      'INSERT INTO client_metadata VALUES (?, ?, ?)',
      [(*whose, number) for whose, number in sizes.items()],
    )
    database.executescript(change)
    database.commit()
