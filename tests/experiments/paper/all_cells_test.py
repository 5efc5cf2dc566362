"""Tests of `all_cells`: the grid is the one that was planned."""

import collections
import dataclasses
import json
import subprocess
import sys

import pytest

from experiments.paper import all_cells
from experiments.paper import design
from f3ast_tff import methods as methods_lib
from f3ast_tff.methods import released
from f3ast_tff.runs import config as config_lib


def test_synthetic_cells():
  cells = all_cells.synthetic()
  assert len({cell.name for cell in cells}) == len(cells)
  assert {cell.rounds for cell in cells} == {500}
  kinds = [cell.key.variant.split('=')[0] for cell in cells]
  assert collections.Counter(kinds) == {
    '': 5 * (7 + 1) * 5,  # The eighth is F3AST, safe.
    # alpha = 1 is in the main grid; F3AST is also there from K p.
    'alpha': 2 * (3 + 1) * 5,
    'clients_per_round': 5 * 4 * 5,  # So is K = 10.
    # The whole protocol, and one departure at a time.
    'protocol': 5 * 5 * 5 + 3 * (2 + 2 + 5 + 2 + 1 + 5 + 2 + 2 + 5),
    # So is r(0) = Kp, but under Smartphones, for two methods.
    'rate_init': 2 * 2 * 5 + 2 * 5,
    'matched': 2 * 2 * 5,
    'matched_to_p': 2 * 5,
    'following': 2 * 2 * 5,
    'local_steps': 3 * 5 * 5,
    'beta': 2 * 5,  # Of 0.01; 0.001 is in the main grid.
  }


def test_real_cells():
  compact, paper = map(all_cells.real_data, ('compact', 'paper'))
  # Two datasets: 7 x 5 with seed 0, Home-devices with seeds 1 and 2 too; and
  # on Shakespeare both F3ASTs from K p under Smartphones.
  assert len(compact) == 2 * (35 + 14) + 2
  assert all(cell.settings['model'] == 'compact' for cell in compact)
  assert len(paper) == 2 * 35
  rounds = {(cell.key.dataset, cell.rounds) for cell in paper}
  assert rounds == {('cifar100', 1000), ('shakespeare', 500)}
  assert not {cell.name for cell in paper} & {cell.name for cell in compact}


@pytest.mark.parametrize(
  'preset, dataset, variant, changes',
  [
    (
      'paper',
      'cifar100',
      'first_60_rounds',
      {'rounds': 60, 'eval_every': 5, 'eval_examples': 2000},
    ),
    (
      'paper',
      'cifar100',
      'first_60_rounds-2_groups',
      {
        'rounds': 60,
        'eval_every': 5,
        'eval_examples': 2000,
        'model': 'paper_2_groups',
      },
    ),
    ('compact', 'shakespeare', '300_rounds', {'rounds': 300}),
  ],
)
def test_other_rounds_alone_differ(preset, dataset, variant, changes):
  grid = {cell.key: cell for cell in all_cells.real_data(preset)}
  cells = [
    cell
    for cell in all_cells.other_rounds(preset)
    if cell.key.variant == variant
  ]
  assert [cell.name for cell in cells] == [
    f'{preset}/{dataset}/home_devices-{method}-{variant}-seed=0'
    for method in ('fedavg', 'f3ast')
  ]
  for cell in cells:
    usual = grid[dataclasses.replace(cell.key, variant='')]
    assert cell.settings == {**usual.settings, **changes}
  for name in ('paper', 'compact'):
    assert (set(cells) <= set(all_cells.cells(name))) == (name == preset)


def test_settled_runs_are_as_those_of_the_grid_but_for_their_rounds():
  grid = {cell.key: cell for cell in all_cells.synthetic()}
  settled = all_cells.settled()
  # Five seeds of four methods; three of two with the small server rate, and of
  # F3AST from K p under Smartphones.
  assert len(settled) == 5 * 5 * 4 + 3 * 2 + 3
  for cell in settled:
    short = grid[dataclasses.replace(cell.key, variant='')]
    longer = {'rounds': 5000, 'eval_every': 20}
    if cell.key.variant == '5000_rounds-rate_init=kp':
      assert (cell.key.avail, cell.key.method) == ('smartphones', 'f3ast')
      longer['rate_init'] = 'kp'
    if cell.key.variant == '5000_rounds_server_rate_0.1':
      assert cell.key.avail == 'uneven'
      longer['server_learning_rate'] = 0.1
    assert cell.settings == {**short.settings, **longer}
  for preset in ('paper', 'compact'):
    assert set(settled) <= set(all_cells.cells(preset))


def test_a_matched_cell_follows_the_same_seed_of_f3ast():
  cells = all_cells.synthetic(500)
  keys = {cell.key for cell in cells}
  matched = {cell.key: cell.match for cell in cells if cell.match is not None}
  assert len(matched) == 30 + 20  # By its mean, and in each round.
  for key, match in matched.items():
    assert match in keys
    variant = 'rate_init=p' if key.variant == 'matched_to_p' else ''
    assert match == design.synthetic('f3ast', key.avail, variant, key.seed)


def test_four_ways_tell_f3ast_from_a_step_that_decays():
  cells = all_cells.decay()
  assert len({cell.key for cell in cells}) == len(cells) == 4 * 2 * 5
  grid = {cell.key: cell for cell in all_cells.real_data('compact')}
  for cell in cells:
    plain = dataclasses.replace(cell.key, variant='')
    # Seeds that the grid has, too, are the same cells.
    assert grid.get(cell.key, cell) == cell
    changes = {}
    if cell.key.variant == 'protocol=released':
      assert cell.key.method == 'f3ast'
      changes = {'protocol': 'released'}
    if cell.key.variant == 'following_released':
      assert cell.key.method == 'fedavg'
      assert cell.is_by_round
      assert cell.match == dataclasses.replace(
        plain, method='f3ast', variant='protocol=released'
      )
    if plain in grid:
      assert cell.settings == {**grid[plain].settings, **changes}
  every = all_cells.cells('compact')
  assert len(set(every)) == len(every)
  assert set(cells) <= set(every)
  assert not set(cells) & set(all_cells.cells('paper'))


@pytest.mark.parametrize('preset, num_seeds', [('compact', 3), ('paper', 1)])
def test_uneven_by_batches_is_as_uneven_but_for_that(preset, num_seeds):
  cells = all_cells.by_batches(preset)
  assert len({cell.key for cell in cells}) == len(cells) == 2 * 2 * num_seeds
  grid = {cell.key: cell for cell in all_cells.real_data(preset)}
  for cell in cells:
    usual = grid[dataclasses.replace(cell.key, variant='', seed=0)]
    changes = {'seed': cell.key.seed}
    if cell.key.variant:
      changes['protocol'] = 'count_batches'
    assert cell.settings == {**usual.settings, **changes}
  assert set(cells) <= set(all_cells.cells(preset))


def test_names_are_the_packages():
  assert set(design.CONCERNED) == set(released.NAMES)
  assert set(design.METHODS) <= set(methods_lib.ALGORITHMS)
  assert design.variant('protocol', 'paper') == ''
  defaults = config_lib.Config()
  assert design.variant('rate_init', 'tie') == ''
  for name in ('clients_per_round', 'protocol'):
    assert design.variant(name, getattr(defaults, name)) == ''


def test_a_concerned_method_is_one_that_changes():
  """A policy that a departure replaces is of a method that it concerns."""
  for name, methods in design.CONCERNED.items():
    protocol = released.parse(name)
    for method in design.METHODS:
      name_of = methods_lib.ALGORITHMS[method].selection
      if released.policy_with_departures(name_of, protocol) != name_of:
        assert method in methods, (name, method)


# Client and server rate and epsilon, log10: those of Reddi et al., and on
# Synthetic with SGD the paper's.
_RATES = {
  ('cifar100', 'sgd'): (-1, 0.5, None),
  ('cifar100', 'adam'): (-1.5, 0, -1),
  ('shakespeare', 'sgd'): (0, 0, None),
  ('shakespeare', 'adam'): (0, -2, -3),
  ('synthetic', 'sgd'): (-2, 0, None),
  ('synthetic', 'adam'): (-2, -2, -3),
}
# Reads the arguments of cells by an experiment's own flags.
_READER = """
import dataclasses, json, sys
from absl import flags
from experiments import cli, {dataset} as experiment

for words in json.load(sys.stdin):
  flags.FLAGS.unparse_flags()
  for name in flags.FLAGS:
    flags.FLAGS[name].unparse()
  cli.parse_flags(['program', *words])
  config = cli.config_from_flags().resolve(experiment._LEARNING_RATES)
  settings = {{**dataclasses.asdict(config), **experiment._task_settings()}}
  print(json.dumps(settings))
"""


@pytest.mark.parametrize('dataset', list(design.DATASETS))
def test_what_an_experiment_makes_of_its_cells(dataset):
  cells = [c for c in all_cells.cells('all') if c.key.dataset == dataset]
  done = subprocess.run(
    [sys.executable, '-c', _READER.format(dataset=dataset)],
    input=json.dumps([cell.arguments[2:] for cell in cells]),
    capture_output=True,
    text=True,
    timeout=120,
  )
  assert done.returncode == 0, done.stderr
  for cell, line in zip(cells, done.stdout.splitlines(), strict=True):
    settings = json.loads(line)
    assert cell.settings.items() <= settings.items()
    optimizer = 'adam' if 'adam' in cell.key.method else 'sgd'
    for field, power in zip(
      ('client_learning_rate', 'server_learning_rate', 'server_epsilon'),
      _RATES[dataset, optimizer],
    ):
      if power is not None and field not in cell.settings:
        assert settings[field] == pytest.approx(10.0**power, rel=1e-12)
    assert settings['batch_size'] == (4 if dataset == 'shakespeare' else 20)
    defaults = {'clients_per_round': '10', 'beta': 0.001, 'protocol': 'paper'}
    if dataset == 'synthetic':
      defaults['alpha'] = 1.0
    else:
      defaults |= {'model': 'paper', 'data_source': 'tff'}
    assert settings.items() >= (defaults | cell.settings).items()
    assert settings['num_candidates'] == 30


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
