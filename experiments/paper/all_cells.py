"""The cells behind the paper's tables and figures, and our controls.

Seeds and conditions are those of `design`. A cell that two tables need is there
once.
"""

from collections.abc import Iterable, Iterator, Sequence
import dataclasses
import itertools
from typing import Any, Optional

from experiments.paper import cell as cells_lib
from experiments.paper import design

_Flags = tuple[tuple[str, Any], ...]


def _synthetic(
  rounds: int,
  methods: Iterable[str],
  avails: Iterable[str],
  seeds: Iterable[int],
  name: str = '',
  values: Iterable[Any] = (),
) -> list[cells_lib.Cell]:
  """Returns all combinations, with each value of a setting if one is named."""
  settings: list[tuple[str, _Flags]] = [
    (variant, ((name, value),) if variant else ())
    for value in values
    for variant in [design.variant(name, value)]
  ]
  return [
    cells_lib.Cell(
      design.synthetic(method, avail, variant, seed), rounds, flags
    )
    for seed, avail, (variant, flags), method in itertools.product(
      seeds, avails, settings or [('', ())], methods
    )
  ]


def main_grid(
  rounds: int,
  seeds: Sequence[int] = design.SEEDS,
  avails: Iterable[str] = design.AVAILS,
  methods: Iterable[str] = tuple(design.METHODS),
) -> list[cells_lib.Cell]:
  """Returns the methods under the paper's five availability models."""
  return _synthetic(rounds, methods, avails, seeds)


def _protocols(rounds: int) -> list[cells_lib.Cell]:
  """Returns the released code's protocol, whole and one departure at a time."""
  avail = design.PROTOCOL_AVAIL
  return [
    *_synthetic(
      rounds,
      design.OF_RELEASED_CODE,
      design.AVAILS,
      design.SEEDS,
      'protocol',
      ['released'],
    ),
    *(
      cell
      for name, methods in design.CONCERNED.items()
      for cell in _synthetic(
        rounds, methods, [avail], design.FEW_SEEDS, 'protocol', [name]
      )
    ),
  ]


def _matched(rounds: int) -> list[cells_lib.Cell]:
  """Returns baselines whose server learning rate is F3AST's sum of weights."""
  from_p = design.variant('rate_init', 'p')
  return [
    cells_lib.Cell(
      design.synthetic(method, avail, variant, seed),
      rounds,
      match=design.synthetic('f3ast', avail, other, seed),
    )
    for methods, variant, other in (
      (design.MATCHED_METHODS, design.MATCHED, ''),
      (('fedavg',), design.MATCHED_TO_P, from_p),
    )
    for seed, avail, method in itertools.product(
      design.SEEDS, design.CONTROL_AVAILS, methods
    )
  ]


def _following(rounds: int) -> list[cells_lib.Cell]:
  """Returns FedAvg with F3AST's sum of weights as its rate in each round."""
  return [
    cells_lib.Cell(
      design.synthetic(method, avail, design.FOLLOWING, seed),
      rounds,
      match=design.synthetic('f3ast', avail, '', seed),
      is_by_round=True,
    )
    for seed, avail, method in itertools.product(
      design.SEEDS, design.CONTROL_AVAILS, design.FOLLOWING_METHODS
    )
  ]


def _from_kp(
  cells_: Iterable[cells_lib.Cell],
) -> Iterator[cells_lib.Cell]:
  """Yields F3AST under Smartphones from r(0) = K p, as it was at first."""
  for cell in cells_:
    key = cell.key
    is_plain = not key.variant or key.variant.startswith('alpha')
    is_concerned = key.method in ('f3ast', 'f3ast_adam') and (
      is_plain or (key.variant, key.seed in design.FEW_SEEDS)
      == (design.SETTLED, True)
    )
    if key.avail == 'smartphones' and is_concerned:
      variant = '-'.join(filter(None, [key.variant, design.KP]))
      yield dataclasses.replace(
        cell,
        key=dataclasses.replace(key, variant=variant),
        flags=(*cell.flags, ('rate_init', 'kp')),
      )


def synthetic(
  rounds: int = design.ROUNDS['paper']['synthetic'],
) -> list[cells_lib.Cell]:
  """Returns all cells on Synthetic of the usual number of rounds."""
  control = ['f3ast'], design.CONTROL_AVAILS, design.SEEDS
  cells_ = [
    *main_grid(rounds),
    *_synthetic(
      rounds,
      design.ALPHA_METHODS,
      [design.ALPHA_AVAIL],
      design.SEEDS,
      'alpha',
      design.ALPHAS,
    ),
    *_synthetic(
      rounds,
      design.K_METHODS,
      [design.K_AVAIL],
      design.SEEDS,
      'clients_per_round',
      map(str, design.KS),
    ),
    *_protocols(rounds),
    *_synthetic(rounds, *control, 'rate_init', design.RATE_INITS),
    *_matched(rounds),
    *_following(rounds),
    *_synthetic(rounds, *control, 'beta', [design.FASTER_BETA]),
    *_synthetic(
      rounds,
      design.LOCAL_STEPS_METHODS,
      design.AVAILS,
      design.SEEDS,
      'local_steps',
      [design.LOCAL_STEPS],
    ),
    *_synthetic(rounds, [design.SAFE], design.AVAILS, design.SEEDS),
  ]
  cells_ = [*cells_, *_from_kp(cells_)]
  return list(dict.fromkeys(cells_))  # In order, and each cell once.


# All test data each time: a subset holds few of the small clients, which user
# averages are about, and must not be mixed with the last test.
_ALL_TESTED = ('eval_examples', 0)
_FLAGS: dict[str, _Flags] = {
  'paper': (_ALL_TESTED,),
  'compact': (('model', 'compact'), _ALL_TESTED),
}


def real_data(
  preset: str, rounds: Optional[int] = None
) -> list[cells_lib.Cell]:
  """Returns the cells on CIFAR-100 and Shakespeare.

  Seed 0 for all; for compact models seeds 1 and 2 under Home-devices too.
  """
  cells_ = [
    cells_lib.Cell(
      design.Key(preset, dataset, avail, method, '', seed),
      rounds or design.ROUNDS[preset][dataset],
      _FLAGS[preset],
    )
    for dataset, seed, avail, method in itertools.product(
      ('shakespeare', 'cifar100'),  # The cheaper one first.
      design.FEW_SEEDS if preset == 'compact' else range(1),
      design.AVAILS,
      design.METHODS,
    )
    if seed == 0 or avail == 'home_devices'
  ]
  on_shakespeare = [c for c in cells_ if c.key.dataset == 'shakespeare']
  # Clients of CIFAR-100 hold equally much: K p is the tie point of both H.
  before = _from_kp(on_shakespeare) if preset == 'compact' else ()
  return [*cells_, *before]


def decay(rounds: Optional[int] = None) -> list[cells_lib.Cell]:
  """Returns what tells F3AST on CIFAR-100 from a step that decays."""

  def cell(key: design.Key, **options: Any) -> cells_lib.Cell:
    flags = dict(_FLAGS['compact'])
    if key.variant == design.RELEASED:
      flags['protocol'] = 'released'
    count = rounds or design.ROUNDS['compact']['cifar100']
    return cells_lib.Cell(key, count, tuple(flags.items()), **options)

  cells_ = []
  for seed, avail in itertools.product(design.SEEDS, design.DECAY_AVAILS):
    f3ast = design.Key('compact', 'cifar100', avail, 'f3ast', '', seed)
    released = dataclasses.replace(f3ast, variant=design.RELEASED)
    fedavg = dataclasses.replace(f3ast, method='fedavg')
    decaying = dataclasses.replace(fedavg, variant=design.FOLLOWING_RELEASED)
    cells_ += [
      *map(cell, (released, f3ast, fedavg)),
      cell(decaying, match=released, is_by_round=True),
    ]
  return cells_


def by_batches(
  preset: str, rounds: Optional[int] = None
) -> list[cells_lib.Cell]:
  """Returns Uneven on Shakespeare as it is, and as in the released code."""
  by_name: dict[str, _Flags] = {
    '': (), design.BY_BATCHES: (('protocol', 'count_batches'),)
  }
  return [
    cells_lib.Cell(
      design.Key(preset, 'shakespeare', 'uneven', method, variant, seed),
      rounds or design.ROUNDS[preset]['shakespeare'],
      (*_FLAGS[preset], *flags),
    )
    for seed in (design.FEW_SEEDS if preset == 'compact' else range(1))
    for variant, flags in by_name.items()
    for method in design.OTHER_ROUNDS_METHODS
  ]


def other_rounds(
  preset: str, rounds: Optional[int] = None
) -> list[cells_lib.Cell]:
  """Returns runs that are shorter or longer than others of a preset."""
  # A test on all images takes as long as four rounds; the last one is that.
  few_tests = ('eval_every', 5), ('eval_examples', 2000)
  usual, dataset, variants = {
    'paper': (
      design.FIRST_ROUNDS,
      'cifar100',
      {
        design.FIRST: few_tests,
        design.FEW_GROUPS: (('model', 'paper_2_groups'), *few_tests),
      },
    ),
    'compact': (
      design.LONGER_ROUNDS, 'shakespeare', {design.LONGER: _FLAGS['compact']}
    ),
  }[preset]
  place = preset, dataset, design.OTHER_ROUNDS_AVAIL
  return [
    cells_lib.Cell(design.Key(*place, method, variant), rounds or usual, flags)
    for variant, flags in variants.items()
    for method in design.OTHER_ROUNDS_METHODS
  ]


def settled(rounds: int = design.SETTLED_ROUNDS) -> list[cells_lib.Cell]:
  """Returns runs on Synthetic in which F3AST's rates settle."""
  flags: dict[str, _Flags] = {
    design.SETTLED: (('eval_every', 20),),
    design.SETTLED_SMALL: (
      ('eval_every', 20), ('server_learning_rate', design.SMALL_RATE)
    ),
  }
  cells_ = [
    cells_lib.Cell(
      design.synthetic(method, avail, variant, seed), rounds, flags[variant]
    )
    for (avail, variant, _), seed, method in itertools.product(
      design.LONG_RUNS, design.SEEDS, design.SETTLED_METHODS
    )
    if variant == design.SETTLED
    or (seed in design.FEW_SEEDS and method in design.OTHER_ROUNDS_METHODS)
  ]
  return [*cells_, *_from_kp(cells_)]


def cells(preset: str, rounds: Optional[int] = None) -> list[cells_lib.Cell]:
  """Returns the cells of `paper`, `compact` or `all`, each once."""
  presets = ('compact', 'paper') if preset == 'all' else (preset,)
  cells_ = [
    *synthetic(rounds or design.ROUNDS['paper']['synthetic']),
    *settled(rounds or design.SETTLED_ROUNDS),
    *(decay(rounds) if 'compact' in presets else ()),
    *(cell for name in presets for cell in by_batches(name, rounds)),
    *(cell for name in presets for cell in other_rounds(name, rounds)),
    *(cell for name in presets for cell in real_data(name, rounds)),
  ]
  return list(dict.fromkeys(cells_))
