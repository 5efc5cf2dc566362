"""The cells behind the paper's tables and figures, and our controls.

Seeds and conditions are those of `report.design`. A cell that two tables need
is there once.
"""

from collections.abc import Sequence
from typing import Any, Optional

from experiments.paper import cell as cells_lib
from experiments.paper import design
from experiments.paper import names
from experiments.paper import results

METHODS = tuple(names.METHODS)
AVAILS = tuple(names.AVAILS)

PAPER_ROUNDS = {'synthetic': 500, 'cifar100': 1000, 'shakespeare': 500}
# What a small machine can do in an evening. On CIFAR-100 FedAvg hardly learns
# for its first 100 rounds; on Shakespeare it learns from the first.
COMPACT_ROUNDS = {'cifar100': 600, 'shakespeare': 100}


def _synthetic(
  method: str,
  avail: str,
  seed: int,
  rounds: int,
  flag: Optional[tuple[str, Any]] = None,
) -> cells_lib.Cell:
  variant = '' if flag is None else design.variant(*flag)
  key = design.synthetic(method, avail, variant, seed)
  flags = (flag,) if flag is not None and variant else ()
  return cells_lib.Cell(key, rounds, flags)


def main_grid(
  rounds: int,
  seeds: Sequence[int] = design.SEEDS,
  avails: Sequence[str] = AVAILS,
) -> list[cells_lib.Cell]:
  """Returns the paper's five methods under its five availability models."""
  return [
    _synthetic(method, avail, seed, rounds)
    for seed in seeds
    for avail in avails
    for method in METHODS
  ]


def heterogeneity(rounds: int) -> list[cells_lib.Cell]:
  """Returns tab:heterogeneity; alpha = 1 is that of the main grid."""
  return [
    _synthetic(method, design.ALPHA_AVAIL, seed, rounds, ('alpha', alpha))
    for seed in design.SEEDS
    for alpha in design.ALPHAS
    for method in design.ALPHA_METHODS
  ]


def k_sweep(rounds: int) -> list[cells_lib.Cell]:
  """Returns fig:num_clients; K = 10 is that of the main grid."""
  return [
    _synthetic(
      method, design.K_AVAIL, seed, rounds, ('clients_per_round', str(k))
    )
    for seed in design.FEW_SEEDS
    for k in design.KS
    for method in design.K_METHODS
  ]


def protocols(rounds: int) -> list[cells_lib.Cell]:
  """Returns the released code's protocol, whole and one departure at a time."""
  whole = [
    _synthetic(method, avail, seed, rounds, ('protocol', 'released'))
    for avail in AVAILS
    for seed in (design.FEW_SEEDS if avail == design.PROTOCOL_AVAIL else (0,))
    for method in METHODS
  ]
  single = [
    _synthetic(method, design.PROTOCOL_AVAIL, seed, rounds, ('protocol', name))
    for seed in design.FEW_SEEDS
    for name, methods in design.CONCERNED.items()
    for method in methods
  ]
  return whole + single


def controls(rounds: int) -> list[cells_lib.Cell]:
  """Returns what tells the selection rule from a hidden learning rate.

  F3AST from each r(0), of which Kp is that of the main grid, and with rates
  that settle within the run; and the baselines with the server learning rate at
  F3AST's mean sum of weights in the same seed, FedAvg also at that of F3AST
  with r(0) = p.

  Args:
    rounds: The number of rounds.

  Returns:
    The cells.
  """
  starts = [
    _synthetic('f3ast', avail, seed, rounds, ('rate_init', rate_init))
    for seed in design.SEEDS
    for avail in design.CONTROL_AVAILS
    for rate_init in design.RATE_INITS
  ]
  faster = [
    _synthetic('f3ast', avail, seed, rounds, ('beta', design.FASTER_BETA))
    for seed in design.SEEDS
    for avail in design.CONTROL_AVAILS
  ]
  matched = [
    cells_lib.Cell(
      design.synthetic(method, avail, design.MATCHED, seed),
      rounds,
      match=design.synthetic('f3ast', avail, seed=seed),
    )
    for seed in design.SEEDS
    for avail in design.CONTROL_AVAILS
    for method in design.MATCHED_METHODS
  ]
  from_p = design.variant('rate_init', 'p')
  matched_to_p = [
    cells_lib.Cell(
      design.synthetic('fedavg', avail, design.MATCHED_TO_P, seed),
      rounds,
      match=design.synthetic('f3ast', avail, from_p, seed),
    )
    for seed in design.SEEDS
    for avail in design.CONTROL_AVAILS
  ]
  return starts + matched + matched_to_p + faster


def synthetic(rounds: int = PAPER_ROUNDS['synthetic']) -> list[cells_lib.Cell]:
  """Returns all cells on Synthetic."""
  cells_ = [
    *main_grid(rounds),
    *heterogeneity(rounds),
    *k_sweep(rounds),
    *protocols(rounds),
    *controls(rounds),
  ]
  return list(dict.fromkeys(cells_))  # In order, and each cell once.


# All test data each time: a subset holds few of the small clients, which user
# averages are about, and must not be mixed with the last test.
_ALL_TESTED = ('eval_examples', 0)
_COMPACT = (('model', 'compact'), _ALL_TESTED)


def real_data(
  preset: str, rounds: Optional[int] = None
) -> list[cells_lib.Cell]:
  """Returns the cells on CIFAR-100 and Shakespeare.

  Args:
    preset: `paper` or `compact`.
    rounds: The number of rounds; None for the preset's.

  Returns:
    Seed 0 for all; for compact models seeds 1 and 2 under Home-devices too.
  """
  all_rounds = {'paper': PAPER_ROUNDS, 'compact': COMPACT_ROUNDS}[preset]
  flags = {'paper': (_ALL_TESTED,), 'compact': _COMPACT}[preset]
  several = design.FEW_SEEDS if preset == 'compact' else range(1)
  return [
    cells_lib.Cell(
      results.Key(preset, dataset, avail, method, '', seed),
      rounds or all_rounds[dataset],
      flags,
    )
    # The cheaper one first.
    for dataset in ('shakespeare', 'cifar100')
    for seed in several
    for avail in AVAILS
    for method in METHODS
    if seed == 0 or avail == 'home_devices'
  ]


def first_rounds(rounds: int = design.FIRST_ROUNDS) -> list[cells_lib.Cell]:
  """Returns the beginning of two runs on CIFAR-100 with the paper's model."""
  # A test on all images takes as long as four rounds; the last one is that.
  flags = (('eval_every', 5), ('eval_examples', 2000))
  place = 'paper', 'cifar100', design.FIRST_AVAIL
  return [
    cells_lib.Cell(results.Key(*place, method, design.FIRST), rounds, flags)
    for method in design.FIRST_METHODS
  ]


def longer(rounds: int = design.LONGER_ROUNDS) -> list[cells_lib.Cell]:
  """Returns two runs on Shakespeare that are longer than the others."""
  place = 'compact', 'shakespeare', design.LONGER_AVAIL
  return [
    cells_lib.Cell(results.Key(*place, method, design.LONGER), rounds, _COMPACT)
    for method in design.LONGER_METHODS
  ]


def settled(rounds: int = design.SETTLED_ROUNDS) -> list[cells_lib.Cell]:
  """Returns runs on Synthetic in which F3AST's rates settle."""
  flags = {
    design.SETTLED: (('eval_every', 20),),
    design.SETTLED_SMALL: (
      ('eval_every', 20),
      ('server_learning_rate', design.SMALL_RATE),
    ),
  }
  return [
    cells_lib.Cell(
      design.synthetic(method, avail, variant, seed), rounds, flags[variant]
    )
    for avail, variant, _ in design.LONG_RUNS
    for seed in design.FEW_SEEDS
    for method in design.SETTLED_METHODS
  ]


def cells(preset: str, rounds: Optional[int] = None) -> list[cells_lib.Cell]:
  """Returns the cells of a preset; Synthetic belongs to both.

  Args:
    preset: `paper` or `compact`, or `all`.
    rounds: The number of rounds; None for the preset's.

  Returns:
    The cells, each once.
  """
  presets = ('compact', 'paper') if preset == 'all' else (preset,)
  other_rounds = {
    'paper': first_rounds(rounds or design.FIRST_ROUNDS),
    'compact': longer(rounds or design.LONGER_ROUNDS),
  }
  return [
    *synthetic(rounds or PAPER_ROUNDS['synthetic']),
    *settled(rounds or design.SETTLED_ROUNDS),
    *(cell for name in presets for cell in other_rounds[name]),
    *(cell for name in presets for cell in real_data(name, rounds)),
  ]
