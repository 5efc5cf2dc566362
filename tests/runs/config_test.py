"""Tests of `config`."""

import dataclasses
import sys

import pytest

from f3ast_tff.runs import config as config_lib


def test_the_paper_s_settings_are_the_defaults():
  config = config_lib.Config()
  assert (config.clients_per_round, config.beta) == ('10', 0.001)
  assert (config.batch_size, config.local_epochs) == (20, 1)


def test_a_schedule_that_begins_with_zeros_may_end_with_them():
  config_lib.Config(clients_per_round='schedule:0,0,10', rounds=3)


def test_every_whole_number_has_bounds():
  for field in dataclasses.fields(config_lib.Config):
    if field.type is int:
      least, most = field.metadata['least'], field.metadata['most']
      assert least <= field.default <= most
      config_lib.Config(**{field.name: most})
      with pytest.raises(ValueError, match=f'{field.name} must be at most'):
        config_lib.Config(**{field.name: most + 1})


def test_every_setting_explains_itself():
  for field in dataclasses.fields(config_lib.Config):
    assert config_lib.help_of(field).endswith(('.', '...'))


_STEP_SIZES = {
  'sgd': config_lib.LearningRates(0.1, 2.0, 0.3),
  'yogi': config_lib.LearningRates(0.2, 4.0, 0.6),
}


def test_what_is_left_open_comes_from_the_algorithm_and_the_task():
  config = config_lib.Config(client_learning_rate=0.5).resolve(_STEP_SIZES)
  assert (config.selection, config.server_optimizer) == ('f3ast', 'sgd')
  assert config.client_learning_rate == 0.5
  assert (config.server_learning_rate, config.server_epsilon) == (2.0, 0.3)


def test_parts_of_an_algorithm_can_be_replaced():
  config = config_lib.Config(
    algorithm='fedavg', selection='uniform', server_optimizer='yogi'
  ).resolve(_STEP_SIZES)
  assert (config.selection, config.server_optimizer) == ('uniform', 'yogi')
  assert config.client_learning_rate == 0.2
  assert config.server_learning_rate == 4.0


@pytest.mark.parametrize(
  'settings, name',
  [
    ({'algorithm': 'fedadam'}, 'fedadam'),
    ({'algorithm': 'fedavg', 'selection': 'f3ast'}, 'f3ast'),
    ({'algorithm': 'f3ast', 'server_optimizer': 'adam'}, 'f3ast_adam'),
    ({'algorithm': 'f3ast', 'server_optimizer': 'yogi'}, 'f3ast-yogi'),
    ({'algorithm': 'f3ast', 'proximal': 0.1}, 'f3ast-proximal=0.1'),
    ({'algorithm': 'fedavg', 'selection': 'uniform'}, 'uniform-sgd'),
    (
      {'algorithm': 'fedavg', 'selection': 'proportional_with_replacement'},
      'fedavg_with_replacement',
    ),
    ({'algorithm': 'fedadam_with_replacement'}, 'fedadam_with_replacement'),
    ({'algorithm': 'f3ast_safe'}, 'f3ast_safe'),
    (
      {'algorithm': 'f3ast', 'rate_step': 'annealed:10', 'sum_cap': 1.0},
      'f3ast_safe',
    ),
    (
      {'algorithm': 'f3ast_safe', 'server_optimizer': 'adam'},
      'f3ast_adam-rate_step=annealed:10-sum_cap=1',
    ),
    (
      {'algorithm': 'f3ast_safe', 'rate_step': 'constant', 'sum_cap': 0.0},
      'f3ast',
    ),
    # One run, made in two ways.
    (
      {'algorithm': 'f3ast', 'rate_step': 'annealed:10'},
      'f3ast-rate_step=annealed:10',
    ),
    (
      {'algorithm': 'f3ast_safe', 'sum_cap': 0.0},
      'f3ast-rate_step=annealed:10',
    ),
    (
      {'algorithm': 'fedavg', 'selection': 'uniform', 'sum_cap': 0.5},
      'uniform-sgd-sum_cap=0.5',
    ),
    ({'algorithm': 'scaffold', 'sum_cap': 1.0}, 'scaffold-sum_cap=1'),
    (
      {'algorithm': 'f3ast', 'weight_cap': 2.0, 'proximal': 0.1},
      'f3ast-weight_cap=2-proximal=0.1',
    ),
    # From a file that this program was not given.
    ({'algorithm': 'mine', 'sum_cap': 1.0}, 'mine-sum_cap=1'),
  ],
)
def test_methods_are_called_by_what_they_are(settings, name):
  assert config_lib.method_name(settings) == name


@pytest.mark.parametrize(
  'changes',
  [
    {'groups': 'blocks:2', 'target': 'groups'},
    {'groups': 'labels', 'group_quota': '1..2/..'},
    {'groups': 'file:a.csv', 'group_quota': 'a:1..', 'algorithm': 'fedadam'},
    # Departures of FedAvg do not concern F3AST.
    {
      'groups': 'blocks:2',
      'group_quota': '..1',
      'protocol': 'draw_with_replacement',
    },
    {'target': 'uniform', 'algorithm': 'power_of_choice'},
    {'target': 'groups', 'groups': 'blocks:2', 'selection': 'fixed_policy'},
  ],
)
def test_groups_and_targets_that_fit(changes):
  config_lib.Config(**changes)


def test_the_steps_of_scaffold_can_be_given():
  config_lib.Config(server_rate_file='x.csv', algorithm='scaffold')


@pytest.mark.parametrize(
  'changes, message',
  [
    ({'algorithm': 'x'}, 'fedavg, f3ast, power_of_choice, fedadam'),
    ({'avail': 'x'}, 'always, scarce, home_devices, smartphones, uneven'),
    ({'avail': 'scarce:1.5'}, r'probabilities in \[0, 1\]'),
    ({'beta': 0.0}, 'beta must be in'),
    ({'beta': float('nan')}, 'finite'),
    ({'server_epsilon': -1.0}, 'above 0'),
    ({'rounds': 0}, 'at least 1'),
    ({'num_candidates': 0}, 'at least 1'),
    (
      {'algorithm': 'power_of_choice', 'num_candidates': 9},
      'at least K for Power-of-Choice, but it is 9 and K is up to 10',
    ),
    (
      {'selection': 'power_of_choice', 'clients_per_round': 'uniform:1,31'},
      'it is 30 and K is up to 31',
    ),
    ({'proximal': -0.1}, 'at least 0'),
    ({'local_steps': -1}, 'local_steps must be at least 0'),
    (
      {'server_rate_file': 'x.csv', 'algorithm': 'fedadam_with_replacement'},
      'for server_optimizer=sgd only, but that is adam',
    ),
    (
      {'server_rate_file': 'x.csv', 'server_optimizer': 'momentum'},
      'for server_optimizer=sgd only, but that is momentum',
    ),
    *(
      (
        {'server_rate_file': 'x.csv', 'algorithm': name},
        'server_rate_file is for methods whose step is a sum of weighted',
      )
      for name in ('mifa', 'fedvarp', 'fedawe', 'feddyn')
    ),
    (
      {'local_steps': 5, 'local_epochs': 2},
      'takes the place of local_epochs.* they are 5 and 2',
    ),
    ({'selection': 'x'}, 'fixed_policy'),
    ({'server_optimizer': 'x'}, 'yogi'),
    ({'algorithm': None}, 'algorithm must be one of'),
    ({'protocol': 'paper,released'}, "but it holds 'paper'"),
    ({'target': 'p'}, "target is 'p', but it must be data, uniform"),
    ({'target': 'groups'}, 'but there is no groups'),
    ({'group_quota': '..2'}, 'but there is no groups'),
    ({'groups': 'blocks:2'}, 'but there is only groups'),
    ({'groups': 'blocks', 'group_quota': '..2'}, "groups is 'blocks'"),
    ({'groups': 'blocks:2', 'group_quota': '2'}, "group_quota is '2'"),
    (
      {
        'groups': 'blocks:2',
        'group_quota': '..2',
        'algorithm': 'power_of_choice',
      },
      'f3ast, proportional, uniform, .* but not by power_of_choice',
    ),
    (
      {'groups': 'labels', 'group_quota': '..2', 'protocol': 'divide_by_k'},
      'as in the paper, but protocol is divide_by_k',
    ),
    (
      {
        'groups': 'blocks:2',
        'group_quota': '1..',
        'delivery': '0.9',
        'over_selection': 1.3,
      },
      'Quotas of groups need over_selection=1, .* but it is 1.3; leave',
    ),
    (
      {'delivery': '0.9', 'over_selection': 1e308},
      'over_selection must be at most 100',
    ),
    (
      {'algorithm': 'mifa', 'weight_cap': 0.5},
      '^weight_cap must be 0 with mifa and fedawe',
    ),
    (
      {'algorithm': 'f3ast_safe', 'method': 'fedawe'},
      '^sum_cap must be 0 with mifa and fedawe',
    ),
    ({'batch_size': 0}, 'at least 1'),
    ({'seed': -1}, 'at least 0'),
    ({'clients_per_round': 'schedule:0,0'}, 'nobody would ever train'),
    ({'clients_per_round': 'markov:10,0,1,0'}, 'nobody would ever train'),
    (
      {'clients_per_round': 'schedule:0,0,10', 'rounds': 2},
      'is 0 up to round 2, the last one',
    ),
    ({'rounds': 10**19}, 'rounds must be at most 1000000000, but it is 1000'),
  ],
)
def test_bad_settings_are_named(changes, message):
  with pytest.raises(ValueError, match=message):
    config_lib.Config(**changes)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
