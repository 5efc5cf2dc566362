"""What is varied beside the main grid, and how the cells are called.

Seeds and conditions were fixed here before the grid was run. Three seeds of
Home-devices on Synthetic had been seen by then, and two controls were added
that the first results asked for: `MATCHED_TO_P` and `FASTER_BETA`; so were
`LONGER` on Shakespeare and `SETTLED` and `SETTLED_SMALL` on Synthetic.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from experiments.paper import names
from experiments.paper import results

SEEDS = range(5)
FEW_SEEDS = range(3)

# tab:heterogeneity.
ALPHAS = (0.0, 0.5, 1.0)
ALPHA_METHODS = ('fedavg', 'f3ast')
ALPHA_AVAIL = 'smartphones'

# fig:num_clients.
KS = (1, 2, 5, 10, 20, 30)
K_METHODS = ('fedavg', 'f3ast', 'power_of_choice')
K_AVAIL = 'home_devices'

# Controls: what tells the selection rule from a hidden learning rate.
CONTROL_AVAILS = ('home_devices', 'uneven')
RATE_INITS = ('kp', 'p', 'uniform')
MATCHED_METHODS = ('fedavg', 'power_of_choice')
MATCHED = 'matched'
MATCHED_TO_P = 'matched_to_p'  # FedAvg alone.
FASTER_BETA = 0.01  # Rates settle in 300 rounds, not in 3,000.

# CIFAR-100 at paper size takes hours a run on a CPU: its first rounds alone.
FIRST_ROUNDS = 60
FIRST_METHODS = ('fedavg', 'f3ast')
FIRST_AVAIL = 'home_devices'
FIRST = f'first_{FIRST_ROUNDS}_rounds'

# F3AST's first rounds on Shakespeare go to clients with little data: what then?
LONGER_ROUNDS = 300
LONGER_METHODS = ('fedavg', 'f3ast')
LONGER_AVAIL = 'home_devices'
LONGER = f'{LONGER_ROUNDS}_rounds'

# With beta = .001 rates take about 3,000 rounds to settle: what then?
SETTLED_ROUNDS = 5000
SETTLED_METHODS = ('fedavg', 'f3ast')
SETTLED = f'{SETTLED_ROUNDS}_rounds'
# There F3AST's weights throw the model off under Uneven: with smaller steps?
SMALL_RATE = 0.1
SETTLED_SMALL = f'{SETTLED}_server_rate_{SMALL_RATE:g}'
# Availability model, variant and title.
LONG_RUNS = (
  *((avail, SETTLED, title) for avail, title in names.AVAILS.items()),
  (
    'uneven',
    SETTLED_SMALL,
    f'{names.AVAILS["uneven"]}, server rate {SMALL_RATE:g}',
  ),
)

# Cells that have another number of rounds than others of their table.
OTHER_ROUNDS = (FIRST, LONGER, SETTLED, SETTLED_SMALL)

_ALL_F3AST = ('f3ast', 'f3ast_adam')
_ALL = tuple(names.METHODS)
# The methods that each departure of the released code concerns.
CONCERNED: Mapping[str, Sequence[str]] = {
  'rates_start_at_p': _ALL_F3AST,
  'divide_by_k': _ALL_F3AST,
  'count_batches': _ALL,
  'draw_with_replacement': ('fedavg', 'fedadam'),
  'losses_of_training': ('power_of_choice',),
  'linspace_sine': _ALL,
  'fill_with_unavailable': _ALL_F3AST,
  'uncorrelated_h': _ALL_F3AST,
  'one_availability': _ALL,
}
PROTOCOL_AVAIL = 'smartphones'

# What the experiments do unless told otherwise; the main grid.
_DEFAULTS = {
  'alpha': 1.0,
  'beta': 0.001,
  'clients_per_round': '10',
  'rate_init': 'kp',
  'protocol': 'paper',
}


def variant(name: str, value: Any) -> str:
  """Returns how cells with a setting are called; '' for the main grid's."""
  if _DEFAULTS[name] == value:
    return ''
  return f'{name}={value:g}' if isinstance(value, float) else f'{name}={value}'


def synthetic(
  method: str, avail: str, variant_: str = '', seed: int = 0
) -> results.Key:
  """Returns the key of a cell on Synthetic."""
  return results.Key('paper', 'synthetic', avail, method, variant_, seed)


def printed(paper: pd.DataFrame) -> dict[tuple[str, str, str, str], float]:
  """Returns the numbers of the paper's four large tables.

  Args:
    paper: The paper's numbers, as `experiments.paper.paper_numbers` has them.

  Returns:
    By metric, dataset, method and availability model.
  """
  large = paper[paper['table'] != 'heterogeneity']
  return {
    (row.metric, row.dataset, row.method, row.availability): row.value
    for row in large.itertuples()
  }
