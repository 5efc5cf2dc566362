"""The paper's grid: its methods, models and data, and what we vary next to it.

Seeds and conditions were fixed here before the grid was run. Three seeds of
Home-devices on Synthetic had been seen by then. Added after the first results
had been seen:

- the baselines that draw with replacement, `fedavg_with_replacement` and
  `fedadam_with_replacement`; and `SAFE`;
- r(0) at the tie point of the H in use instead of K p, which is `KP` now;
- five seeds of the released code's protocol;
- controls: `MATCHED_TO_P`, `FASTER_BETA`, `FOLLOWING`, `FOLLOWING_RELEASED`,
  `LOCAL_STEPS` and, on Shakespeare, `BY_BATCHES`;
- other lengths and sizes: `LONGER` on Shakespeare, `SETTLED` and
  `SETTLED_SMALL` on Synthetic, `FEW_GROUPS` on CIFAR-100.
"""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any

# How all is called, in the paper's order.
METHODS: Mapping[str, str] = {
  'fedavg': 'FedAvg',
  'f3ast': 'F3AST',
  'fedadam': 'FedAdam',
  'f3ast_adam': 'F3AST+Adam',
  'power_of_choice': 'PoC',
  # The paper does not say how its baselines draw clients.
  'fedavg_with_replacement': 'FedAvg, with replacement',
  'fedadam_with_replacement': 'FedAdam, with replacement',
}
# Those that the released code has; its baselines draw with replacement.
OF_RELEASED_CODE = tuple(METHODS)[:5]
# F3AST as we would use it, next to what it is made of.
SAFE = 'f3ast_safe'
TITLES: Mapping[str, str] = {**METHODS, SAFE: 'F3AST, safe'}
# Each of ours next to the baseline that its gain is over.
PAIRS = (('f3ast', 'fedavg'), ('f3ast_adam', 'fedadam'))
PAIRS_WITH_REPLACEMENT = (
  ('f3ast', 'fedavg_with_replacement'),
  ('f3ast_adam', 'fedadam_with_replacement'),
)
# All that the paper compares, and the other way to draw.
COMPARISONS = (*PAIRS, ('f3ast', 'power_of_choice'), *PAIRS_WITH_REPLACEMENT)
AVAILS: Mapping[str, str] = {
  'always': 'Always',
  'scarce': 'Scarce',
  'home_devices': 'Home-devices',
  'uneven': 'Uneven',
  'smartphones': 'Smartphones',
}
DATASETS: Mapping[str, str] = {
  'synthetic': 'Synthetic(1,1)',
  'cifar100': 'CIFAR-100',
  'shakespeare': 'Shakespeare',
}
# Synthetic has one size, which is the paper's.
PRESETS: Mapping[str, tuple[str, ...]] = {
  'paper': ('synthetic', 'cifar100', 'shakespeare'),
  'compact': ('cifar100', 'shakespeare'),
}
SIZES: Mapping[str, str] = {
  'paper': "models of the paper's size",
  'compact': 'compact models, few rounds',
}

# Main grid: rounds, and those that a small machine can do in an evening. On
# CIFAR-100 FedAvg hardly learns for its first 100 rounds; on Shakespeare it
# learns from the first.
ROUNDS: Mapping[str, Mapping[str, int]] = {
  'paper': {'synthetic': 500, 'cifar100': 1000, 'shakespeare': 500},
  'compact': {'cifar100': 600, 'shakespeare': 100},
}
SEEDS = range(5)
FEW_SEEDS = range(3)

# tab:heterogeneity.
ALPHAS = (0.0, 0.5, 1.0)
ALPHA_METHODS = ('fedavg', 'f3ast', 'fedavg_with_replacement')
ALPHA_AVAIL = 'smartphones'

# fig:num_clients.
KS = (1, 2, 5, 10, 20, 30)
K_METHODS = ('fedavg', 'f3ast', 'power_of_choice', 'fedavg_with_replacement')
K_AVAIL = 'home_devices'

# Controls: what tells the selection rule from a hidden learning rate.
CONTROL_AVAILS = ('home_devices', 'uneven')
RATE_INITS = {'tie': 'Kp', 'p': 'p', 'uniform': 'K/N'}
MATCHED_METHODS = ('fedavg', 'power_of_choice')
MATCHED = 'matched'
MATCHED_TO_P = 'matched_to_p'  # FedAvg alone.
FASTER_BETA = 0.01  # Rates settle in 300 rounds, not in 3,000.
# The server's rate is F3AST's sum of weights, round by round.
FOLLOWING = 'following'
FOLLOWING_METHODS = ('fedavg', 'fedavg_with_replacement')
# In the released code that sum falls from round to round: on CIFAR-100, is its
# gain this decay of the step? An independent program had suggested it.
DECAY_AVAILS = ('home_devices', 'scarce')
RELEASED = 'protocol=released'
FOLLOWING_RELEASED = 'following_released'
# Algorithm 1 has E steps; an epoch gives clients with more data more of them.
LOCAL_STEPS = 10
LOCAL_STEPS_METHODS = ('fedavg', 'f3ast', 'fedavg_with_replacement')
# Before r(0) was the tie point of the H in use it was K p. That differs where
# H = sum p/r and clients hold unequally much.
KP = 'rate_init=kp'

# CIFAR-100 at paper size takes hours a run on a CPU: its first rounds alone.
FIRST_ROUNDS = 60
FIRST = f'first_{FIRST_ROUNDS}_rounds'
# Its group norm has 32 groups here, and may have had 2 where rates were tuned.
FEW_GROUPS = f'{FIRST}-2_groups'
# Uneven on Shakespeare by batches, as in the released code: twice as many
# clients are available.
BY_BATCHES = 'protocol=count_batches'
# F3AST's first rounds on Shakespeare go to clients with little data: what then?
LONGER_ROUNDS = 300
LONGER = f'{LONGER_ROUNDS}_rounds'
# With beta = .001 rates take about 3,000 rounds to settle: what then?
SETTLED_ROUNDS = 5000
SETTLED = f'{SETTLED_ROUNDS}_rounds'
# There F3AST's weights throw the model off under Uneven: with smaller steps?
SMALL_RATE = 0.1
SETTLED_SMALL = f'{SETTLED}_server_rate_{SMALL_RATE:g}'
# All of these compare these two; short ones under this availability model.
OTHER_ROUNDS_METHODS = ('fedavg', 'f3ast')
SETTLED_METHODS = (*OTHER_ROUNDS_METHODS, 'fedavg_with_replacement', SAFE)
OTHER_ROUNDS_AVAIL = 'home_devices'
# Of settled runs: availability model, variant and title.
LONG_RUNS = (
  *((avail, SETTLED, title) for avail, title in AVAILS.items()),
  ('uneven', SETTLED_SMALL, f'{AVAILS["uneven"]}, server rate {SMALL_RATE:g}'),
)
# Cells that have another number of rounds than others of their table.
OTHER_ROUNDS = (
  FIRST, FEW_GROUPS, LONGER, SETTLED, SETTLED_SMALL, f'{SETTLED}-{KP}'
)

_ALL_F3AST = ('f3ast', 'f3ast_adam')
# The methods that each departure of the released code concerns.
CONCERNED: Mapping[str, Sequence[str]] = {
  'rates_start_at_p': _ALL_F3AST,
  'divide_by_k': _ALL_F3AST,
  'count_batches': OF_RELEASED_CODE,
  'draw_with_replacement': ('fedavg', 'fedadam'),
  'losses_of_training': ('power_of_choice',),
  'linspace_sine': OF_RELEASED_CODE,
  'fill_with_unavailable': _ALL_F3AST,
  'uncorrelated_h': _ALL_F3AST,
  'one_availability': OF_RELEASED_CODE,
}
PROTOCOL_AVAIL = 'smartphones'

# What the experiments do by default; the main grid.
_DEFAULTS = {
  'alpha': 1.0,
  'beta': 0.001,
  'clients_per_round': '10',
  'rate_init': 'tie',
  'protocol': 'paper',
  'local_steps': 0,
}


@dataclasses.dataclass(frozen=True, order=True)
class Key:
  """The place of a cell in the grid.

  Attributes:
    preset: `paper` or `compact`; see `PRESETS`.
    dataset: Its task, e.g. `synthetic`.
    avail: The availability model.
    method: A name of `TITLES`.
    variant: In what it departs from the paper's main grid, e.g. `alpha=0.5`;
      empty for the main grid.
    seed: The seed.
  """

  preset: str
  dataset: str
  avail: str
  method: str
  variant: str = ''
  seed: int = 0

  @property
  def group(self) -> str:
    """The name that all seeds share."""
    parts = [self.avail, self.method, *filter(None, [self.variant])]
    return f'{self.preset}/{self.dataset}/{"-".join(parts)}'

  @property
  def name(self) -> str:
    """The cell's name, also that of its file without the ending."""
    return f'{self.group}-seed={self.seed}'


def synthetic(
  method: str, avail: str, variant_: str = '', seed: int = 0
) -> Key:
  """Returns the key of a cell on Synthetic."""
  return Key('paper', 'synthetic', avail, method, variant_, seed)


def variant(name: str, value: Any) -> str:
  """Returns how cells with a setting are called; '' for the main grid's."""
  if _DEFAULTS[name] == value:
    return ''
  return f'{name}={value:g}' if isinstance(value, float) else f'{name}={value}'


def is_higher_better(metric: str) -> bool:
  """Returns whether more of a metric is better."""
  return metric.endswith('accuracy')
