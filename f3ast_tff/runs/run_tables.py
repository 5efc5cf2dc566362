"""The CSV files of a run, read with care: they may be damaged or foreign."""

from collections.abc import Sequence
import pathlib
from typing import Optional
import warnings

import numpy as np
import pandas as pd

from f3ast_tff.runs import run_directory

# One round's accuracy is noise; so a mean of these, or of the last third of a
# run that is shorter than three times as many.
LAST_ROUNDS = 100


def num_last(num_rounds: int) -> int:
  """Returns how many rounds at the end of a run count."""
  return min(LAST_ROUNDS, max(1, num_rounds // 3))


def last_rounds(table: pd.DataFrame) -> pd.DataFrame:
  """Returns the rows of a run's last rounds: 100, or a third if it is less."""
  num_rounds = int(table['round'].max())
  return table[table['round'] > num_rounds - num_last(num_rounds)]


def read(path: pathlib.Path, columns: Sequence[str]) -> pd.DataFrame:
  """Reads a table of numbers.

  Args:
    path: The file.
    columns: The columns that it must have, with a number in each row; rounds
      must ascend.

  Returns:
    The whole table.

  Raises:
    RunDirectoryError: If it is not such a file.
  """

  def error(reason: str) -> run_directory.RunDirectoryError:
    return run_directory.RunDirectoryError(
      f'{path} is not the file of a run that it should be ({reason}); resume '
      'the run to its end, or make it again.'
    )

  try:
    with warnings.catch_warnings():
      # Rows that are longer than the header.
      warnings.simplefilter('error', pd.errors.ParserWarning)
      table = pd.read_csv(path, index_col=False)
  except (
    OSError, ValueError, OverflowError, MemoryError, pd.errors.ParserWarning
  ) as reason:
    raise error(str(reason).partition('\n')[0]) from reason
  if table.empty:
    raise error('it has no rows')
  for column in columns:
    if column not in table:
      raise error(f'it has no column {column}')
    kind = table[column].dtype.kind
    if kind not in 'if' or (column == 'round' and kind != 'i'):
      raise error(f'column {column} has values that are no numbers')
  if 'round' in columns and not (np.diff(table['round']) > 0).all():
    raise error('its rounds do not ascend')
  return table


def examples_trained(
  folder: pathlib.Path, rounds: pd.DataFrame, per_client: Optional[int] = None
) -> Optional[pd.Series]:
  """Returns how many examples clients had trained on, passes of one counted.

  Args:
    folder: The run's folder.
    rounds: Its table of rounds.
    per_client: How many a client with some trains on in a round; None for as
      many as it has.

  Returns:
    The sum over all rounds up to each, by round; None if the run's files do not
    tell who took part.

  Raises:
    RunDirectoryError: If a client took part that is not there.
  """
  path = folder / 'clients.csv'
  if 'clients' not in rounds or not path.exists():
    return None
  examples = read(path, ('client', 'examples')).set_index('client')['examples']
  if per_client is not None:
    examples = per_client * (examples > 0)
  try:
    of_round = [
      # pandas has read a column with few names as numbers, and none as NaN.
      sum(examples[int(float(name))] for name in str(names).split())
      if pd.notna(names)
      else 0
      for names in rounds['clients']
    ]
  except (KeyError, ValueError, OverflowError, TypeError) as error:
    raise run_directory.RunDirectoryError(
      f'{folder / "rounds.csv"} names a client that {path} does not have; make '
      'the run again.'
    ) from error
  return pd.Series(of_round, rounds['round']).cumsum()


def with_recent_weights(
  metrics: pd.DataFrame, rounds: pd.DataFrame
) -> pd.DataFrame:
  """Returns metrics with the mean sum of weights up to each test.

  Args:
    metrics: The table of tests.
    rounds: The table of rounds.

  Returns:
    The metrics with another column `sum_of_weights`: the mean over `num_last`
    rounds, so that the last test has that of `last_rounds`.

  Raises:
    RunDirectoryError: If a test is of a round that is not there.
  """
  sums = rounds.set_index('round')['sum_of_weights']
  recent = sums.rolling(num_last(int(sums.index.max())), 1).mean()
  if not metrics['round'].isin(recent.index).all():
    raise run_directory.RunDirectoryError(
      'A run has a test in metrics.csv of a round that its rounds.csv does not '
      'have; make it again.'
    )
  return metrics.assign(
    sum_of_weights=recent.loc[metrics['round']].to_numpy()
  )
