"""Tests of `config`."""

import dataclasses
import sys

import pytest

from f3ast_tff import config as config_lib


def test_the_paper_s_settings_are_the_defaults():
  config = config_lib.Config()
  assert (config.clients_per_round, config.beta) == ('10', 0.001)
  assert (config.batch_size, config.local_epochs) == (20, 1)


def test_every_setting_explains_itself():
  for field in dataclasses.fields(config_lib.Config):
    assert field.metadata['help'].endswith(('.', '...'))


def test_learning_rates_of_the_task_fill_in_what_is_not_given():
  config = config_lib.Config(client_learning_rate=0.5)
  config = config.with_learning_rates(config_lib.LearningRates(0.1, 2.0, 0.3))
  assert config.client_learning_rate == 0.5
  assert (config.server_learning_rate, config.server_epsilon) == (2.0, 0.3)


@pytest.mark.parametrize(
  'changes, message',
  [
    ({'algorithm': 'x'}, 'fedavg, f3ast, fedadam, f3ast_adam'),
    ({'avail': 'x'}, 'always, scarce, home_devices, smartphones, uneven'),
    ({'beta': 0.0}, 'beta must be in'),
    ({'beta': float('nan')}, 'finite'),
    ({'server_epsilon': -1.0}, 'above 0'),
    ({'rounds': 0}, 'at least 1'),
    ({'batch_size': 0}, 'at least 1'),
    ({'seed': -1}, 'at least 0'),
    ({'clients_per_round': 'schedule:0,0'}, 'nobody would ever train'),
  ],
)
def test_bad_settings_are_named(changes, message):
  with pytest.raises(ValueError, match=message):
    config_lib.Config(**changes)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
