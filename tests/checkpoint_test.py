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
  assert checkpoint.rounds(tmp_path) == [7]
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
  assert checkpoint.rounds(tmp_path) == [10, 15]
  assert sorted(f.name for f in tmp_path.iterdir()) == [
    'round_10.npz', 'round_15.npz'
  ]


def test_nothing_there(tmp_path):
  assert checkpoint.load_latest(tmp_path / 'none', _state(0)) is None
  assert checkpoint.load_latest(tmp_path, _state(0)) is None


def test_unfinished_checkpoint_is_not_taken(tmp_path):
  checkpoint.save(tmp_path, 5, _state(5))
  (tmp_path / 'round_10.tmp').write_bytes(b'PK')  # A kill while saving.
  assert checkpoint.rounds(tmp_path) == [5]
  checkpoint.remove_unfinished(tmp_path)
  assert [f.name for f in tmp_path.iterdir()] == ['round_5.npz']


def _damage(path, how):
  content = bytearray(path.read_bytes())
  if how == 'empty':
    content = bytearray()
  elif how == 'cut off':
    content = content[: len(content) // 2]
  elif how == 'garbage':
    content = bytearray(b'garbage')
  elif how == 'bit flip':  # In the weights: 16 bytes of 5.0.
    place = content.index(np.full(4, 5.0, np.float32).tobytes())
    content[place] ^= 1
  else:  # Something that NumPy would have to unpickle.
    np.savez(path, np.array([object()], dtype=object))
    return
  path.write_bytes(content)


@pytest.mark.parametrize(
  'how', ['empty', 'cut off', 'garbage', 'bit flip', 'pickle']
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_taken(
  how, tmp_path
):
  checkpoint.save(tmp_path, 4, _state(4))
  checkpoint.save(tmp_path, 5, _state(5))
  _damage(tmp_path / 'round_5.npz', how)
  with pytest.raises(OSError, match='round_5.npz is damaged'):
    checkpoint.load(tmp_path, 5, _state(0))
  round_num, state = checkpoint.load_latest(tmp_path, _state(0))
  assert round_num == 4
  np.testing.assert_array_equal(state.rates, np.full(3, 4 / 3))


@pytest.mark.parametrize('place', range(0, 30))
def test_damage_of_the_directory_of_the_file(place, tmp_path):
  checkpoint.save(tmp_path, 4, _state(4))
  checkpoint.save(tmp_path, 5, _state(5))
  path = tmp_path / 'round_5.npz'
  content = bytearray(path.read_bytes())
  content[content.rindex(b'PK\x01\x02') + place] ^= 0x85
  path.write_bytes(content)
  # Either it is read in spite of that, whole, or the one before it is taken.
  round_num, state = checkpoint.load_latest(tmp_path, _state(0))
  np.testing.assert_array_equal(state.rates, np.full(3, round_num / 3))


def test_checkpoints_of_another_kind_are_not_overwritten(tmp_path):
  (tmp_path / 'round_5').mkdir()
  with pytest.raises(run_directory.RunDirectoryError, match='No checkpoint in'):
    checkpoint.load_latest(tmp_path, _state(0))


def test_when_none_can_be_read_it_is_said(tmp_path):
  checkpoint.save(tmp_path, 5, _state(5))
  _damage(tmp_path / 'round_5.npz', 'empty')
  with pytest.raises(run_directory.RunDirectoryError, match='No checkpoint in'):
    checkpoint.load_latest(tmp_path, _state(0))


def test_another_number_of_clients_is_refused(tmp_path):
  checkpoint.save(tmp_path, 5, _state(5))
  with pytest.raises(run_directory.RunDirectoryError, match='another model'):
    checkpoint.load(tmp_path, 5, _state(0, num_clients=4))


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
