"""Tests of `training` inside what TFF users have: loops and aggregators."""

import asyncio
import dataclasses
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import f3ast_tff
from f3ast_tff import availability
from f3ast_tff import delivery as delivery_lib
from f3ast_tff import rates
from f3ast_tff import selection
from f3ast_tff.execution import rounds as rounds_lib
from tests import linear
from tests import slow

pytestmark = pytest.mark.usefixtures('in_process')


@pytest.fixture(params=[True, False], ids=['arrays', 'datasets'])
def in_memory(request):
  """Both ways in which clients train."""
  return request.param


def _step(training, cohort):
  """Returns by how much one round with the cohort moves the model."""
  state = training.initialize()
  output = training.process.next(state, training.inputs(cohort, 1))
  moved = linear.weights_of(output.state) - linear.weights_of(state)
  return moved.ravel(), output


def _cohort(*weights):
  clients = np.flatnonzero(weights)
  return selection.Cohort(clients, np.array(weights)[clients])


_COHORT = _cohort(0.4, 0, 1.3, 0.2)


def test_a_client_alone_moves_the_model_by_its_update(in_memory):
  training = linear.build(in_memory)
  for k, row in enumerate(np.eye(4)):
    np.testing.assert_allclose(
      _step(training, _cohort(*row))[0],
      linear.update(k).ravel(),
      rtol=1e-5,
      atol=1e-6,
    )


def test_rounds_by_hand(in_memory):
  # Everybody is there, K = 2. F3AST takes those with the highest p^2 / r^2, and
  # weighs by p / r(t), all from the rates in the state.
  training = linear.build(in_memory)
  state = training.initialize()
  r, weights = np.minimum(1, 2 * linear.P), np.zeros((3, 1))
  for t in range(1, 6):
    scores = (linear.P / r) ** 2
    before = state
    state, metrics = training.next(state, t)
    clients = training.select(before, t).cohort.clients
    others = np.setdiff1d(np.arange(4), clients)
    assert scores[clients].min() >= scores[others].max() * (1 - 1e-9)
    r = rates.update(r, np.isin(np.arange(4), clients), 0.1)
    np.testing.assert_array_equal(state.rates, r)
    weights = weights + sum(
      linear.P[k] / r[k] * linear.update(k, weights) for k in clients
    )
    np.testing.assert_allclose(
      linear.weights_of(state), weights, rtol=1e-4, atol=1e-5
    )
    assert metrics['selection']['selected'] == 2


def test_rounds_in_which_nobody_is_there_are_rounds_too(in_memory):
  training = linear.build(in_memory)
  selector = dataclasses.replace(
    training.selector, availability=availability.scarce(4, seed=1)
  )
  training = dataclasses.replace(training, selector=selector)
  state = training.initialize()
  empty = 0
  for t in range(1, 16):
    before = state
    state, metrics = training.next(state, t)
    cohort = training.select(before, t).cohort
    np.testing.assert_array_equal(
      state.rates, training.selector.next_rates(before.rates, cohort)
    )
    if not metrics['selection']['selected']:
      empty += 1
      np.testing.assert_array_equal(
        linear.weights_of(state), linear.weights_of(before)
      )
  assert empty > 0
  error = np.linalg.norm(linear.weights_of(state) - linear.TRUE)
  assert error < 0.5 * np.linalg.norm(linear.TRUE)  # The model learns.


def test_the_rates_of_the_state_decide_and_nothing_remembers_others(in_memory):
  training = linear.build(in_memory)
  state = training.initialize()
  for wanted in ([0, 1], [2, 3], [1, 3]):
    low = np.where(np.isin(np.arange(4), wanted), 0.01, 1.0)
    output = training.next(state._replace(rates=low), 1)
    mask = np.isin(np.arange(4), wanted)
    np.testing.assert_array_equal(
      output.state.rates, rates.update(low, mask, 0.1)
    )


def test_tffs_own_loop_runs_it_and_resumes(tmp_path, in_memory):
  asyncio.set_event_loop(asyncio.new_event_loop())  # The loop takes this one.
  training = linear.build(in_memory)
  state = training.initialize()
  cohorts = []
  for t in range(1, 6):
    cohorts.append(training.select(state, t).cohort)
    state = training.next(state, t).state

  def run(rounds):
    # As a program does that starts anew.
    again = linear.build.__wrapped__(in_memory)
    return tff.simulation.run_training_process(
      again.process,
      lambda t: again.inputs(cohorts[t - 1], t),
      rounds,
      program_state_manager=tff.program.FileProgramStateManager(
        tmp_path / 'states'
      ),
      metrics_managers=[
        tff.program.CSVFileReleaseManager(tmp_path / 'metrics.csv')
      ],
    )

  run(3)
  final = run(5)
  np.testing.assert_array_equal(final.rates, state.rates)
  np.testing.assert_allclose(
    linear.weights_of(final), linear.weights_of(state), rtol=1e-6
  )
  assert len((tmp_path / 'metrics.csv').read_text().splitlines()) == 1 + 5


def _clip(vectors, norm):
  lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
  return vectors * np.minimum(1, norm / lengths)


_MEMBERS = linear.updates()[_COHORT.clients]
_SUM = _COHORT.weights @ _MEMBERS
_WEIGHTED = _COHORT.weights[:, None] * _MEMBERS
_NORM = float(np.median(np.linalg.norm(linear.updates(), axis=1)))

_AGGREGATORS = {
  # The aggregator, the server's rate, what it comes to, and how exactly.
  'weighted mean': (
    tff.learning.robust_aggregator(zeroing=False, clipping=False),
    1.0,
    _SUM,
    1e-5,
  ),
  'clips updates before the weights': (
    tff.aggregators.clipping_factory(_NORM, tff.aggregators.MeanFactory()),
    1.0,
    _COHORT.weights @ _clip(_MEMBERS, _NORM),
    1e-5,
  ),
  # TFF's clips what it is given, here weight times update, to 0.1 at first,
  # adds noise, and divides by the number of clients that it is told.
  'differential privacy': (
    tff.learning.dp_aggregator(
      noise_multiplier=1e-6, clients_per_round=3, zeroing=False
    ),
    3.0,
    _clip(_WEIGHTED, 0.1).sum(axis=0),
    1e-4,
  ),
  # Secure sums are of integers.
  'secure': (
    tff.learning.secure_aggregator(zeroing=False, clipping=False),
    1.0,
    _SUM,
    1e-2,
  ),
}


# A secure sum takes long to compile and is given the same in both ways.
@pytest.mark.parametrize(
  'name, in_memory',
  [
    *slow.but(
      [name for name in _AGGREGATORS if name != 'secure'],
      [(name, True) for name in _AGGREGATORS],
    ),
    *slow.but(
      ['weighted mean'],
      [(name, False) for name in _AGGREGATORS if name != 'secure'],
    ),
  ],
)
def test_aggregators_of_theirs_equal_numpy(name, in_memory):
  aggregator, rate, expected, tolerance = _AGGREGATORS[name]
  training = linear.build(
    in_memory,
    aggregator=aggregator,
    server_optimizer=linear.SGD(rate),
  )
  step, output = _step(training, _COHORT)
  np.testing.assert_allclose(step, expected, atol=tolerance)
  assert np.abs(expected).max() > 0.02  # The test can tell.
  if 'clip' in name:
    assert np.abs(expected - _SUM).max() > 1e-3
    assert 'clipped_count' in str(output.metrics['aggregator'])


def test_the_robust_aggregator_survives_a_round_without_anybody(in_memory):
  training = linear.build(
    in_memory, aggregator=tff.learning.robust_aggregator()
  )
  step, output = _step(training, _cohort(0, 0, 0, 0))
  np.testing.assert_array_equal(step, 0)
  members = training.inputs(_COHORT, 2)
  state = training.process.next(output.state, members).state
  moved = linear.weights_of(state)
  assert np.isfinite(moved).all() and np.abs(moved).max() > 0


_CLIPPED = tff.aggregators.clipping_factory(0.3, tff.aggregators.MeanFactory())


@pytest.mark.parametrize(
  'in_memory, policy, aggregator',
  [
    (True, 'f3ast', None),
    (True, 'power_of_choice', _CLIPPED),
    (False, 'f3ast', _CLIPPED),
    (False, 'power_of_choice', None),
  ],
)
def test_next_and_rounds_give_the_same_states_to_the_bit(
  in_memory, policy, aggregator
):
  training = linear.build(
    in_memory, aggregator=aggregator, policy=policy, num_candidates=4
  )
  rounds = rounds_lib.Rounds(training)
  state = training.initialize()
  with f3ast_tff.in_process(training.num_shards):
    for t in range(1, 5):
      available, cohort, *_ = training.select(state, t)
      state, metrics = training.next(state, t)
      round_ = rounds.run(t)
      np.testing.assert_array_equal(round_.available, available)
      np.testing.assert_array_equal(round_.cohort.clients, cohort.clients)
      np.testing.assert_array_equal(round_.cohort.weights, cohort.weights)
      for pair in ((state, rounds.state), (metrics, round_.metrics)):
        one, other = map(tf.nest.flatten, pair)
        assert len(one) == len(other)
        for leaf, other_leaf in zip(one, other):
          np.testing.assert_array_equal(leaf, other_leaf)


@pytest.mark.parametrize('counts', delivery_lib.COUNTS)
def test_who_delivers_nothing_adds_nothing(counts, in_memory):
  delivery = delivery_lib.Delivery(
    np.array([0.5, 1.0, 0.4, 0.6]), over_selection=1.5, rates_count=counts
  )
  training = linear.build(in_memory, num_shards=2, delivery=delivery)
  state = training.initialize()
  r, weights = np.minimum(1, 2 * linear.P), np.zeros((3, 1))
  num_lost = 0
  for t in range(1, 6):
    available, cohort, lost, *_ = training.select(state, t)
    num_lost += lost.size
    # Algorithm 1 in NumPy, from here on.
    selected = np.union1d(cohort.clients, lost)
    delivered = np.setdiff1d(selected, lost)
    assert available.all() and selected.size == 3 and delivered.size <= 2
    counted = selected if counts == delivery_lib.SELECTED else delivered
    r = 0.9 * r
    weights = weights + sum(
      linear.P[k] / (r[k] + 0.1) * linear.update(k, weights) for k in delivered
    )
    r[counted] += 0.1
    state, metrics = training.next(state, t)
    np.testing.assert_allclose(state.rates, r, rtol=1e-12)
    np.testing.assert_allclose(linear.weights_of(state), weights, atol=1e-5)
    assert int(metrics['selection']['selected']) == counted.size
    excluded = int(metrics['selection']['excluded'])
    assert excluded == counted.size - delivered.size
  assert num_lost > 5


@pytest.mark.parametrize('method', ['none', 'scaffold', 'fedvarp:0'])
def test_factors_are_learning_rates_of_the_server(method):
  one = linear.build(method=method, factors=(0.5, 0.5, 0.5))
  other = linear.build(method=method, server_optimizer=linear.SGD(0.5))
  states = [each.initialize() for each in (one, other)]
  for t in (1, 2, 3):
    states = [
      each.next(state, t).state for each, state in zip((one, other), states)
    ]
    a, b = map(linear.weights_of, states)
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
  assert np.abs(a).max() > 0.01


def _sizes(p):
  return {'sizes': 10 * p, 'one': 3}


@pytest.mark.parametrize('rate_step', ['constant', 'corrected'])
def test_a_method_of_ones_own_that_only_begins(rate_step):
  training = linear.build(
    method=selection.Method(initial=_sizes), rate_step=rate_step
  )
  rounds = rounds_lib.Rounds(training)
  state = training.initialize()
  for t in (1, 2, 3):
    state, metrics = training.next(state, t)
    found = rounds.run(t).metrics
    for kept in (dict(state.kept), dict(rounds.state.kept)):
      np.testing.assert_allclose(kept['sizes'], 10 * linear.P)
      assert kept['one'] == 3
    # Two of four are new in round 1, and with no rest of r(0) the others are
    # at 0 until they come.
    bounds = [m['selection']['variance_bound'] for m in (metrics, found)]
    is_infinite = rate_step == 'corrected' and t == 1
    assert np.isinf(bounds).tolist() == 2 * [is_infinite]
    np.testing.assert_allclose(rounds.state.rates, state.rates)


def test_what_ends_a_round_leaves_the_state():
  # NaN from the second round on.
  def worse(s, cohort):
    del cohort
    return {'x': s.kept['x'] + (np.nan if s.round_num > 1 else 1)}

  training = linear.build(
    method=selection.Method(initial=lambda p: {'x': 0.0 * p}, next=worse)
  )
  state = training.next(training.initialize(), 1).state
  with pytest.raises(ValueError, match="'x', but one of them is nan"):
    training.next(state, 2)
  np.testing.assert_array_equal(dict(state.kept)['x'], np.ones(4))


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
