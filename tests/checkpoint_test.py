"""Tests of `checkpoint`."""

import sys

import numpy as np
import pytest
import tensorflow_federated as tff

from f3ast_tff import checkpoint
from f3ast_tff import process
from f3ast_tff import run_directory


def _state(value, num_clients=3):
  weights = tff.learning.models.ModelWeights(
    (np.full((2, 2), value, np.float32),), ()
  )
  rates = np.full(num_clients, value / 3)
  return process.ServerState(weights, rates, (), (), (np.float32(value),))


def test_round_trip_keeps_every_bit_and_the_structure(tmp_path):
  checkpoint.save(tmp_path, 7, _state(1 / 3))
  assert checkpoint.latest(tmp_path) == 7
  loaded = checkpoint.load(tmp_path, 7, _state(0))
  assert isinstance(loaded, process.ServerState)
  weights = loaded.global_model_weights
  assert isinstance(weights, tff.learning.models.ModelWeights)
  np.testing.assert_array_equal(
    weights.trainable[0], np.full((2, 2), 1 / 3, np.float32)
  )
  np.testing.assert_array_equal(loaded.rates, np.full(3, 1 / 3 / 3))
  assert loaded.rates.dtype == np.float64


def test_old_checkpoints_are_pruned(tmp_path):
  for round_num in (5, 10, 15):
    checkpoint.save(tmp_path, round_num, _state(round_num))
  assert checkpoint.latest(tmp_path) == 15
  assert sorted(f.name for f in tmp_path.iterdir()) == ['round_10', 'round_15']


def test_nothing_there(tmp_path):
  assert checkpoint.latest(tmp_path / 'none') is None
  assert checkpoint.latest(tmp_path) is None


def test_unfinished_checkpoint_is_not_taken(tmp_path):
  checkpoint.save(tmp_path, 5, _state(5))
  (tmp_path / 'round_10_temp1234').mkdir()  # As left by a kill while saving.
  assert checkpoint.latest(tmp_path) == 5
  checkpoint.remove_unfinished(tmp_path)
  assert [f.name for f in tmp_path.iterdir()] == ['round_5']


@pytest.mark.parametrize('damage', ['empty', 'garbage', 'no variables'])
def test_a_damaged_checkpoint_is_named(damage, tmp_path):
  checkpoint.save(tmp_path, 5, _state(5))
  model = tmp_path / 'round_5' / 'saved_model.pb'
  if damage == 'empty':
    model.write_bytes(b'')
  elif damage == 'garbage':
    model.write_bytes(b'garbage')
  else:
    for file in (tmp_path / 'round_5' / 'variables').iterdir():
      file.unlink()
  with pytest.raises(run_directory.RunDirectoryError, match='is damaged'):
    checkpoint.load(tmp_path, 5, _state(0))


def test_another_number_of_clients_is_refused(tmp_path):
  checkpoint.save(tmp_path, 5, _state(5))
  with pytest.raises(run_directory.RunDirectoryError, match='another model'):
    checkpoint.load(tmp_path, 5, _state(0, num_clients=4))


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
