"""Tests of `config`."""

import dataclasses
import sys

import pytest

from f3ast_tff.runs import config as config_lib


def test_the_paper_s_settings_are_the_defaults():
  config = config_lib.Config()
  assert (config.clients_per_round, config.beta) == ('10', 0.001)
  assert (config.batch_size, config.local_epochs) == (20, 1)


def test_every_setting_explains_itself():
  for field in dataclasses.fields(config_lib.Config):
    assert field.metadata['help'].endswith(('.', '...'))


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
  ],
)
def test_methods_are_called_by_what_they_are(settings, name):
  assert config_lib.method_name(settings) == name


@pytest.mark.parametrize(
  'changes, message',
  [
    ({'algorithm': 'x'}, 'fedavg, f3ast, power_of_choice, fedadam'),
    ({'avail': 'x'}, 'always, scarce, home_devices, smartphones, uneven'),
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
    (
      {'local_steps': 5, 'local_epochs': 2},
      'takes the place of local_epochs.* they are 5 and 2',
    ),
    ({'selection': 'x'}, 'fixed_policy'),
    ({'server_optimizer': 'x'}, 'yogi'),
    ({'algorithm': None}, 'algorithm must be one of'),
    ({'protocol': 'paper,released'}, "but it holds 'paper'"),
    ({'batch_size': 0}, 'at least 1'),
    ({'seed': -1}, 'at least 0'),
    ({'clients_per_round': 'schedule:0,0'}, 'nobody would ever train'),
    ({'clients_per_round': 'markov:10,0,1,0'}, 'nobody would ever train'),
  ],
)
def test_bad_settings_are_named(changes, message):
  with pytest.raises(ValueError, match=message):
    config_lib.Config(**changes)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
