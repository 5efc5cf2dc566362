"""Rounds in TFF's own runtime: it must give the numbers that ours gives.

`Training.next` runs in TFF's worker, which shares neither the executor nor its
threads, beside `Rounds` in this process.
"""

import sys

import numpy as np
import pytest
import tensorflow as tf

from f3ast_tff import rates
from f3ast_tff.datasets import cifar100
from f3ast_tff.datasets import shakespeare
from f3ast_tff.execution import rounds as rounds_lib
from f3ast_tff.models import character_lstm
from f3ast_tff.models import resnet
from f3ast_tff.runs import task as task_lib
from tests import native
from tests import slow


@pytest.fixture(scope='module', autouse=True)
def _worker():
  with native.worker():
    yield


def _compare(task, config):
  """Runs all rounds in both; returns the sizes of the cohorts."""
  training = task_lib.build(config, task)
  rounds = rounds_lib.Rounds(training)
  state = training.initialize()
  r = np.array(training.selector.initial_rates)
  sizes = set()
  for t in range(1, config.rounds + 1):
    # What TFF's state says decides who is selected, too.
    available, cohort, *_ = training.select(state, t)
    state, metrics = training.next(state, t)
    round_ = rounds.run(t)
    np.testing.assert_array_equal(round_.available, available)
    np.testing.assert_array_equal(round_.cohort.clients, cohort.clients)
    np.testing.assert_array_equal(round_.cohort.weights, cohort.weights)
    ours = rounds.state
    np.testing.assert_array_equal(ours.rates, state.rates)
    if training.selector.rate_step == rates.CONSTANT:
      took_part = np.isin(np.arange(r.size), cohort.clients)
      r = rates.update(r, took_part, config.beta)
      np.testing.assert_array_equal(state.rates, r)
    assert dict(ours.kept).keys() == dict(state.kept).keys()
    for name, kept in dict(state.kept).items():
      np.testing.assert_array_equal(dict(ours.kept)[name], kept)
    for one, other in zip(
      tf.nest.flatten(ours.vectors), tf.nest.flatten(state.vectors), strict=True
    ):
      np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    for one, other in zip(
      ours.global_model_weights.trainable, state.global_model_weights.trainable
    ):
      np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    for name in ('selected', 'excluded', 'sum_of_weights'):
      assert round_.metrics['selection'][name] == pytest.approx(
        metrics['selection'][name], rel=1e-6
      )
    sizes.add(cohort.clients.size)
  first = task.model.functional.initial_weights[0]
  moved = [
    np.abs(new - old).max()
    for new, old in zip(ours.global_model_weights.trainable, first)
  ]
  assert max(moved) > 1e-3  # Or all that was compared is where it began.
  return sizes


# One of each kind: rates only, Adam, losses, kept numbers, a vector per client.
@pytest.mark.parametrize(
  'algorithm',
  slow.but(
    ['power_of_choice', 'scaffold'],
    ['f3ast_safe', 'f3ast_adam', 'power_of_choice', 'fedau', 'scaffold'],
  ),
)
def test_synthetic(algorithm, task, make_config):
  config = make_config(
    algorithm=algorithm,
    rounds=12,
    avail='scarce',
    beta=0.01,
    clients_per_round='uniform:1,4',
    num_candidates=6,
  )
  assert len(_compare(task, config)) > 2


# Power-of-Choice has the models compute losses, too; the methods are above.
@pytest.mark.slow
def test_shakespeare(make_config):
  task = task_lib.Task(
    shakespeare.load('sample'), character_lstm.build(variant='compact')
  )
  config = make_config(
    algorithm='power_of_choice',
    rounds=3,
    avail='scarce',
    beta=0.01,
    num_candidates=4,
    batch_size=4,
    client_learning_rate=0.1,
    server_learning_rate=0.01,
  )
  _compare(task, config)


@pytest.mark.slow
def test_cifar100(make_config):
  task = task_lib.Task(
    cifar100.load('sample'), resnet.build(variant='compact')
  )
  config = make_config(
    algorithm='power_of_choice',
    rounds=2,
    avail='scarce',
    beta=0.01,
    clients_per_round='2',
    num_candidates=3,
    client_learning_rate=0.01,
    server_learning_rate=1.0,
  )
  _compare(task, config)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
