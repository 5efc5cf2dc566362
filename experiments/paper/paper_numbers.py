"""The numbers that the paper's five result tables print.

They are in `paper_numbers.csv`, one row each, typed from the paper's source:
test accuracy and loss (50 each), user-averaged accuracy and loss (25 each), and
accuracy by heterogeneity (6). The relative gains next to them are not there:
they follow from the numbers.
"""

import pathlib

import pandas as pd

from experiments.grid import metrics as metrics_lib
from experiments.paper import design

_FILE = pathlib.Path(__file__).with_name('paper_numbers.csv')

_METRICS = [name for name in metrics_lib.METRICS if name != 'sum_of_weights']
# What each column may hold.
_NAMES = {
  'table': [*_METRICS, 'heterogeneity'],
  'dataset': list(design.DATASETS),
  'method': list(design.METHODS),
  'availability': list(design.AVAILS),
  'metric': _METRICS,
}
_KEY = ['table', 'dataset', 'method', 'availability', 'alpha', 'metric']
# Seconds a round on one GPU, from the paragraph "Machines".
SECONDS = {'synthetic': 0.57, 'cifar100': 8.0, 'shakespeare': 67.0}


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

  def check(is_so: bool, what: str) -> None:
    if not is_so:
      raise ValueError(f'{path} must have {what}.')

  check(
    list(numbers.columns) == [*_KEY, 'value'],
    f'the columns {", ".join([*_KEY, "value"])}',
  )
  for column, names in _NAMES.items():
    check(
      numbers[column].isin(names).all(), f'a {column} of {", ".join(names)}'
    )
  numbers = numbers.astype({'alpha': float})
  is_synthetic = numbers['dataset'] == 'synthetic'
  check(
    (numbers['alpha'].notna() == is_synthetic).all(),
    'an alpha for Synthetic and only there',
  )
  check(not numbers.duplicated(_KEY).any(), 'each number once')
  value = pd.to_numeric(numbers['value'], errors='coerce')
  # ln 100 = 4.6 is the loss of a guess among 100 classes; the paper's highest
  # is a little more.
  highest = numbers['metric'].map(design.is_higher_better).map({
    True: 1, False: 10
  })
  check(
    ((value > 0) & (value < highest)).all(),
    'accuracies in (0, 1) and losses in (0, 10)',
  )
  return numbers


def of_grid(numbers: pd.DataFrame) -> dict[tuple[str, ...], float]:
  """Returns the four large tables by metric, dataset, method, availability."""
  large = numbers[numbers['table'] != 'heterogeneity']
  index = ['metric', 'dataset', 'method', 'availability']
  return large.set_index(index)['value'].to_dict()


def of_heterogeneity(numbers: pd.DataFrame) -> dict[tuple[str, float], float]:
  """Returns the table by heterogeneity, by method and alpha."""
  table = numbers[numbers['table'] == 'heterogeneity']
  return table.set_index(['method', 'alpha'])['value'].to_dict()
