"""Tests of `participants`."""

import dataclasses
import sys

import numpy as np
import pytest

from f3ast_tff import config as config_lib
from f3ast_tff import packing
from f3ast_tff import participants
from f3ast_tff import selection
from f3ast_tff.datasets import federated


def _dataset(augment=None):
  examples = {
    'x': np.arange(12, dtype=np.float32).reshape(6, 2),
    'y': np.arange(6, dtype=np.int32),
  }
  return federated.FederatedDataset(
    'test', [examples, examples], examples, np.zeros(6, int), augment
  )


def _pack(config, dataset, round_num=1, clients=(0,)):
  packer = participants.Packer(config, dataset, num_arrays=3)
  cohort = selection.Cohort(np.array(clients), np.full(len(clients), 0.5))
  return packer, packer(cohort, round_num)


def _records(packer, packed):
  size = packer.layout.dtype.itemsize
  rows = np.ascontiguousarray(packed[2:, :size])  # One client's.
  return rows.view(packer.layout.dtype)[:, 0]


def test_packer_shuffles_by_seed_round_and_client_and_fills_places():
  config = config_lib.Config(batch_size=4)
  packer, (first, *absent) = _pack(config, _dataset())
  records = _records(packer, first)[:6]
  assert sorted(records['y']) == [0, 1, 2, 3, 4, 5]
  np.testing.assert_array_equal(records['x'][:, 0], 2 * records['y'])
  assert len(absent) == 2
  for place in absent:
    np.testing.assert_array_equal(place, packing.pack([], packer.layout, 4))
  again = _pack(config, _dataset())[1][0]
  np.testing.assert_array_equal(first, again)
  for other in (
    _pack(config, _dataset(), round_num=2)[1][0],
    _pack(config, _dataset(), clients=(1,))[1][0],
    _pack(config_lib.Config(batch_size=4, seed=1), _dataset())[1][0],
  ):
    assert (first[2:] != other[2:]).any()  # Row 1 names the client.


def test_packer_augments_anew_in_every_epoch_round_and_client():
  def augment(examples, rng):
    noise = rng.integers(1 << 40)
    return {**examples, 'x': np.full((6, 1), noise, np.int64)}

  config = config_lib.Config(batch_size=4, local_epochs=2)
  dataset = _dataset(augment)
  packer, (packed, *_) = _pack(config, dataset)
  records = _records(packer, packed)[:12]
  # Two passes, one after the other, each with its own draw.
  assert sorted(records['y'][:6]) == sorted(records['y'][6:]) == list(range(6))
  epochs = [set(records['x'][:6, 0]), set(records['x'][6:, 0])]
  assert [len(epoch) for epoch in epochs] == [1, 1] and epochs[0] != epochs[1]
  assert (records['y'][:6] != records['y'][6:]).any()
  other_client = _records(*_unpack(_pack(config, dataset, clients=(1,))))
  assert set(other_client['x'][:6, 0]) != epochs[0]
  np.testing.assert_array_equal(packed, _pack(config, dataset)[1][0])
  other_round = _records(*_unpack(_pack(config, dataset, round_num=2)))
  assert set(other_round['x'][:6, 0]) != epochs[0]


def test_candidates_bring_all_their_examples_in_the_form_of_test_examples():
  config = config_lib.Config(batch_size=4)
  packer = participants.Packer(config, _dataset(), num_arrays=1)
  (packed,) = packer.as_tested(np.array([1]), 1)
  records = _records(packer, packed)[:6]
  np.testing.assert_array_equal(records['y'], range(6))

  def halves(examples, rng=None):
    return {**examples, 'x': examples['x'][:, :1]}

  dataset = dataclasses.replace(
    _dataset(halves),
    as_tested=lambda examples: {**examples, 'x': -examples['x'][:, :1]},
  )
  packer = participants.Packer(config, dataset, num_arrays=1)
  (packed,) = packer.as_tested(np.array([1]), 1)
  records = _records(packer, packed)[:6]
  np.testing.assert_array_equal(records['x'][:, 0], [0, -2, -4, -6, -8, -10])

  # Also where training does not change the examples.
  dataset = dataclasses.replace(
    _dataset(), as_tested=lambda examples: {**examples, 'x': -examples['x']}
  )
  packer = participants.Packer(config, dataset, num_arrays=1)
  (packed,) = packer.as_tested(np.array([1]), 1)
  records = _records(packer, packed)[:6]
  np.testing.assert_array_equal(records['x'][:, 0], [0, -2, -4, -6, -8, -10])


def test_candidates_that_train_bring_what_they_would_as_a_cohort():
  config = config_lib.Config(batch_size=4)
  packer, (as_cohort, *_) = _pack(config, _dataset(), round_num=5)
  as_candidate, *_ = packer.as_trained(np.array([0]), 5)
  np.testing.assert_array_equal(as_candidate[2:], as_cohort[2:])


def _unpack(result):
  packer, (packed, *_) = result
  return packer, packed


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
