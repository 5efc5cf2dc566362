"""Rounds against TFF's own runtime: it must give the numbers that ours gives.

The cohorts that a run has chosen are played once more through `process.next` in
TFF's worker, which shares neither the executor nor its threads.
"""

import sys

import numpy as np
import pytest

from f3ast_tff import rates
from f3ast_tff.datasets import cifar100
from f3ast_tff.datasets import shakespeare
from f3ast_tff.datasets import synthetic
from f3ast_tff.execution import server as server_lib
from f3ast_tff.learning import engine as engine_lib
from f3ast_tff.models import character_lstm
from f3ast_tff.models import resnet
from f3ast_tff.models import softmax
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import environment
from tests import native

_METHODS = tuple(config_lib.ALGORITHMS)


@pytest.fixture(scope='module', autouse=True)
def _worker():
  with native.worker():
    yield


def _synthetic():
  dataset = synthetic.load(num_clients=12, seed=3)
  return engine_lib.Task(dataset, softmax.build())


def _shakespeare():
  return engine_lib.Task(
    shakespeare.load('sample'), character_lstm.build(variant='compact')
  )


def _cifar100():
  return engine_lib.Task(
    cifar100.load('sample'), resnet.build(variant='compact')
  )


def _compare(task, algorithm, num_rounds, step_sizes, **settings):
  config = config_lib.Config(
    algorithm=algorithm,
    rounds=num_rounds,
    avail='scarce',
    parallel_clients=2,
    beta=0.01,
    **settings,
  ).resolve(dict.fromkeys(config_lib.SERVER_OPTIMIZERS, step_sizes))
  engine = engine_lib.build(config, task)
  server = server_lib.Server(engine)
  next_fn, state = engine.process.next, engine.process.initialize()
  r = np.array(engine.environment.initial_rates)
  sizes = set()
  for t in range(1, num_rounds + 1):
    # What TFF's state says decides who is selected, too.
    available, cohort = environment.select(
      config, engine.environment, state.rates, t, _losses_of(engine, state, t)
    )
    output = next_fn(state, engine.shards(cohort, t))
    played = server.play(t)
    np.testing.assert_array_equal(played.available, available)
    np.testing.assert_array_equal(played.cohort.clients, cohort.clients)
    np.testing.assert_array_equal(played.cohort.weights, cohort.weights)
    state, ours = output.state, server.state
    r = rates.update(r, np.isin(np.arange(r.size), cohort.clients), 0.01)
    np.testing.assert_array_equal(ours.rates, r)
    np.testing.assert_array_equal(state.rates, r)
    for one, other in zip(
      ours.global_model_weights.trainable, state.global_model_weights.trainable
    ):
      np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    for name in ('participants', 'left_out', 'sum_of_weights'):
      assert played.metrics['selection'][name] == pytest.approx(
        output.metrics['selection'][name], rel=1e-6
      )
    sizes.add(cohort.clients.size)
  first = task.model.functional.initial_weights[0]
  moved = [
    np.abs(new - old).max()
    for new, old in zip(ours.global_model_weights.trainable, first)
  ]
  assert max(moved) > 1e-3  # Or all that was compared is where it began.
  return sizes


def _losses_of(engine, state, t):
  """Asks clients for their losses in TFF's worker."""

  def losses_of(clients):
    parts = engine.parts_asked(clients, t)
    _, losses = engine.ask(state, list(map(engine.asked.fill, parts)))
    return losses[clients]

  return losses_of


@pytest.mark.parametrize('algorithm', _METHODS)
def test_synthetic(algorithm):
  sizes = _compare(
    _synthetic(),
    algorithm,
    20,
    config_lib.LearningRates(0.01, 0.1, 0.001),
    clients_per_round='uniform:1,4',
    num_candidates=6,
  )
  assert len(sizes) > 2


@pytest.mark.slow
@pytest.mark.parametrize('algorithm', ['f3ast_adam', 'power_of_choice'])
def test_shakespeare(algorithm):
  _compare(
    _shakespeare(),
    algorithm,
    3,
    config_lib.LearningRates(0.1, 0.01, 0.001),
    clients_per_round='3',
    num_candidates=4,
    batch_size=4,
  )


@pytest.mark.slow
@pytest.mark.parametrize('algorithm', ['f3ast', 'power_of_choice'])
def test_cifar100(algorithm):
  _compare(
    _cifar100(),
    algorithm,
    2,
    config_lib.LearningRates(0.01, 1.0),
    clients_per_round='2',
    num_candidates=3,
  )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
