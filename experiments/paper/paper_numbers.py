"""The numbers that the paper's five result tables print.

They are in `paper_numbers.csv`, one row each, typed from the paper's source:
test accuracy and loss (50 each), user-averaged accuracy and loss (25 each), and
accuracy by heterogeneity (6). The relative gains beside them are not there:
they follow from the numbers.
"""

import pathlib

import pandas as pd

_FILE = pathlib.Path(__file__).with_name('paper_numbers.csv')

# What each column may hold.
NAMES = {
  'table': ('accuracy', 'loss', 'user_accuracy', 'user_loss', 'heterogeneity'),
  'dataset': ('cifar100', 'shakespeare', 'synthetic'),
  'method': ('fedavg', 'f3ast', 'fedadam', 'f3ast_adam', 'power_of_choice'),
  'availability': (
    'always', 'scarce', 'home_devices', 'uneven', 'smartphones'
  ),
  'metric': ('accuracy', 'loss', 'user_accuracy', 'user_loss'),
}
# Seconds a round on one GPU, from the paragraph "Machines".
SECONDS = {'synthetic': 0.57, 'cifar100': 8.0, 'shakespeare': 67.0}
KEY = ['table', 'dataset', 'method', 'availability', 'alpha', 'metric']


def load(path: pathlib.Path = _FILE) -> pd.DataFrame:
  """Returns the paper's numbers.

  Args:
    path: The file to read.

  Returns:
    Columns `table`, `dataset`, `method`, `availability`, `alpha`, `metric` and
    `value`. `alpha` is that of Synthetic(alpha, alpha), NaN for other datasets.

  Raises:
    ValueError: If the file is not what it should be.
  """
  numbers = pd.read_csv(path, float_precision='round_trip')
  if list(numbers.columns) != [*KEY, 'value']:
    raise ValueError(
      f'{path} must have the columns {", ".join([*KEY, "value"])}, but has '
      f'{", ".join(numbers.columns)}.'
    )
  for column, names in NAMES.items():
    unknown = numbers.loc[~numbers[column].isin(names), column]
    if not unknown.empty:
      raise ValueError(
        f'{path} must have a {column} of {", ".join(names)}, but one is '
        f'{unknown.iloc[0]}.'
      )
  numbers = numbers.astype({'alpha': float})
  if (numbers['alpha'].notna() != (numbers['dataset'] == 'synthetic')).any():
    raise ValueError(f'{path} must have an alpha for Synthetic and only there.')
  if numbers.duplicated(KEY).any():
    raise ValueError(f'{path} must have each number once, but one is repeated.')
  _check_values(numbers, path)
  return numbers


def _check_values(numbers: pd.DataFrame, path: pathlib.Path) -> None:
  """Raises a `ValueError` unless accuracies and losses can be such."""
  value = pd.to_numeric(numbers['value'], errors='coerce')
  # ln 100 = 4.6 is the loss of a guess among 100 classes; the paper's highest
  # is a little more.
  highest = numbers['metric'].str.endswith('accuracy').map({True: 1, False: 10})
  wrong = ~((value > 0) & (value < highest))
  if wrong.any():
    raise ValueError(
      f'{path} must have accuracies in (0, 1) and losses in (0, 10), but has '
      f'{numbers.loc[wrong, "value"].iloc[0]}.'
    )
