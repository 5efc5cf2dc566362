"""CIFAR-100: ResNet-18 with group norm on 500 clients of 100 images.

For example: python -m experiments.cifar100 --algorithm=f3ast --avail=scarce
"""

import functools
from typing import Optional

from absl import flags

from experiments import cli
from f3ast_tff.runs import config as config_lib

_MODEL = flags.DEFINE_enum(
  'model',
  'paper',
  ('paper', 'paper_2_groups', 'compact'),
  'ResNet-18 as in the paper, with group norm in 32 groups or in 2, or a small '
  'one for small machines.',
)
_DATA_SOURCE = flags.DEFINE_enum(
  'data_source',
  'tff',
  ('tff', 'official', 'tfds', 'sample'),
  "TFF's data set; the official cifar-100-python folder in --data_dir, whose "
  'files are pickles and are read without running anything in them; '
  'tensorflow-datasets; or a tiny stand-in for smoke tests, never for results.',
)
_DATA_DIR = flags.DEFINE_string(
  'data_dir', None, "Where the data are; by default TFF's own cache."
)
cli.define_flags(
  config_lib.Config(
    rounds=1000, eval_every=20, eval_examples=2000, checkpoint_every=10
  )
)

# Reddi et al. (2020), the tables of best learning rates for CIFAR-100.
_LEARNING_RATES = {
  'sgd': config_lib.LearningRates(10**-1.0, server=10**0.5),
  'momentum': config_lib.LearningRates(10**-1.5, server=1.0),
  'adam': config_lib.LearningRates(10**-1.5, server=1.0, epsilon=10**-1.0),
  'yogi': config_lib.LearningRates(10**-1.5, server=1.0, epsilon=10**-1.0),
  'adagrad': config_lib.LearningRates(0.1, server=0.1, epsilon=10**-2.0),
}


def _task_settings():
  return {'model': _MODEL.value, 'data_source': _DATA_SOURCE.value}


def _build_task(config):
  # Here, because TensorFlow takes seconds to import.
  from f3ast_tff.datasets import cifar100
  from f3ast_tff.models import resnet
  from f3ast_tff.runs import task

  load = functools.partial(
    cifar100.load,
    _DATA_SOURCE.value,
    cli.data_dir(_DATA_DIR.value),
    config.seed,
  )
  return task.Task(load(), resnet.build(config.seed, _MODEL.value), load)


EXPERIMENT = cli.Experiment(
  'cifar100', _task_settings, _build_task, _LEARNING_RATES
)


def main(release_managers: Optional[cli.ReleaseManagers] = None) -> None:
  """Runs the experiment; `cli.run` has what release managers are."""
  cli.run(*EXPERIMENT, release_managers)


if __name__ == '__main__':
  main()
