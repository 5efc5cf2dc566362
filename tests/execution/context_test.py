"""Tests of `execution.context`, against TFF's own runtime."""

import asyncio
import collections
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import f3ast_tff
from f3ast_tff.execution import context as context_lib
from tests import native

_SIZES = (12, 5, 1, 9, 16)
_SPEC = (
  tf.TensorSpec([None, 4], tf.float32), tf.TensorSpec([None], tf.int32)
)


def _client(k):
  rng = np.random.default_rng(k)
  x = rng.normal(size=(_SIZES[k], 4)).astype(np.float32)
  y = (x @ np.arange(4) > 0).astype(np.int32) + (k % 2)
  return tf.data.Dataset.from_tensor_slices((x, y)).batch(4)


_CLIENTS = [_client(k) for k in range(len(_SIZES))]


def _model_fn():
  keras_model = tf.keras.Sequential([
    tf.keras.layers.Dense(6, 'tanh', input_shape=(4,)),
    tf.keras.layers.BatchNormalization(),
    tf.keras.layers.Dense(3),
  ])
  return tff.learning.models.from_keras_model(
    keras_model,
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
    input_spec=_SPEC,
  )


_SGD = tff.learning.optimizers.build_sgdm


@pytest.fixture(scope='module', name='native_runtime')
def _native_runtime():
  """What is not run in process is run in TFF's worker."""
  with native.worker():
    yield


@pytest.fixture(scope='module', name='fed_avg')
def _fed_avg():
  return tff.learning.algorithms.build_weighted_fed_avg(
    _model_fn, _SGD(0.1), _SGD(1.0, momentum=0.9)
  )


@pytest.fixture(scope='module', name='first')
def _first(fed_avg, native_runtime):
  """The state with which TFF's own runtime starts."""
  return fed_avg.initialize()


@pytest.fixture(scope='module', name='theirs')
def _theirs(fed_avg, first):
  """The rounds of TFF's own runtime."""
  return _rounds(fed_avg, first)


@pytest.fixture(scope='module', name='two_threads')
def _two_threads():
  """A context that keeps what tests have it compile."""
  context = context_lib._InProcess(2)
  return lambda: tff.framework.get_context_stack().install(context)


def _rounds(process, state, num_rounds=3):
  outputs = []
  for t in range(num_rounds):
    output = process.next(state, _CLIENTS[t % 2 :])
    state = output.state
    outputs.append(output)
  return outputs


def _assert_close(ours, theirs, tolerance=1e-5):
  tf.nest.assert_same_structure(ours, theirs)
  for one, other in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs)):
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def _learned(output):
  """Returns what is equal in all runtimes: all but counters of time."""
  return output.state.global_model_weights, output.metrics['client_work']


def test_keras_fed_avg_equals_tff_s_own_runtime(
  fed_avg, first, theirs, two_threads
):
  with two_threads():
    ours = _rounds(fed_avg, first)
    again = _rounds(fed_avg, first)
  with f3ast_tff.in_process(1):
    in_a_row = _rounds(fed_avg, first)
  for t, other in enumerate(theirs):
    _assert_close(_learned(ours[t]), _learned(other))
    _assert_close(_learned(in_a_row[t]), _learned(other))
    assert type(ours[t]) is type(other)
    # Clients' variables are their thread's own: the same to the bit.
    _assert_close(_learned(ours[t]), _learned(again[t]), 0)
  moved = [
    np.abs(a - b).max()
    for a, b in zip(
      ours[-1].state.global_model_weights.trainable,
      first.global_model_weights.trainable,
    )
  ]
  assert max(moved) > 0.01  # It has learned something.


def test_a_process_starts_as_in_tff_s_own_runtime(fed_avg, first, two_threads):
  with two_threads():
    _assert_close(fed_avg.initialize(), first, 0)


@pytest.mark.slow
def test_processes_side_by_side_do_not_disturb_each_other(
  fed_avg, two_threads
):
  # The same names of functions and variables, and another optimizer.
  other = tff.learning.algorithms.build_weighted_fed_avg(
    _model_fn, _SGD(0.1, momentum=0.5), _SGD(0.5)
  )
  with two_threads():
    states = [fed_avg.initialize(), other.initialize()]
    alone = [
      _rounds(process, state)
      for process, state in zip((fed_avg, other), states)
    ]
    for t in range(3):
      outputs = [
        process.next(state, _CLIENTS[t % 2 :])
        for process, state in zip((fed_avg, other), states)
      ]
      states = [output.state for output in outputs]
      for which in (0, 1):
        _assert_close(_learned(outputs[which]), _learned(alone[which][t]), 0)


def test_fed_eval_equals_tff_s_own_runtime(fed_avg, first):
  process = tff.learning.algorithms.build_fed_eval(_model_fn)

  def evaluate():
    state = process.set_model_weights(
      process.initialize(), fed_avg.get_model_weights(first)
    )
    return process.next(state, _CLIENTS).metrics

  theirs = evaluate()
  with f3ast_tff.in_process(2):
    _assert_close(evaluate(), theirs)


def _functional_model():
  zeros = (np.zeros((4, 3), np.float32), np.zeros(3, np.float32))

  @tf.function
  def predict(weights, x, training):
    del training
    return tf.matmul(x, weights[0][0]) + weights[0][1]

  def loss(output, y, sample_weight=None):
    del sample_weight
    return tf.reduce_mean(
      tf.nn.sparse_softmax_cross_entropy_with_logits(y, output)
    )

  return tff.learning.models.FunctionalModel(
    initial_weights=(zeros, ()),
    predict_on_batch_fn=predict,
    loss_fn=loss,
    input_spec=_SPEC,
  )


@pytest.mark.parametrize(
  'aggregator',
  [
    tff.aggregators.SecureSumFactory(1.0),
    # Clipping and an unweighted mean; noise of its own is tested below.
    tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(
      noise_multiplier=0.0, clients_per_round=5, clip=0.05
    ),
  ],
  ids=['secure', 'dp'],
)
def test_aggregators_equal_tff_s_own_runtime(aggregator, native_runtime):
  process = tff.learning.algorithms.build_unweighted_fed_avg(
    _functional_model(), _SGD(0.1), _SGD(1.0), model_aggregator=aggregator
  )
  state = process.initialize()
  theirs = _rounds(process, state, 2)
  with f3ast_tff.in_process(2):
    ours = _rounds(process, state, 2)
  for one, other in zip(ours, theirs):
    _assert_close(
      one.state.global_model_weights, other.state.global_model_weights
    )
  assert np.abs(ours[-1].state.global_model_weights.trainable[0]).max() > 1e-3


def test_noise_is_drawn_for_each_round():
  process = tff.learning.algorithms.build_unweighted_fed_avg(
    _functional_model(),
    _SGD(1e-6),
    _SGD(1.0),
    model_aggregator=(
      tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(
        noise_multiplier=1.0, clients_per_round=5, clip=0.1
      )
    ),
  )
  with f3ast_tff.in_process(2):
    state = process.initialize()
    kernels = np.array([
      process.next(state, _CLIENTS).state.global_model_weights.trainable[0]
      for _ in range(20)
    ])
  assert len({kernel.tobytes() for kernel in kernels}) == 20
  # Noise of 1.0 times the clipping norm of 0.1, over 5 clients: 0.02.
  assert 0.015 < kernels.std() < 0.025


_AT_CLIENTS = tff.types.FederatedType(np.float32, tff.CLIENTS)
_AT_SERVER = tff.types.FederatedType(np.float32, tff.SERVER)


@tff.tensorflow.computation(np.float32, np.float32)
def _times(x, y):
  return x * y


@pytest.fixture(name='in_process_here')
def _in_process_here():
  with f3ast_tff.in_process(2):
    yield


@pytest.mark.usefixtures('in_process_here')
class TestPlainComputations:
  """Computations that are no rounds."""

  def test_of_clients(self):
    @tff.federated_computation(_AT_CLIENTS)
    def total(values):
      return tff.federated_sum(values)

    assert total([1.0, 2.0, 4.5]) == 7.5
    assert total([]) == 0

  def test_of_clients_with_two_parts(self):
    pair = tff.types.FederatedType((np.float32, np.float32), tff.CLIENTS)

    @tff.federated_computation(pair)
    def total(values):
      return tff.federated_sum(tff.federated_map(_times, values))

    assert total([(1.0, 2.0), (3.0, 4.0)]) == 14

  def test_of_server_and_clients(self):
    @tff.federated_computation(_AT_SERVER, _AT_CLIENTS)
    def scaled(factor, values):
      at_clients = tff.federated_broadcast(factor)
      return tff.federated_mean(tff.federated_map(_times, (values, at_clients)))

    assert scaled(2.0, [1.0, 2.0, 6.0]) == 6.0
    assert scaled(3.0, [1.0, 2.0, 6.0]) == 9.0

  def test_of_tensorflow_alone(self):
    assert _times(3.0, 5.0) == 15

    @tff.tensorflow.computation
    def three():
      return collections.OrderedDict(a=tf.constant(3), b=(1.0,))

    assert three() == collections.OrderedDict(a=3, b=(1.0,))

    @tff.tensorflow.computation(tff.types.SequenceType(np.int64))
    def total(examples):
      return examples.reduce(np.int64(0), lambda x, y: x + y)

    assert total(tf.data.Dataset.range(5)) == total([0, 1, 2, 3, 4]) == 10

  def test_at_the_server_without_clients(self):
    @tff.tensorflow.computation
    def seven():
      return tf.constant(7)

    @tff.federated_computation
    def initialize():
      return tff.federated_eval(seven, tff.SERVER)

    assert initialize() == 7

  def test_what_two_layers_of_sums_need_is_said(self):
    @tff.federated_computation(_AT_CLIENTS)
    def twice(values):
      total = tff.federated_broadcast(tff.federated_sum(values))
      return tff.federated_sum(tff.federated_map(_times, (values, total)))

    with pytest.raises(context_lib.UnsupportedError) as caught:
      twice([1.0, 2.0])
    message = str(caught.value)
    assert 'tff.backends.native.set_sync_local_cpp_execution_context()' in (
      message
    )
    assert '\n' not in message and message.endswith("TFF's worker.")

  def test_what_has_no_clients_is_unsupported(self):
    @tff.federated_computation(_AT_SERVER, _AT_SERVER)
    def product(x, y):
      return tff.federated_map(_times, (x, y))

    @tff.federated_computation(_AT_SERVER)
    def square(x):
      return tff.federated_map(_times, (x, x))

    message = 'it does not map a value of the server and values of the clients'
    with pytest.raises(context_lib.UnsupportedError, match=message):
      product(1.0, 2.0)
    with pytest.raises(context_lib.UnsupportedError, match=message):
      square(1.0)


def test_two_layers_of_sums_run_in_tff_s_worker(native_runtime):
  # What the sentence above says is true: here is no context of ours.
  @tff.federated_computation(_AT_CLIENTS)
  def twice(values):
    total = tff.federated_broadcast(tff.federated_sum(values))
    return tff.federated_sum(tff.federated_map(_times, (values, total)))

  assert twice([1.0, 2.0]) == 9


def test_the_training_loop_of_tff(fed_avg, two_threads):
  seen = []
  asyncio.set_event_loop(asyncio.new_event_loop())  # The loop takes this one.
  with two_threads():
    state = tff.simulation.run_training_process(
      fed_avg,
      training_selection_fn=lambda t: _CLIENTS[: 1 + t % 3],
      total_rounds=3,
      evaluation_fn=lambda state, clients: collections.OrderedDict(
        seen=seen.append(state) or 1.0
      ),
      evaluation_selection_fn=lambda t: _CLIENTS[:1],
      rounds_per_evaluation=1,
    )
  assert len(seen) >= 3
  kernel = state.global_model_weights.trainable[0]
  assert (kernel != seen[0].global_model_weights.trainable[0]).any()


def test_set_in_process_lasts():
  before = tff.framework.get_context_stack().current
  results = []

  def compute():
    # A thread of its own has a stack of its own, with the default context.
    f3ast_tff.set_in_process(3)
    results.append(type(tff.framework.get_context_stack().current))
    results.append(_times(2.0, 4.0))

  thread = threading.Thread(target=compute)
  thread.start()
  thread.join()
  assert results == [context_lib._InProcess, 8.0]
  assert tff.framework.get_context_stack().current is before


def test_what_was_compiled_is_kept_as_long_as_the_computation():
  context = context_lib._InProcess(1)

  @tff.tensorflow.computation(np.float32)
  def double(x):
    return 2 * x

  with tff.framework.get_context_stack().install(context):
    assert double(1.0) == 2
    (compiled,) = context._compiled.values()
    assert double(2.0) == 4
    assert list(context._compiled.values()) == [compiled]
    del double, compiled
  assert len(context._compiled) == 0


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
