"""Tests of `all_cells`: the grid is the one that was planned."""

import collections
import dataclasses
import sys

import pytest

from experiments.paper import all_cells
from experiments.paper import design
from experiments.paper import names
from f3ast_tff.methods import released
from f3ast_tff.runs import config as config_lib


def _kinds(cells):
  return collections.Counter(
    cell.key.variant.split('=')[0] for cell in cells
  )


def test_synthetic_cells():
  cells = all_cells.synthetic()
  assert len({cell.name for cell in cells}) == len(cells)
  assert {cell.rounds for cell in cells} == {500}
  assert _kinds(cells) == {
    '': 5 * 5 * 5,
    'alpha': 2 * 2 * 5,  # alpha = 1 is in the main grid.
    'clients_per_round': 5 * 3 * 3,  # So is K = 10.
    # The whole protocol: 5 x 5 once, Smartphones twice more; and one at a time.
    'protocol': 25 + 10 + 3 * (2 + 2 + 5 + 2 + 1 + 5 + 2 + 2 + 5),
    'rate_init': 2 * 2 * 5,  # So is r(0) = Kp.
    'matched': 2 * 2 * 5,
    'matched_to_p': 2 * 5,
    'beta': 2 * 5,  # Of 0.01; 0.001 is in the main grid.
  }


def test_real_cells():
  compact = all_cells.real_data('compact')
  # Two datasets: 5 x 5 with seed 0, Home-devices with seeds 1 and 2 too.
  assert len(compact) == 2 * (25 + 10)
  assert all(cell.settings['model'] == 'compact' for cell in compact)
  paper = all_cells.real_data('paper')
  assert len(paper) == 2 * 25
  rounds = {(cell.key.dataset, cell.rounds) for cell in paper}
  assert rounds == {('cifar100', 1000), ('shakespeare', 500)}
  both = {cell.name for cell in paper} & {cell.name for cell in compact}
  assert not both


def test_first_rounds():
  first = all_cells.first_rounds()
  assert [cell.name for cell in first] == [
    f'paper/cifar100/home_devices-{method}-first_60_rounds-seed=0'
    for method in ('fedavg', 'f3ast')
  ]
  assert {cell.rounds for cell in first} == {60}
  paper, compact = map(all_cells.cells, ('paper', 'compact'))
  assert set(first) <= set(paper) and not set(first) & set(compact)


def test_longer_runs_are_as_the_others_but_for_their_rounds():
  longer = {cell.key.method: cell for cell in all_cells.longer()}
  assert set(longer) == {'fedavg', 'f3ast'}
  for cell in all_cells.real_data('compact'):
    key = cell.key
    if key.dataset == 'shakespeare' and key.avail == 'home_devices':
      if key.seed == 0 and key.method in longer:
        other = longer.pop(key.method)
        assert other.settings == {**cell.settings, 'rounds': 300}
        assert other in all_cells.cells('compact')
        assert other not in all_cells.cells('paper')
  assert not longer


def test_settled_runs_are_as_those_of_the_grid_but_for_their_rounds():
  grid = {cell.key: cell for cell in all_cells.synthetic()}
  settled = all_cells.settled()
  assert len(settled) == (5 + 1) * 3 * 2
  for cell in settled:
    short = grid[dataclasses.replace(cell.key, variant='')]
    longer = {'rounds': 5000, 'eval_every': 20}
    if cell.key.variant == '5000_rounds_server_rate_0.1':
      assert cell.key.avail == 'uneven'
      longer['server_learning_rate'] = 0.1
    assert cell.settings == {**short.settings, **longer}
  for preset in ('paper', 'compact'):
    assert set(settled) <= set(all_cells.cells(preset))


def test_a_matched_cell_follows_the_same_seed_of_f3ast():
  names_ = {cell.name for cell in all_cells.synthetic(500)}
  for cell in all_cells.controls(500):
    if cell.match is not None:
      assert cell.match.name in names_
      is_from_p = cell.key.variant == 'matched_to_p'
      assert cell.match.variant == ('rate_init=p' if is_from_p else '')
      assert cell.match.method == 'f3ast'
      assert (cell.match.avail, cell.match.seed) == (
        cell.key.avail, cell.key.seed
      )


def test_all_settings_are_settings_of_the_experiments():
  for cell in all_cells.cells('all'):
    settings = cell.settings
    for name in ('model', 'alpha'):
      settings.pop(name, None)
    config_lib.Config(**settings)


def test_names_are_the_packages():
  assert set(design.CONCERNED) == set(released.NAMES)
  assert set(names.METHODS) == {
    name for name in config_lib.ALGORITHMS if 'with_replacement' not in name
  }
  assert design.variant('protocol', 'paper') == ''
  defaults = config_lib.Config()
  for name in ('clients_per_round', 'rate_init', 'protocol'):
    assert design.variant(name, getattr(defaults, name)) == ''


def test_a_concerned_method_is_one_that_changes():
  """A policy that a departure replaces is of a method that it concerns."""
  for name, methods in design.CONCERNED.items():
    protocol = released.parse(name)
    for method, algorithm in config_lib.ALGORITHMS.items():
      policy = released.policy(algorithm.selection, protocol)
      default = released.policy(algorithm.selection, released.Protocol())
      if policy is not default:
        assert method in methods, (name, method)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
