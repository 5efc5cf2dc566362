"""The server's learning rate by round, from a file: `--server_rate_file`.

The file says by what to multiply the rate of each round. A run's `rounds.csv`
is such a file: with it another method takes the steps that the weights of F3AST
come to, one round after the other. These are learning rates; the participation
rates r are in `rates`.
"""

import csv
import hashlib
import io
import pathlib
from typing import NamedTuple, Optional

import numpy as np

from f3ast_tff.runs import config as config_lib

ROUND = 'round'
# What the column with the numbers may be called; the first one found counts.
FACTORS = ('factor', 'sum_of_weights')


class ServerRateFactors(NamedTuple):
  """By what to multiply the server's learning rate.

  Attributes:
    factors: One number >= 0 for each round, that of round 1 first.
    sha256: The digest of the file they are from.
  """

  factors: np.ndarray
  sha256: str


def _number(text: Optional[str]) -> float:
  """Returns the number that a text is, NaN if it is none."""
  try:
    return float(text or 'nan')
  except ValueError:
    return np.nan


def read(name: str, num_rounds: int) -> ServerRateFactors:
  """Reads the numbers of rounds 1 to T.

  Args:
    name: The file.
    num_rounds: T; what the file says of later rounds makes no difference.

  Returns:
    The numbers.

  Raises:
    ValueError: If it is not such a file, or does not have all rounds.
  """

  def error(reason: str) -> ValueError:
    return ValueError(
      f'server_rate_file must be a CSV file with a column {ROUND} and a column '
      f'{" or ".join(FACTORS)}, one row for each round, but {name!r} {reason}.'
    )

  path = pathlib.Path(name)
  if not path.is_file():
    raise error('is not a file')
  try:
    content = path.read_bytes()
    text = content.decode('utf-8-sig')
    table = csv.DictReader(io.StringIO(text, newline=''))
    header, rows = table.fieldnames or (), list(table)
  except (OSError, ValueError, csv.Error) as reason:
    raise error(f'cannot be read ({reason})') from reason
  columns = [column for column in FACTORS if column in header]
  if ROUND not in header or not columns:
    raise error('has no such columns')
  factors: dict[float, float] = {}
  for row in rows:
    t, factor = _number(row[ROUND]), _number(row[columns[0]])
    if not (1 <= t < np.inf and t % 1 == 0):
      raise error(f'has {row[ROUND]!r} for a round')
    if t in factors:
      raise error(f'has round {t:g} twice')
    if t <= num_rounds and not 0 <= factor < np.inf:
      raise error(
        f'has {row[columns[0]]!r} in round {t:g}, which is no number >= 0'
      )
    factors[t] = factor
  for t in range(1, num_rounds + 1):
    if t not in factors:
      raise error(f'has no round {t} of {num_rounds}')
  return ServerRateFactors(
    np.array([factors[t] for t in range(1, num_rounds + 1)]),
    hashlib.sha256(content).hexdigest(),
  )


def of(config: config_lib.Config) -> Optional[ServerRateFactors]:
  """Returns the numbers that the settings name, None if they name no file."""
  if not config.server_rate_file:
    return None
  return read(config.server_rate_file, config.rounds)
