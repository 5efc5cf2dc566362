"""Tests of `execution.functions`."""

import collections
from concurrent import futures
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff.execution import functions


def _specs(*shapes):
  return [tf.TensorSpec(shape, tf.float32) for shape in shapes]


def _as_function(computation, *shapes):
  graph = functions.read(computation)
  return functions.function(graph, _specs(*shapes), [graph])


def _numpy(leaves):
  return [leaf.numpy().tolist() for leaf in leaves]


def test_inputs_and_outputs_are_in_the_order_of_the_type():
  @tff.tensorflow.computation(
    [('b', np.float32), ('a', (np.float32, np.float32))]
  )
  def compute(value):
    first, second = value.a
    return collections.OrderedDict(y=[second, value.b], z=value.b - first)

  call = _as_function(compute, [], [], [])
  # b, a[0], a[1] are 5, 3, 1.
  leaves = _numpy(call(*map(tf.constant, (5.0, 3.0, 1.0))))
  assert leaves == [1.0, 5.0, 2.0]


def test_several_computations_become_one_function():
  @tff.tensorflow.computation(np.float32)
  def double(x):
    return 2 * x

  @tff.tensorflow.computation(np.float32, np.float32)
  def add(x, y):
    return x + y

  graphs = functions.read(double), functions.read(add)

  def body(x, y):
    return graphs[1](*graphs[0](x), *graphs[0](y))

  call = functions.function(body, _specs([], []), graphs)
  assert _numpy(call(tf.constant(3.0), tf.constant(4.0))) == [14.0]


def test_it_takes_arrays_of_numpy_and_any_size_of_an_open_axis():
  @tff.tensorflow.computation(tff.types.TensorType(np.float32, [None]))
  def total(x):
    return tf.reduce_sum(x)

  call = _as_function(total, [None])
  assert _numpy(call(np.ones(3, np.float32))) == [3.0]
  assert _numpy(call(np.ones(70, np.float32))) == [70.0]


def test_variables_are_set_before_each_call():
  @tff.tensorflow.computation(np.float32)
  def count(x):
    counter = tf.Variable(10.0, name='counter')
    with tf.control_dependencies([counter.assign_add(x)]):
      return counter.read_value()

  graph = functions.read(count)
  assert graph.initialize
  call = functions.function(graph, _specs([]), [graph])
  assert _numpy(call(tf.constant(1.0))) == [11.0]
  assert _numpy(call(tf.constant(2.0))) == [12.0]


def _counter(start):
  @tff.tensorflow.computation(np.float32)
  def count(x):
    counter = tf.Variable(start, name='counter')

    @tf.function
    def step(x):
      return tf.while_loop(
        lambda i, _: i < 50,
        lambda i, _: (i + 1, counter.assign_add(x)),
        (0, 0.0),
      )[1]

    return step(x)

  return count


def test_computations_with_the_same_names_do_not_collide():
  # Both have a variable `counter` and functions of the same names.
  calls = [_as_function(_counter(start), []) for start in (0.0, 1000.0)]
  with futures.ThreadPoolExecutor(2) as threads:
    for _ in range(20):
      running = [threads.submit(call, tf.constant(1.0)) for call in calls]
      assert [_numpy(one.result()) for one in running] == [[50.0], [1050.0]]


def test_one_computation_read_twice_has_two_sets_of_variables():
  computation = _counter(0.0)
  calls = [_as_function(computation, []) for _ in range(2)]
  with futures.ThreadPoolExecutor(2) as threads:
    for _ in range(20):
      running = [
        threads.submit(call, tf.constant(x)) for call, x in zip(calls, (1., 2.))
      ]
      assert [_numpy(one.result()) for one in running] == [[50.0], [100.0]]


def test_gradients_and_functions_with_other_names_still_work():
  @tff.tensorflow.computation(np.float32)
  def slope(x):
    @tf.function
    def cube(x):
      return x**3

    with tf.GradientTape() as tape:
      tape.watch(x)
      y = tf.cond(x > 0, lambda: cube(x), lambda: -cube(x))
    return tape.gradient(y, x)

  call = _as_function(slope, [])
  assert _numpy(call(tf.constant(2.0))) == [12.0]
  assert _numpy(call(tf.constant(-1.0))) == [-3.0]


def test_a_dataset_is_one_tensor():
  @tff.tensorflow.computation(tff.types.SequenceType(np.int64))
  def total(examples):
    return examples.reduce(np.int64(0), lambda x, y: x + y)

  graph = functions.read(total)
  call = functions.function(graph, [tf.TensorSpec([], tf.variant)], [graph])
  variant = tf.data.experimental.to_variant(tf.data.Dataset.range(5))
  assert _numpy(call(variant)) == [10]


def test_nothing_in_and_nothing_out():
  @tff.tensorflow.computation
  def one():
    return tf.constant(1.0)

  @tff.tensorflow.computation(np.float32)
  def nothing(x):
    del x
    return ()

  assert _numpy(_as_function(one)()) == [1.0]
  assert _as_function(nothing, [])(tf.constant(1.0)) == []


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
