"""Tests of `process`, `client_work` and `shard_training`."""

import functools
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.learning.templates import proximal_client_work

from f3ast_tff import rates
from f3ast_tff import selection
from f3ast_tff.datasets import synthetic
from f3ast_tff.learning import client_optimizers
from f3ast_tff.learning import client_work
from f3ast_tff.learning import examples as examples_lib
from f3ast_tff.learning import process as process_lib
from f3ast_tff.learning import server as server_lib
from f3ast_tff.learning import shard_training
from f3ast_tff.learning import shards
from f3ast_tff.models import softmax
from tests import by_hand

_BATCH = 20
_SGD = tff.learning.optimizers.build_sgdm
_DATA = synthetic.load(num_clients=4, seed=1)
_EXAMPLES = [{f: e[f][:70] for f in e} for e in _DATA.train]  # 45 to 70 each.
_SIZES = np.array([len(e['y']) for e in _EXAMPLES])
_P = _SIZES / _SIZES.sum()
_LAYOUT = shard_training.layout_of(_EXAMPLES[0])

pytestmark = pytest.mark.usefixtures('in_process')


def _dataset(examples):
  elements = (examples['x'], examples['y'])
  return tf.data.Dataset.from_tensor_slices(elements).batch(_BATCH)


def _shard(*members, absent=None):
  """Returns the shard of some (client, weight, its examples)."""
  train = list(_EXAMPLES)
  for index, _, examples in (*members, *([absent] if absent else ())):
    train[index] = _EXAMPLES[index] if examples is None else examples
  make = shards.ClientShards(
    train,
    lambda: examples_lib.concatenated(train),
    batch_size=_BATCH,
    is_shuffled=False,
  )
  cohort = selection.Cohort(
    np.array([index for index, _, _ in members], int),
    np.array([weight for _, weight, _ in members]),
  )
  return make(cohort, 1)[0]


def _alone(index, weight, examples=None):
  return _shard((index, weight, examples))


def _input(index, weight, examples=None):
  examples = _EXAMPLES[index] if examples is None else examples
  return client_work.ClientInput(
    _dataset(examples), np.int32(index), np.float32(weight)
  )


@functools.cache
def _plain(path, beta=0.001):
  """As `_build`; one process for all tests, for compiling it takes long."""
  return _build(path, beta=beta)


def _build(path, r0=None, client_optimizer=None, **arguments):
  """Returns a process and how to make what its clients take part with."""
  r0 = np.ones(4) if r0 is None else r0
  model, optimizer = softmax.build().functional, client_optimizer or _SGD(0.1)
  if path == 'datasets':
    training = client_work.on_datasets(model, optimizer, 4)
  else:
    training = shard_training.build(
      model, optimizer, 4, _LAYOUT, _BATCH, xla=path == 'xla'
    )
  process = process_lib.build_process(training, _P, r0, **arguments)
  return process, _input if path == 'datasets' else _alone


def _update(examples, learning_rate=0.1, **more):
  """The update of a client that starts at zeros, by hand."""
  batches = by_hand.in_order(len(examples['y']), _BATCH)
  return by_hand.local_sgd(examples, batches, learning_rate, **more).update


def _assert_weights(output, expected, **tolerance):
  weights = output.state.global_model_weights.trainable
  for got, one in zip(weights, expected):
    np.testing.assert_allclose(got, one, **tolerance)


def _assert_same_weights(output, other):
  expected = other.state.global_model_weights.trainable
  for got, one in zip(
    output.state.global_model_weights.trainable, expected
  ):
    np.testing.assert_array_equal(got, one)


@functools.cache
def _stock_fed_avg(rounds):
  """TFF's own weighted FedAvg on the same batches."""
  process = tff.learning.algorithms.build_weighted_fed_avg(
    softmax.build().functional, _SGD(0.1), _SGD(1.0)
  )
  state = process.initialize()
  for _ in range(rounds):
    state = process.next(state, [_dataset(e) for e in _EXAMPLES]).state
  return process.get_model_weights(state).trainable


@pytest.mark.parametrize('path', ['shards', 'xla', 'datasets'])
def test_full_participation_equals_stock_fed_avg(path):
  process, bring = _plain(path)
  state = process.initialize()
  everyone = [bring(k, _P[k] / 1.0) for k in range(4)]  # r = 1: weights p.
  for _ in range(2):
    state = process.next(state, everyone).state
  ours = process.get_model_weights(state).trainable
  for mine, theirs in zip(ours, _stock_fed_avg(2)):
    np.testing.assert_allclose(mine, theirs, atol=1e-5)
  np.testing.assert_array_equal(state.rates, np.ones(4))


@pytest.mark.parametrize('path', ['shards', 'datasets'])
@pytest.mark.parametrize(
  'wrap, terms',
  [
    (lambda sgd: client_optimizers.proximal(sgd, 2.0), {'proximal': 2.0}),
    (lambda sgd: client_optimizers.clipped(sgd, 0.3), {'clip': 0.3}),
  ],
  ids=['proximal', 'clipped'],
)
def test_a_proximal_or_clipped_round_by_hand(path, wrap, terms):
  process, bring = _build(path, client_optimizer=wrap(_SGD(0.1)))
  output = process.next(process.initialize(), [bring(1, 0.7)])
  expected = _update(_EXAMPLES[1], **terms)
  _assert_weights(output, [0.7 * v for v in expected], atol=1e-5)
  for v, plain in zip(expected, _update(_EXAMPLES[1])):
    assert np.abs(v - plain).max() > 1e-3  # The test can tell.


def test_client_work_of_tff_with_f3ast_weights():
  # TFF's own proximal client work; its term has the sign that drives away.
  model = softmax.build().functional
  work = proximal_client_work.build_functional_model_delta_client_work(
    model=model,
    optimizer=_SGD(0.1),
    delta_l2_regularizer=2.0,
    client_weighting=tff.learning.ClientWeighting.UNIFORM,
  )
  training = client_work.from_client_work(
    work, client_work.initial_weights_of(model), 4
  )
  process = process_lib.build_process(training, _P, np.ones(4))
  output = process.next(process.initialize(), [_input(1, 0.7)])
  expected = _update(_EXAMPLES[1], proximal=-2.0)
  _assert_weights(output, [0.7 * v for v in expected], atol=1e-4)


def test_clients_in_one_shard_equal_clients_in_shards_of_their_own():
  process, bring = _plain('shards')
  state = process.initialize()
  cohort = [(2, 1.7), (0, 0.6), (3, 0.2)]
  apart = process.next(state, [bring(k, w) for k, w in cohort])
  members = [(k, w, None) for k, w in cohort]
  together = process.next(state, [_shard(*members[:2]), _shard(*members[2:])])
  expected = apart.state.global_model_weights.trainable
  _assert_weights(together, expected, atol=1e-6)
  np.testing.assert_array_equal(apart.state.rates, together.state.rates)
  assert together.metrics['selection']['selected'] == 3
  np.testing.assert_allclose(
    apart.metrics['client_work']['train']['loss'],
    together.metrics['client_work']['train']['loss'],
    rtol=1e-6,
  )


@pytest.mark.parametrize('path', ['shards', 'xla'])
def test_a_bad_client_does_not_spoil_others_in_its_shard(path):
  process, bring = _plain(path)
  state = process.initialize()
  bad = {**_EXAMPLES[1], 'x': np.full_like(_EXAMPLES[1]['x'], np.nan)}
  both = process.next(state, [_shard((1, 0.9, bad), (2, 0.5, None))])
  alone = process.next(state, [bring(2, 0.5)])
  _assert_same_weights(both, alone)
  assert both.metrics['selection']['excluded'] == 1
  np.testing.assert_allclose(both.metrics['selection']['sum_of_weights'], 0.5)


@pytest.mark.parametrize('path', ['shards', 'xla'])
def test_a_bad_first_example_spoils_no_batch_that_is_filled_up(path):
  # Client 0 is not even there. What fills up the last batch of client 2 must
  # not be of it.
  process, bring = _plain(path)
  bad = {
    'x': np.full_like(_EXAMPLES[0]['x'], np.nan),
    'y': np.full_like(_EXAMPLES[0]['y'], 77),
  }
  shard = _shard((2, 0.5, None), absent=(0, None, bad))
  assert (shard.batches[-1] == shards.NO_ROW).any()  # Or this shows nothing.
  state = process.initialize()
  beside, alone = (
    process.next(state, [one]) for one in (shard, bring(2, 0.5))
  )
  assert beside.metrics['selection']['excluded'] == 0
  _assert_same_weights(beside, alone)


@pytest.mark.parametrize(
  'path, correlation',
  [
    ('shards', 'positive'),
    ('xla', 'positive'),
    ('datasets', 'uncorrelated'),
  ],
)
def test_a_round_by_hand(path, correlation):
  r0 = np.array([0.5, 0.2, 0.1, 0.4])
  process, bring = _build(path, r0, beta=0.25, correlation=correlation)
  cohort = [(2, 1.7), (0, 0.6)]
  output = process.next(
    process.initialize(), [bring(k, weight) for k, weight in cohort]
  )
  updates = [_update(_EXAMPLES[k]) for k, _ in cohort]
  delta = [1.7 * first + 0.6 * second for first, second in zip(*updates)]
  _assert_weights(output, delta, atol=1e-5)
  # r = .75 r0 + .25 for clients 0 and 2.
  expected_rates = [0.625, 0.15, 0.325, 0.3]
  np.testing.assert_allclose(output.state.rates, expected_rates, rtol=1e-15)
  measured = output.metrics['selection']
  assert measured['selected'] == 2 and measured['excluded'] == 0
  assert measured['sum_of_weights'] == pytest.approx(2.3)
  above = _P if correlation == 'positive' else _P**2
  assert measured['variance_bound'] == pytest.approx(
    sum(above / expected_rates)
  )


def test_rates_in_the_state_equal_the_numpy_update_bit_for_bit():
  r = np.array([0.5, 0.2, 0.1, 0.4])
  process, bring = _build('shards', r, beta=0.001)
  state = process.initialize()
  for selected in ([0, 1], [3], [1, 2]):
    state = process.next(state, [bring(k, 0.1) for k in selected]).state
    r = rates.update(r, np.isin(np.arange(4), selected), 0.001)
    np.testing.assert_array_equal(state.rates, r)


@pytest.mark.parametrize('path', ['shards', 'datasets'])
def test_an_empty_round_keeps_the_model_and_lets_rates_decay(path):
  adam = tff.learning.optimizers.build_adam(0.1)
  process, bring = _build(path, server_optimizer=adam, beta=0.1)
  before = process.next(process.initialize(), [bring(0, 1.0)]).state
  for nobody in ([], [_shard(), _shard()]) if path == 'shards' else ([],):
    output = process.next(before, nobody)
    # Adam's momentum would move the model on; nobody trained, so it stays.
    after = output.state
    for old, new in zip(
      tf.nest.flatten((before.global_model_weights, before.optimizer)),
      tf.nest.flatten((after.global_model_weights, after.optimizer)),
    ):
      np.testing.assert_array_equal(old, new)
    np.testing.assert_allclose(output.state.rates, 0.9 * before.rates)
    assert output.metrics['selection']['selected'] == 0


@pytest.mark.parametrize('path', ['shards', 'xla', 'datasets'])
@pytest.mark.parametrize('poison', [np.nan, np.inf])
def test_a_client_that_is_not_finite_is_excluded_and_counted(path, poison):
  process, bring = _plain(path, beta=0.5)
  bad = {'x': np.full_like(_EXAMPLES[1]['x'], poison), 'y': _EXAMPLES[1]['y']}
  start = process.initialize()
  output = process.next(start, [bring(0, 0.3), bring(1, 0.4, bad)])
  alone = process.next(start, [bring(0, 0.3)])
  _assert_same_weights(output, alone)
  measured = output.metrics['selection']
  assert measured['selected'] == 2 and measured['excluded'] == 1
  assert measured['sum_of_weights'] == pytest.approx(0.3)
  # It was selected, so its rate moves all the same.
  np.testing.assert_allclose(output.state.rates, [1, 1, 0.5, 0.5])


def test_train_loss_on_shards_is_the_mean_over_examples():
  process, bring = _build('shards', client_optimizer=_SGD(1e-9))
  output = process.next(process.initialize(), [bring(0, 1.0), bring(1, 1.0)])
  train = output.metrics['client_work']['train']
  assert train['loss'] == pytest.approx(np.log(10), rel=1e-5)  # Zero weights.
  assert train['num_examples'] == _SIZES[0] + _SIZES[1]


@pytest.mark.parametrize('path', ['datasets', 'shards', 'xla'])
def test_one_example_and_no_example(path):
  process, bring = _plain(path)
  one = {f: _EXAMPLES[0][f][:1] for f in 'xy'}
  none = {f: _EXAMPLES[1][f][:0] for f in 'xy'}
  output = process.next(
    process.initialize(), [bring(0, 1.0, one), bring(1, 1.0, none)]
  )
  _assert_weights(output, _update(one), atol=1e-6)
  measured = output.metrics['selection']
  assert measured['selected'] == 2 and measured['excluded'] == 1
  assert measured['sum_of_weights'] == 1


def test_keras_model_fn_and_a_clipping_aggregator():
  def model_fn():
    keras_model = tf.keras.Sequential(
      [tf.keras.layers.Dense(10, input_shape=(60,))]
    )
    return tff.learning.models.from_keras_model(
      keras_model,
      loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      input_spec=_dataset(_EXAMPLES[0]).element_spec,
    )

  clipped_sum = tff.aggregators.clipping_factory(
    0.01, tff.aggregators.SumFactory()
  )
  training = client_work.on_datasets(model_fn, _SGD(0.1), 4)
  process = process_lib.build_process(
    training, _P, np.ones(4), aggregator=clipped_sum
  )
  assert isinstance(process, tff.learning.templates.LearningProcess)
  state = process.initialize()
  output = process.next(state, [_input(0, 1.0), _input(1, 1.0)])
  moved = [
    new - old
    for old, new in zip(
      state.global_model_weights.trainable,
      output.state.global_model_weights.trainable,
    )
  ]
  norm = np.sqrt(sum((m**2).sum() for m in moved))
  assert 0 < norm <= 2 * 0.01 + 1e-6


def test_set_model_weights():
  process, _ = _plain('shards')
  state = process.initialize()
  weights = process.get_model_weights(state)
  ones = tff.learning.models.ModelWeights(
    tuple(np.ones_like(w) for w in weights.trainable), ()
  )
  state = process.set_model_weights(state, ones)
  assert process.get_model_weights(state).trainable[0].min() == 1


def test_server_adam_by_hand():
  adam = tff.learning.optimizers.build_adam(0.1, epsilon=0.5)
  process, bring = _build('shards', server_optimizer=adam)
  output = process.next(process.initialize(), [bring(0, 1.0)])
  # The first step of Adam, corrected for bias, is g / (|g| + e), g = -Delta;
  # TFF puts epsilon beside the uncorrected root: e = epsilon / sqrt(1 - .999).
  expected = [
    0.1 * delta / (np.abs(delta) + 0.5 / np.sqrt(0.001))
    for delta in _update(_EXAMPLES[0])
  ]
  _assert_weights(output, expected, atol=1e-7)


@pytest.mark.parametrize(
  'changes, message',
  [
    ({'beta': 0.0}, 'beta'),
    ({'r0': np.ones(3)}, 'one rate for each'),
    ({'r0': np.full(4, 1.5)}, 'in \\[0, 1\\]'),
    ({'correlation': 'other'}, 'uncorrelated, positive'),
  ],
)
def test_bad_arguments_are_named(changes, message):
  with pytest.raises(ValueError, match=message):
    _build('shards', **changes)


@pytest.mark.parametrize('path', ['shards', 'datasets'])
def test_there_is_one_layer_of_aggregation(path):
  # Raises where a sum over clients depends on another one.
  process, _ = _plain(path)
  form = tff.backends.mapreduce.get_map_reduce_form_for_computation(
    process.next
  )
  assert isinstance(form, tff.backends.mapreduce.MapReduceForm)


def test_state_is_named_and_so_is_a_shard():
  process, _ = _plain('shards')
  state_type, clients_type = process.next.type_signature.parameter
  assert state_type.member.python_container is server_lib.ServerState
  assert clients_type.member.python_container is shards.Shard
  assert clients_type.member.batches == tff.types.TensorType(
    np.int32, [None, _BATCH]
  )
  assert clients_type.member.examples.x == tff.types.TensorType(
    np.float32, [None, 60]
  )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
