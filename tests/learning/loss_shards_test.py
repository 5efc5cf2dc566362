"""Tests of `loss_shards`."""

import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff.learning import examples as examples_lib
from f3ast_tff.learning import loss_shards
from f3ast_tff.learning import shards
from tests import numbered

_TRAIN = numbered.clients((5, 0, 3))


def _make(train=_TRAIN, batch_size=2, **arguments):
  return loss_shards.LossShards(
    train,
    lambda: examples_lib.concatenated(train),
    batch_size=batch_size,
    **arguments,
  )


def _queried(*clients, **arguments):
  make = _make(**arguments)
  return [make.fill(part) for part in make.parts(np.array(clients, int))]


def test_who_is_queried_brings_all_examples_in_shared_batches():
  (queried,) = _queried(0, 2)
  # 5 and 3 examples are 4 batches; the third holds examples of both.
  np.testing.assert_array_equal(
    queried.batches, [[0, 1], [2, 3], [4, 5], [6, 7]]
  )
  np.testing.assert_array_equal(
    queried.owners, [[0, 0], [0, 0], [0, 2], [2, 2]]
  )
  assert queried.batches.dtype == queried.owners.dtype == np.int32
  (other,) = _queried(2)
  np.testing.assert_array_equal(other.batches, [[5, 6], [7, -1]])
  np.testing.assert_array_equal(other.owners, [[2, 2], [2, shards.NOBODY]])


def test_batches_of_who_is_queried_go_round_the_shards_and_are_filled_up():
  first, second = _queried(0, 2, num_shards=2, filled_up_to=3)
  no_rows = [shards.NO_ROW] * 2
  np.testing.assert_array_equal(first.batches, [[0, 1], [4, 5], no_rows])
  np.testing.assert_array_equal(second.batches, [[2, 3], [6, 7], no_rows])
  np.testing.assert_array_equal(
    second.owners, [[0, 0], [2, 2], [shards.NOBODY] * 2]
  )


def test_examples_of_like_length_are_beside_each_other():
  lengths = np.array([9, 1, 5, 1, 2, 8, 7, 1])
  (queried,) = _queried(0, 2, lengths=lengths)
  # By hand: rows by length, and whose they are.
  np.testing.assert_array_equal(
    queried.batches, [[1, 3], [7, 4], [2, 6], [5, 0]]
  )
  np.testing.assert_array_equal(
    queried.owners, [[0, 0], [2, 0], [0, 2], [2, 0]]
  )
  # Where others come before, the lengths are still those of its own rows.
  (other,) = _queried(2, lengths=lengths)
  np.testing.assert_array_equal(other.batches, [[7, 6], [5, -1]])


def test_who_is_queried_brings_the_form_of_test_examples():
  def as_tested(examples):
    return {**examples, 'x': -examples['x']}

  (queried,) = _queried(2, as_tested=as_tested)
  np.testing.assert_array_equal(queried.batches, [[0, 1], [2, -1]])
  np.testing.assert_array_equal(
    queried.examples['x'][:, 0], [-200, -201, -202]
  )


def test_who_is_queried_may_change_between_the_parts_of_a_shard():
  make = _make(num_shards=2)
  parts, others = make.parts(np.array([0, 2])), make.parts(np.array([2]))
  # As a machine would that trains the second shard of one round, and then the
  # first of another.
  np.testing.assert_array_equal(
    make.fill(parts[1]).batches, [[2, 3], [6, 7]]
  )
  np.testing.assert_array_equal(make.fill(others[0]).batches, [[5, 6]])
  np.testing.assert_array_equal(
    make.fill(parts[0]).batches, [[0, 1], [4, 5]]
  )


@hypothesis.given(numbered.cohorts(), st.integers(1, 4), st.integers(1, 3))
def test_every_example_of_who_is_queried_comes_once(
  case, batch_size, num_shards
):
  train, clients = case
  made = _queried(
    *clients, train=train, batch_size=batch_size, num_shards=num_shards
  )
  assert len(made) == num_shards
  found = []
  for queried in made:
    is_row = queried.batches != shards.NO_ROW
    np.testing.assert_array_equal(is_row, queried.owners != shards.NOBODY)
    values = queried.examples['x'][queried.batches[is_row], 0]
    np.testing.assert_array_equal(values // 100, queried.owners[is_row])
    found += values.tolist()
  assert sorted(found) == sorted(
    x for k in clients for x in train[k]['x'][:, 0].tolist()
  )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
