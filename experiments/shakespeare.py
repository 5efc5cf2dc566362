"""Shakespeare: next-character prediction on 715 speaking roles.

For example: python -m experiments.shakespeare --algorithm=f3ast --avail=scarce
"""

import functools
from typing import Optional

from absl import flags

from experiments import cli
from f3ast_tff.runs import config as config_lib

_MODEL = flags.DEFINE_enum(
  'model',
  'paper',
  ('paper', 'compact'),
  'Two LSTM layers of 256 as in the paper, or small ones.',
)
_DATA_SOURCE = flags.DEFINE_enum(
  'data_source',
  'tff',
  ('tff', 'sample'),
  "TFF's data set, or a tiny built-in stand-in for a smoke test, never for "
  'results.',
)
_DATA_DIR = flags.DEFINE_string(
  'data_dir', None, "Where the data are; by default TFF's own cache."
)
cli.define_flags(
  config_lib.Config(
    rounds=500,
    batch_size=4,
    eval_every=10,
    eval_examples=1000,
    checkpoint_every=10,
  )
)

# Reddi et al. (2020), the tables of best learning rates for Shakespeare.
_LEARNING_RATES = {
  'sgd': config_lib.LearningRates(client=1.0, server=1.0),
  'momentum': config_lib.LearningRates(client=1.0, server=10**-0.5),
  'adam': config_lib.LearningRates(1.0, server=10**-2.0, epsilon=10**-3.0),
  'yogi': config_lib.LearningRates(1.0, server=10**-2.0, epsilon=10**-3.0),
  'adagrad': config_lib.LearningRates(1.0, server=10**-0.5, epsilon=10**-1.0),
}


def _task_settings():
  return {'model': _MODEL.value, 'data_source': _DATA_SOURCE.value}


def _build_task(config):
  # Here, because TensorFlow takes seconds to import.
  from f3ast_tff.datasets import shakespeare
  from f3ast_tff.models import character_lstm
  from f3ast_tff.runs import task

  load = functools.partial(
    shakespeare.load,
    _DATA_SOURCE.value,
    cli.data_dir(_DATA_DIR.value),
    config.seed,
  )
  model = character_lstm.build(config.seed, _MODEL.value)
  return task.Task(load(), model, load)


EXPERIMENT = cli.Experiment(
  'shakespeare', _task_settings, _build_task, _LEARNING_RATES
)


def main(release_managers: Optional[cli.ReleaseManagers] = None) -> None:
  """Runs the experiment; `cli.run` has what release managers are."""
  cli.run(*EXPERIMENT, release_managers)


if __name__ == '__main__':
  main()
