"""Tests of `execution.values`."""

import collections
import gc
import sys
from typing import Any, NamedTuple
import weakref

import attrs
import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff.execution import values


class _Pair(NamedTuple):
  first: Any
  second: Any


@attrs.define
class _Attrs:
  first: Any
  second: Any


_TYPE = tff.types.to_type(
  collections.OrderedDict(
    b=np.int32, a=_Pair([np.float32, np.float64], (np.bool_,)), c=()
  )
)


def _numbers(leaves):
  return [np.asarray(leaf).tolist() for leaf in leaves]


@pytest.mark.parametrize(
  'value',
  [
    collections.OrderedDict(b=1, a=_Pair([2.0, 3.0], (True,)), c=()),
    # The order of keys is the type's.
    {'c': (), 'a': _Attrs((2.0, 3.0), [True]), 'b': 1},
    tff.structure.Struct([
      ('b', 1),
      ('a', tff.structure.Struct([('first', [2, 3]), ('second', (True,))])),
      ('c', []),
    ]),
  ],
)
def test_leaves_are_in_the_order_of_the_type(value):
  leaves = values.flatten(value, _TYPE)
  assert _numbers(leaves) == [1, 2.0, 3.0, True]
  assert [leaf.dtype for leaf in leaves] == [
    tf.int32, tf.float32, tf.float64, tf.bool
  ]


def test_an_array_of_the_right_type_is_left_as_it_is():
  type_ = tff.types.TensorType(np.float32, [None])
  array = np.ones(3, np.float32)
  assert values.flatten(array, type_)[0] is array
  (converted,) = values.flatten([1, 2], type_)
  assert converted.dtype == tf.float32


@pytest.mark.parametrize('placement', [None, tff.SERVER])
def test_pack_puts_leaves_into_the_containers_of_the_type(placement):
  type_ = _TYPE
  if placement is not None:
    type_ = tff.types.FederatedType(type_, placement)
  leaves = [
    tf.constant(1), tf.constant(2.0), tf.constant(3.0, tf.float64),
    tf.constant(True),
  ]
  value = values.pack(leaves, type_)
  assert isinstance(value, collections.OrderedDict)
  assert list(value) == ['b', 'a', 'c']
  assert isinstance(value['a'], _Pair)
  assert value['a'].first == [2.0, 3.0] and isinstance(value['a'].first, list)
  assert value['a'].second == (True,) and value['c'] == ()
  assert value['b'] == 1 and value['b'].dtype == np.int32


def test_parts_of_a_result_may_be_at_the_server():
  type_ = tff.types.to_type(
    tff.learning.templates.LearningProcessOutput(
      tff.types.FederatedType((np.float32, np.int32), tff.SERVER),
      tff.types.FederatedType({'loss': np.float32}, tff.SERVER),
    )
  )
  leaves = [tf.constant(1.0), tf.constant(2), tf.constant(3.0)]
  output = values.pack(leaves, type_)
  assert isinstance(output, tff.learning.templates.LearningProcessOutput)
  assert output.state == (1.0, 2) and output.metrics == {'loss': 3.0}


def test_a_template_is_filled_as_a_type_is():
  type_ = tff.types.to_type(
    collections.OrderedDict(b=np.int32, a=_Pair(np.float32, ((), np.int32)))
  )
  leaves = [tf.constant(5), tf.constant(0.5), tf.constant(7)]
  filled = values.fill(values.template(type_), leaves)
  assert filled == values.pack(leaves, type_)
  assert filled == collections.OrderedDict(b=5, a=_Pair(0.5, ((), 7)))


@pytest.mark.parametrize(
  'dataset',
  [
    tf.data.Dataset.range(4).map(lambda i: {'x': i, 'y': (2 * i,)}),
    [{'x': i, 'y': (2 * i,)} for i in range(4)],
  ],
  ids=['dataset', 'list'],
)
def test_a_dataset_or_a_list_is_a_sequence(dataset):
  element = collections.OrderedDict(x=np.int64, y=(np.int64,))
  type_ = tff.types.SequenceType(tff.types.to_type(element))
  (leaf,) = values.flatten(dataset, type_)
  assert leaf.dtype == tf.variant
  spec = tf.TensorSpec([], tf.int64)
  back = tf.data.experimental.from_variant(leaf, {'x': spec, 'y': (spec,)})
  assert [(int(e['x']), int(e['y'][0])) for e in back] == [
    (0, 0), (1, 2), (2, 4), (3, 6)
  ]


def test_specs_are_those_of_the_leaves():
  type_ = tff.types.to_type((
    tff.types.FederatedType(
      tff.types.TensorType(np.float32, [None, 3]), tff.SERVER
    ),
    tff.types.SequenceType(np.int32),
    (),
  ))
  assert values.specs(type_) == [
    tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([], tf.variant)
  ]


_TREES = st.recursive(
  st.integers(-100, 100),
  lambda children: st.one_of(
    st.lists(children, max_size=3),
    st.lists(children, max_size=3).map(tuple),
    st.lists(children, min_size=1, max_size=3).map(
      lambda parts: collections.OrderedDict(
        (f'key{9 - place}', part) for place, part in enumerate(parts)
      )
    ),
    st.tuples(children, children).map(lambda pair: _Pair(*pair)),
  ),
  max_leaves=8,
)


@hypothesis.given(_TREES)
@hypothesis.settings(max_examples=60)
def test_what_is_flattened_is_packed_again(tree):
  leaf_type = tff.types.TensorType(np.int64)
  type_ = tff.types.to_type(tf.nest.map_structure(lambda _: leaf_type, tree))
  leaves = values.flatten(tree, type_)
  assert len(leaves) == len(values.specs(type_))
  back = values.pack(leaves, type_)
  tf.nest.assert_same_structure(back, tree)
  assert tf.nest.flatten(back) == tf.nest.flatten(tree)


def test_a_value_is_the_memory_of_the_tensors_and_gone_with_them():
  # A large tensor must not wait for the garbage collector, nor be copied.
  type_ = tff.types.to_type(
    _Pair(np.float32, tff.types.TensorType(np.float32, [4]))
  )
  leaves = [tf.constant(1.0), tf.constant([1.0, 2.0, 3.0, 4.0])]
  gc.collect()
  gc.disable()
  try:
    value = values.pack(leaves, type_)
    assert value.first == 1 and value.second.tolist() == [1, 2, 3, 4]
    assert np.shares_memory(value.second, np.asarray(leaves[1]))
    with pytest.raises(ValueError, match='read-only'):
      value.second[0] = 5
    last = weakref.ref(leaves[1])
    del value, leaves
    assert last() is None
  finally:
    gc.enable()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
