"""Files that say something of each client: `file:PATH` as the value of a flag.

They are CSV files with a column `client`, the number of a client from 0, and a
column with what is said of it.
"""

import csv
import hashlib
import io
import pathlib

import numpy as np

from f3ast_tff import delivery
from f3ast_tff import groups
from f3ast_tff import targets
from f3ast_tff.runs import config as config_lib

CLIENT = 'client'
# By flag, the other column.
COLUMNS = {'groups': 'group', 'target': 'share', 'delivery': 'probability'}


def _error(flag: str, name: str, reason: str) -> ValueError:
  return ValueError(
    f'The file of {flag} must be a CSV file with columns {CLIENT} and '
    f'{COLUMNS[flag]}, one row for each client, but {name!r} {reason}.'
  )


def _content(flag: str, name: str) -> bytes:
  path = pathlib.Path(name)
  if not path.is_file():
    raise _error(flag, name, 'is not a file')
  try:
    return path.read_bytes()
  except OSError as error:
    raise _error(flag, name, f'cannot be read ({error})') from error


def read(flag: str, name: str, num_clients: int) -> list[str]:
  """Returns what a file says of clients 0, 1, ..., N - 1.

  Args:
    flag: The flag that names it.
    name: The file.
    num_clients: N.

  Returns:
    A text for each client, not empty.

  Raises:
    ValueError: If it is no such file, or does not have each client once.
  """
  column = COLUMNS[flag]
  try:
    text = _content(flag, name).decode('utf-8-sig')
    table = csv.DictReader(io.StringIO(text, newline=''))
    header, rows = table.fieldnames or (), list(table)
  except (UnicodeDecodeError, csv.Error) as error:
    raise _error(flag, name, f'cannot be read ({error})') from error
  if CLIENT not in header or column not in header:
    raise _error(flag, name, 'has no such columns')
  clients = {str(k): k for k in range(num_clients)}
  found = [''] * num_clients
  for row in rows:
    client, value = row[CLIENT], row[column]
    if client not in clients:
      reason = f'has a client {client!r} and there are 0 to {num_clients - 1}'
      raise _error(flag, name, reason)
    if not value:
      raise _error(flag, name, f'has no {column} for client {client}')
    if found[clients[client]]:
      raise _error(flag, name, f'has client {client} twice')
    found[clients[client]] = value
  if '' in found:
    raise _error(flag, name, f'does not have client {found.index("")}')
  return found


def numbers(flag: str, name: str, num_clients: int) -> np.ndarray:
  """Returns the numbers that a file has for clients 0, 1, ..., N - 1."""
  found = np.empty(num_clients)
  for k, text in enumerate(read(flag, name, num_clients)):
    try:
      found[k] = float(text)
    except ValueError as error:
      reason = f'has {text!r} for client {k}, which is no number'
      raise _error(flag, name, reason) from error
  return found


def digests(config: config_lib.Config) -> dict[str, str]:
  """Returns the digests of the files that the settings name."""
  paths = {
    'target': targets.parse(config.target).path,
    'delivery': delivery.parse(config.delivery).path,
  }
  if config.groups:
    paths['groups'] = groups.parse_grouping(config.groups).path
  return {
    f'{flag}_sha256': hashlib.sha256(_content(flag, path)).hexdigest()
    for flag, path in paths.items()
    if path
  }
