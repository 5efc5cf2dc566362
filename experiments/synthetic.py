"""Synthetic(a, a): softmax regression on 100 clients of very unequal size.

For example: python -m experiments.synthetic --algorithm=f3ast --avail=scarce
"""

import functools
from typing import Optional

from absl import flags

from experiments import cli
from f3ast_tff.runs import config as config_lib

_ALPHA = flags.DEFINE_float(
  'alpha', 1.0, 'How much clients differ: the data are Synthetic(alpha, alpha).'
)
_NUM_CLIENTS = flags.DEFINE_integer(
  'num_clients',
  100,
  'The number of clients N.',
  lower_bound=1,
  upper_bound=10**5,  # Their examples take 11 GB.
)
cli.define_flags(config_lib.Config())

# The client rate is the paper's (Appendix D). It is silent on the others here;
# these are the server rates and epsilons of Reddi et al. for Shakespeare, not
# tuned.
_LEARNING_RATES = {
  'sgd': config_lib.LearningRates(client=0.01, server=1.0),
  'momentum': config_lib.LearningRates(client=0.01, server=10**-0.5),
  'adam': config_lib.LearningRates(0.01, server=10**-2.0, epsilon=10**-3.0),
  'yogi': config_lib.LearningRates(0.01, server=10**-2.0, epsilon=10**-3.0),
  'adagrad': config_lib.LearningRates(0.01, server=10**-0.5, epsilon=10**-1.0),
}


def _task_settings():
  return {'alpha': _ALPHA.value, 'num_clients': _NUM_CLIENTS.value}


def _build_task(config):
  # Here, because TensorFlow takes seconds to import.
  from f3ast_tff.datasets import synthetic
  from f3ast_tff.models import softmax
  from f3ast_tff.runs import task

  load = functools.partial(
    synthetic.load, _ALPHA.value, _ALPHA.value, _NUM_CLIENTS.value, config.seed
  )
  return task.Task(load(), softmax.build(), load)


EXPERIMENT = cli.Experiment(
  'synthetic', _task_settings, _build_task, _LEARNING_RATES
)


def main(release_managers: Optional[cli.ReleaseManagers] = None) -> None:
  """Runs the experiment; `cli.run` has what release managers are."""
  cli.run(*EXPERIMENT, release_managers)


if __name__ == '__main__':
  main()
