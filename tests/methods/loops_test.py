"""Every method against a plain NumPy loop, 30 rounds of softmax regression.

The loop has the cohorts and the batches of the run, and nothing else: weights,
rates, vectors, local steps and the server's step are its own.
"""

import functools
import sys

import numpy as np
import pytest

from f3ast_tff import selection
from f3ast_tff.datasets import synthetic
from f3ast_tff.execution import rounds as rounds_lib
from f3ast_tff.methods import fedavg
from f3ast_tff.models import softmax
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import task as task_lib
from tests import reference_loops as loops
from tests import slow

pytestmark = pytest.mark.usefixtures('in_process')

_RATE = 0.05
_BETA = 0.02


@functools.cache
def _task():
  return task_lib.Task(synthetic.load(num_clients=20, seed=3), softmax.build())


def _config(**changes):
  settings = {
    'avail': 'uneven',
    'clients_per_round': '4',
    'rounds': 30,
    'beta': _BETA,
    'parallel_clients': 2,
    **changes,
  }
  step_sizes = config_lib.LearningRates(_RATE, 1.0)
  return config_lib.Config(**settings).resolve({'sgd': step_sizes})


def _flat(state):
  leaves = state.global_model_weights.trainable
  return np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(float)


def _run(training):
  """Returns the first model, the cohorts, and the models after each round."""
  rounds = rounds_lib.Rounds(training)
  first = _flat(rounds.state)
  cohorts, models = [], []
  for t in range(1, 31):
    found = rounds.run(t)
    there = np.flatnonzero(found.available).tolist()
    clients, weights = found.cohort
    if training.selector.policy is fedavg.select_with_replacement:
      clients = np.repeat(clients, np.rint(4 * weights).astype(int))
    cohorts.append((clients.tolist(), there))
    models.append(_flat(rounds.state))
  return first, cohorts, models


def _trainer(training):
  """Returns `train` of the loops, on the batches that clients have."""
  data = training.cohort_data

  def train(k, round_num, start, correction, proximal):
    alone = selection.Cohort(np.array([k]), np.ones(1))
    (shard,) = [s for s in data(alone, round_num) if s.clients[0, 0] == k]
    _, begin, end = shard.clients[0]
    x, y = (np.asarray(shard.examples[name]) for name in 'xy')
    batches = [
      (x[rows[rows >= 0]].astype(float), y[rows[rows >= 0]])
      for rows in shard.batches[begin:end]
    ]
    return loops.local_sgd(
      loops.softmax_gradient, start, batches, _RATE, correction, proximal
    )

  return train


def _loss(k, w):
  examples = _task().dataset.train[k]
  return loops.softmax_loss(w, (examples['x'].astype(float), examples['y']))


def _with_losses(loop):
  return functools.partial(loop, loss=_loss)


_AFL = functools.partial(
  _with_losses(loops.afl), ascent=0.01, floor=0.1 / 20, beta=_BETA
)
_R = object()  # To be replaced by r(0).
_PI = object()  # By the true probabilities to be available.
_RATES = {'beta': _BETA, 'r': _R}

_METHODS = {
  'fedavg': ({'algorithm': 'fedavg'}, loops.fedavg, {}),
  'fedavg_with_replacement': (
    {'algorithm': 'fedavg_with_replacement'}, loops.fedavg, {}
  ),
  'uniform': ({'algorithm': 'uniform'}, loops.fedavg, {'by_share': True}),
  'f3ast': ({}, loops.f3ast, _RATES),
  'f3ast_safe': (
    {'algorithm': 'f3ast_safe'}, loops.f3ast, {**_RATES, 't0': 10, 'sum_cap': 1}
  ),
  'corrected rates, weight cap': (
    {'rate_step': 'corrected', 'weight_cap': 0.3},
    loops.f3ast,
    {**_RATES, 'corrected': True, 'cap': 0.3},
  ),
  'f3ast + fedprox': (
    {'proximal': 0.5}, loops.fedprox, {**_RATES, 'mu': 0.5}
  ),
  'fedau': ({'algorithm': 'fedau'}, loops.fedau, {}),
  'f3ast + fedau': ({'method': 'fedau:7'}, loops.fedau, {'cutoff': 7}),
  'ca_fed': (
    {'algorithm': 'ca_fed'}, _with_losses(loops.ca_fed), {'by_past': True}
  ),
  'ca_fed, told pi': (
    {'algorithm': 'ca_fed', 'method': 'ca_fed:true'},
    _with_losses(loops.ca_fed),
    {'pi': _PI, 'lam': np.zeros(20)},
  ),
  'mifa': ({'algorithm': 'mifa'}, loops.mifa, {}),
  'f3ast + mifa': ({'method': 'mifa'}, loops.mifa, {}),
  'fedvarp': ({'algorithm': 'fedvarp'}, loops.fedvarp, {}),
  'f3ast + fedvarp': ({'method': 'fedvarp'}, loops.fedvarp, _RATES),
  'f3ast + fedstale': (
    {'method': 'fedvarp:0.5'}, loops.fedvarp, {**_RATES, 's': 0.5}
  ),
  'fedawe': ({'algorithm': 'fedawe'}, loops.fedawe, {'by_share': True}),
  'f3ast + fedawe': ({'method': 'fedawe'}, loops.fedawe, {'by_share': True}),
  'scaffold': ({'algorithm': 'scaffold'}, loops.scaffold, {'rate': _RATE}),
  'f3ast + scaffold': (
    {'method': 'scaffold'}, loops.scaffold, {**_RATES, 'rate': _RATE}
  ),
  'feddyn': ({'algorithm': 'feddyn'}, loops.feddyn, {'alpha': 0.01}),
  'f3ast + feddyn': (
    {'method': 'feddyn:0.1'}, loops.feddyn, {**_RATES, 'alpha': 0.1}
  ),
  # A larger step makes rounding grow from 1e-8 to 1e-3 within 30 rounds.
  'afl': (
    {'algorithm': 'afl', 'method': 'afl:0.001'},
    _AFL,
    {'r': _R, 'ascent': 0.001},
  ),
  'f3ast + afl': ({'method': 'afl:0.01'}, _AFL, {'r': _R}),
}


_ALONE = [name for name in _METHODS if ' + ' not in name and ',' not in name]


@pytest.mark.parametrize(
  'name', slow.but([*_ALONE, 'f3ast + scaffold'], _METHODS)
)
def test_thirty_rounds_are_those_of_the_loop(name):
  settings, loop, arguments = _METHODS[name]
  training = task_lib.build(_config(**settings), _task())
  first, cohorts, models = _run(training)
  selector = training.selector
  known = {
    _R: selector.initial_rates, _PI: selector.availability.probabilities(1)
  }
  arguments = {
    key: known[value] if value is _R or value is _PI else value
    for key, value in arguments.items()
  }
  expected, _ = loop(
    first, training.selector.p, cohorts, _trainer(training), **arguments
  )
  np.testing.assert_allclose(models, expected, rtol=1e-4, atol=1e-4)
  assert np.abs(models[-1] - first).max() > 0.05


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
