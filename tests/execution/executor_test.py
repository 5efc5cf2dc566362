"""Tests of `execution.executor`: rounds against plain loops."""

import collections
import pickle
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff.execution import executor as executor_lib
from f3ast_tff.execution import values

_THREADS = (1, 2, 3)


def _round(dtype, has_variables=False):
  """A client adds x (1 + s) to the state s, and 1 to the output."""
  state_type = tff.types.to_type(
    collections.OrderedDict(s=dtype, rounds=np.int32)
  )

  @tff.tensorflow.computation(dtype, dtype)
  def work(x, s):
    if has_variables:
      product = tf.Variable(tf.zeros([], dtype), name='product')
      with tf.control_dependencies([product.assign(x)]):
        with tf.control_dependencies([product.assign_add(x * s)]):
          value = product.read_value()
    else:
      value = x + x * s
    with tf.control_dependencies([
      tf.debugging.assert_less(x, tf.constant(1000, dtype))
    ]):
      return collections.OrderedDict(value=tf.identity(value), one=1)

  @tff.tensorflow.computation(state_type, work.type_signature.result)
  def update(state, total):
    new = collections.OrderedDict(
      s=state['s'] + total['value'], rounds=state['rounds'] + 1
    )
    return new, collections.OrderedDict(clients=total['one'])

  @tff.tensorflow.computation(state_type)
  def part(state):
    return state['s']

  @tff.federated_computation(
    tff.types.FederatedType(state_type, tff.SERVER),
    tff.types.FederatedType(dtype, tff.CLIENTS),
  )
  def next_fn(state, clients):
    s = tff.federated_broadcast(tff.federated_map(part, state))
    total = tff.federated_sum(tff.federated_map(work, (clients, s)))
    after = tff.federated_map(update, (state, total))
    return after[0], after[1]

  return next_fn


def _play(executor, state, clients):
  after, output = executor.start(state, executor.load(clients))()
  return after, [leaf.numpy() for leaf in output]


def _start(executor, s=2):
  return executor.state(
    values.flatten({'s': s, 'rounds': 0}, executor.state_type)
  )


def _value(executor, state):
  return values.pack(state.leaves, executor.state_type)


@pytest.fixture(scope='module', name='executors')
def _executors():
  return {
    (num_threads, has_variables): executor_lib.Executor(
      _round(np.int64, has_variables), num_threads
    )
    for num_threads in _THREADS
    for has_variables in (False, True)
  }


@pytest.mark.parametrize('has_variables', [False, True])
@pytest.mark.parametrize('num_threads', _THREADS)
def test_rounds_by_hand_whoever_comes(num_threads, has_variables, executors):
  executor = executors[num_threads, has_variables]
  state, s = _start(executor), 2
  # Nobody, fewer than threads, as many, and many more.
  for number, size in enumerate((0, 1, 2, 3, 4, 11, 0, 30), 1):
    clients = [(7 * number + 3 * i) % 20 - 6 for i in range(size)]
    state, (num_clients,) = _play(executor, state, clients)
    s += sum(x + x * s for x in clients)
    s_there = int(_value(executor, state)['s'])
    assert s_there == s and num_clients == size
    assert _value(executor, state)['rounds'] == number
    s = s % 100  # Lest it overflows.
    state = executor.state([tf.constant(s, tf.int64), state.leaves[1]])
  assert type(_value(executor, state)) is collections.OrderedDict


# To 900 a millionth makes no difference in float32, to 0 it does.
_TINY = 2.0**-20


@pytest.mark.parametrize(
  'num_threads, expected',
  [
    # In a row: (900 - 900) + tiny, and so on.
    (1, [_TINY, 0.0, 0.0]),
    # (900 + tiny) - 900, (tiny - 900) + 900, (900 - 900) + tiny.
    (2, [0.0, 0.0, _TINY]),
    # One each, and then as in a row.
    (3, [_TINY, 0.0, 0.0]),
  ],
)
def test_the_order_of_sums_is_that_of_threads_and_of_nothing_else(
  num_threads, expected
):
  executor = executor_lib.Executor(_round(np.float32), num_threads)
  state = _start(executor, s=0)  # Clients add x.
  cohorts = [900, -900, _TINY], [_TINY, 900, -900], [900, _TINY, -900]
  for _ in range(10):
    for clients, total in zip(cohorts, expected):
      after, _ = _play(executor, state, clients)
      assert _value(executor, after)['s'] == total


def test_a_state_of_arrays_is_as_good_as_one_of_tensors(executors):
  executor = executors[2, False]
  state, _ = _play(executor, _start(executor), [1, 2, 3])
  arrays = {name: np.array(v) for name, v in _value(executor, state).items()}
  again = executor.state(values.flatten(arrays, executor.state_type))
  assert _value(executor, again) == _value(executor, state)
  one, other = (_play(executor, some, [4])[0] for some in (state, again))
  assert _value(executor, one) == _value(executor, other)


@pytest.mark.parametrize('has_variables', [False, True])
def test_a_client_that_fails_fails_its_round_only(has_variables, executors):
  executor = executors[2, has_variables]
  state = _start(executor)
  for _ in range(5):
    with pytest.raises(tf.errors.InvalidArgumentError):
      _play(executor, state, [1, 5000, *range(1, 20)])
    after, _ = _play(executor, state, [1, 2, 3])
    assert _value(executor, after)['s'] == 2 + 3 * (1 + 2 + 3)


def test_rounds_may_be_started_before_others_have_ended(executors):
  executor = executors[2, False]
  state = _start(executor)
  waiting = [
    executor.start(state, executor.load([x] * 5)) for x in range(4)
  ]
  for x, result in reversed(list(enumerate(waiting))):
    after, _ = result()
    assert _value(executor, after)['s'] == 2 + 5 * 3 * x


def test_types_are_told():
  executor = executor_lib.Executor(_round(np.int64), 1)
  assert executor.state_type.s == tff.types.TensorType(np.int64)
  assert list(executor.output_type.python_container(clients=1)) == ['clients']


@pytest.mark.parametrize('has_variables', [False, True])
def test_work_that_was_sent_gives_the_same_sums(has_variables):
  works = []

  def keep(work):
    works.append(work)
    return executor_lib.Threads(work, 1)

  executor_lib.Executor(_round(np.int64, has_variables), 1, keep)
  sent = pickle.loads(pickle.dumps(works[0]))
  assert sent.client_type == tff.types.TensorType(np.int64)
  s = tf.constant(2, tf.int64)
  for work in (*works, sent):
    adders = executor_lib.adders(work, 2)
    # Variables belong to one thread.
    assert (adders[0] is adders[1]) != has_variables
    for adder in adders:
      assert adder.has_variables == has_variables
      # x (1 + s) of each, and how many they are.
      for clients in ([], [5], [5, -1, 7]):
        total, number = adder(
          [s], [[tf.constant(x, tf.int64)] for x in clients]
        )
        assert (total, number) == (3 * sum(clients), len(clients))


def test_what_a_process_starts_with():
  @tff.tensorflow.computation
  def first():
    return tf.Variable(3.0) + 1, tf.constant([1, 2])

  @tff.federated_computation
  def initialize():
    return tff.federated_eval(first, tff.SERVER)

  call = executor_lib.initializer(initialize)
  for _ in range(2):
    one, two = call()
    assert one.numpy() == 4 and two.numpy().tolist() == [1, 2]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
