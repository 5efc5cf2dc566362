"""Tests of `simulation` inside what TFF users have: loops and aggregators."""

import asyncio
import collections
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import availability
from f3ast_tff import selection
from f3ast_tff.learning import simulation

_SGD = tff.learning.optimizers.build_sgdm
_SIZES = (7, 3, 12, 5)
_TRUE = np.array([1.0, -2.0, 0.5], np.float32)

pytestmark = pytest.mark.usefixtures('in_process')


def _client_data():
  """Four clients of unlike size, whose labels are linear in the features."""
  rng = np.random.default_rng(0)
  data = {}
  for name, size in zip('abcd', _SIZES):
    x = rng.standard_normal((size, 3)).astype(np.float32)
    y = x @ _TRUE[:, None]
    data[name] = collections.OrderedDict(x=x, y=y)
  client_data = tff.simulation.datasets.TestClientData(data)
  return client_data.preprocess(lambda examples: examples.batch(4))


_DATA = _client_data()


def _loss(output, label, sample_weight=None):
  losses = tf.reduce_sum((output - label) ** 2, axis=1)
  if sample_weight is None:
    return tf.reduce_mean(losses)
  total = tf.reduce_sum(losses * sample_weight)
  return tf.math.divide_no_nan(total, tf.reduce_sum(sample_weight))


# Functional, because a process around a Keras model takes seconds to build.
_MODEL = tff.learning.models.FunctionalModel(
  initial_weights=((np.zeros((3, 1), np.float32),), ()),
  predict_on_batch_fn=tf.function(
    lambda weights, x, training: x @ weights[0][0]
  ),
  loss_fn=_loss,
  input_spec=_DATA.element_type_structure,
)


@pytest.fixture(params=[True, False], ids=['arrays', 'datasets'])
def in_memory(request):
  """Both ways in which clients train."""
  return request.param


def _build(**changes):
  arguments = {
    'availability': 'scarce',
    'clients_per_round': 2,
    'client_optimizer': _SGD(0.05),
    'beta': 0.1,
  }
  if 'aggregator' in changes:  # Three take part in tests of aggregators.
    arguments['clients_per_round'] = 3
  return simulation.build(_MODEL, _DATA, **{**arguments, **changes})


def _flat(weights):
  return np.concatenate([np.ravel(w) for w in weights.trainable])


def _step(built, cohort):
  """Returns by how much one round with the cohort moves the model."""
  state = built.process.initialize()
  output = built.process.next(state, built.bring(cohort, 1))
  before, after = (
    _flat(s.global_model_weights) for s in (state, output.state)
  )
  return after - before, output


def _cohort(*weights):
  clients = np.flatnonzero(weights)
  return selection.Cohort(clients, np.array(weights)[clients])


def _by_hand(client):
  """A client's own update v_k, in plain NumPy."""
  weights = np.zeros((3, 1))
  dataset = _DATA.create_tf_dataset_for_client(_DATA.client_ids[client])
  for batch in dataset.as_numpy_iterator():
    error = batch['x'] @ weights - batch['y']
    weights -= 0.05 * 2 * batch['x'].T @ error / len(error)
  return weights.ravel()


@pytest.fixture(scope='module')
def updates():
  """All clients' own updates."""
  return np.array([_by_hand(k) for k in range(4)])


def test_a_client_alone_moves_the_model_by_its_update(in_memory, updates):
  built = _build(in_memory=in_memory)
  for k, row in enumerate(np.eye(4)):
    np.testing.assert_allclose(
      _step(built, _cohort(*row))[0], updates[k], rtol=1e-5, atol=1e-6
    )


def test_examples_are_counted_and_participants_are_the_clients():
  np.testing.assert_array_equal(simulation.num_examples(_DATA), _SIZES)
  for in_memory in (True, False):
    built = _build(in_memory=in_memory)
    np.testing.assert_allclose(built.cohorts.p, np.array(_SIZES) / 27)
  (member,) = simulation.participants(_DATA, _cohort(0, 0, 1.5, 0))
  assert (member.index, member.weight) == (2, 1.5)
  assert sum(len(batch['y']) for batch in member.examples) == 12


def test_rates_in_the_state_are_those_of_the_cohorts_and_the_model_learns(
  in_memory
):
  built = _build(seed=1, in_memory=in_memory)
  state = built.process.initialize()
  empty = 0
  for t in range(1, 16):
    state, metrics = built.process.next(state, built.participants(t))
    np.testing.assert_array_equal(state.rates, built.cohorts.rates(t))
    empty += not metrics['selection']['participants']
  assert empty > 0  # Rounds in which nobody is there are rounds too.
  trained = _flat(state.global_model_weights)
  assert np.linalg.norm(trained - _TRUE) < 0.5 * np.linalg.norm(_TRUE)


def test_availability_by_name_is_the_papers_model():
  built = _build(availability='uneven', seed=4)
  model = availability.uneven(np.array(_SIZES) / 27, seed=4)
  for t in range(1, 6):
    np.testing.assert_array_equal(built.cohorts.availability(t), model(t))
  with pytest.raises(ValueError, match='always, scarce, home_devices'):
    _build(availability='sometimes')


def test_tffs_own_loop_runs_it_and_resumes(tmp_path, in_memory):
  asyncio.set_event_loop(asyncio.new_event_loop())  # The loop takes this one.
  built = _build(in_memory=in_memory)
  state = built.process.initialize()
  for t in range(1, 6):
    state = built.process.next(state, built.participants(t)).state

  def run(rounds):
    again = _build(in_memory=in_memory)  # As a program does that starts anew.
    return tff.simulation.run_training_process(
      again.process,
      again.participants,
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
    _flat(final.global_model_weights),
    _flat(state.global_model_weights),
    rtol=1e-6,
  )
  assert len((tmp_path / 'metrics.csv').read_text().splitlines()) == 1 + 5


_COHORT = _cohort(0.4, 0, 1.3, 0.2)


def _clip(vectors, norm):
  lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
  return vectors * np.minimum(1, norm / lengths)


def test_a_weighted_mean_of_theirs_gives_the_weighted_sum(
  in_memory, updates
):
  aggregator = tff.learning.robust_aggregator(zeroing=False, clipping=False)
  step, _ = _step(_build(in_memory=in_memory, aggregator=aggregator), _COHORT)
  expected = _COHORT.weights @ updates[_COHORT.clients]
  np.testing.assert_allclose(step, expected, rtol=1e-5)
  assert np.linalg.norm(expected) > 0.1  # The test can tell.


def test_clipping_clips_updates_before_the_weights(
  in_memory, updates
):
  norm = float(np.median(np.linalg.norm(updates, axis=1)))
  aggregator = tff.aggregators.clipping_factory(
    norm, tff.aggregators.MeanFactory()
  )
  built = _build(in_memory=in_memory, aggregator=aggregator)
  step, output = _step(built, _COHORT)
  members = updates[_COHORT.clients]
  expected = _COHORT.weights @ _clip(members, norm)
  np.testing.assert_allclose(step, expected, rtol=1e-5)
  assert np.abs(expected - _COHORT.weights @ members).max() > 1e-3
  assert 'clipped_count' in str(output.metrics['aggregator'])


def test_the_robust_aggregator_survives_a_round_without_anybody(in_memory):
  built = _build(
    in_memory=in_memory, aggregator=tff.learning.robust_aggregator()
  )
  nobody = selection.Cohort(np.zeros(0, int), np.zeros(0))
  step, output = _step(built, nobody)
  np.testing.assert_array_equal(step, 0)
  members = built.bring(_COHORT, 2)
  state = built.process.next(output.state, members).state
  moved = _flat(state.global_model_weights)
  assert np.isfinite(moved).all() and np.abs(moved).max() > 0


def test_differential_privacy_with_the_servers_rate_for_the_sum(
  in_memory, updates
):
  # TFF's clips what it is given, here weight times update, to 0.1 at first,
  # adds noise, and divides by the number of clients that it is told.
  aggregator = tff.learning.dp_aggregator(
    noise_multiplier=1e-6, clients_per_round=3, zeroing=False
  )
  built = _build(
    in_memory=in_memory,
    aggregator=aggregator,
    server_optimizer=_SGD(3.0),
  )
  step, _ = _step(built, _COHORT)
  weighted = _COHORT.weights[:, None] * updates[_COHORT.clients]
  expected = _clip(weighted, 0.1).sum(axis=0)
  np.testing.assert_allclose(step, expected, atol=1e-4)
  assert np.abs(expected - weighted.sum(axis=0)).max() > 1e-3


def test_secure_aggregation_of_weights_and_updates(
  in_memory, updates
):
  aggregator = tff.learning.secure_aggregator(zeroing=False, clipping=False)
  step, _ = _step(_build(in_memory=in_memory, aggregator=aggregator), _COHORT)
  expected = _COHORT.weights @ updates[_COHORT.clients]
  # Secure sums are of integers.
  np.testing.assert_allclose(step, expected, atol=1e-2)
  assert np.abs(expected).max() > 0.1


def test_an_aggregator_sees_each_client_and_nobody_else():
  built = _build(
    in_memory=True,
    clients_per_round=4,
    aggregator=tff.learning.robust_aggregator(),
  )
  assert len(built.bring(_COHORT, 1)) == 3
  assert built.bring(_cohort(0, 0, 0, 0), 1) == []


def test_what_cannot_train_on_arrays_says_why_and_trains_on_datasets(caplog):
  model = tff.learning.models.FunctionalModel(
    initial_weights=_MODEL.initial_weights,
    predict_on_batch_fn=tf.function(
      lambda weights, x, training: x @ weights[0][0]
    ),
    loss_fn=lambda output, label, sample_weight: tf.reduce_mean(
      (output - label) ** 2
    ),
    input_spec=_DATA.element_type_structure,
  )
  arguments = {
    'availability': 'always',
    'clients_per_round': 2,
    'client_optimizer': _SGD(0.05),
  }
  simulation.build(model, _DATA, **arguments)
  (line,) = [r.getMessage() for r in caplog.records]
  assert 'weighted by sample_weight' in line and 'datasets' in line
  assert '\n' not in line
  with pytest.raises(ValueError, match='weighted by sample_weight'):
    simulation.build(model, _DATA, **arguments, in_memory=True)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
