"""Tests of `checkpoint`."""

import json
import sys

import numpy as np
import pytest
import tensorflow_federated as tff

from f3ast_tff.learning import server as server_lib
from f3ast_tff.runs import checkpoint
from f3ast_tff.runs import run_directory

_ROUNDS = 20
_ORIGIN = {'beta': 0.001, 'the data set': 'one', 'f3ast-tff': '1.0'}


def _state(value, num_clients=3):
  weights = tff.learning.models.ModelWeights(
    (np.full((2, 2), value, np.float32),), ()
  )
  rates = np.full(num_clients, value / 3)
  return server_lib.ServerState(weights, rates, (), (), (np.float32(value),))


def _save(folder, round_num, state, files=(), num_rounds=_ROUNDS):
  checkpoint.save(folder, round_num, num_rounds, state, _ORIGIN, files)


def _latest(folder, origin=None, files=(), num_rounds=_ROUNDS):
  return checkpoint.load_latest(
    folder, num_rounds, _state(0), origin or _ORIGIN, files
  )


def test_round_trip_keeps_every_bit_and_the_structure(tmp_path):
  _save(tmp_path, 7, _state(1 / 3))
  assert checkpoint.rounds(tmp_path) == [7]
  loaded = checkpoint.load(tmp_path, 7, _ROUNDS, _state(0), _ORIGIN)
  assert isinstance(loaded, server_lib.ServerState)
  weights = loaded.global_model_weights
  assert isinstance(weights, tff.learning.models.ModelWeights)
  np.testing.assert_array_equal(
    weights.trainable[0], np.full((2, 2), 1 / 3, np.float32)
  )
  np.testing.assert_array_equal(loaded.rates, np.full(3, 1 / 3 / 3))
  assert loaded.rates.dtype == np.float64


def test_old_checkpoints_are_pruned(tmp_path):
  for round_num in (5, 10, 15):
    _save(tmp_path, round_num, _state(round_num))
  assert checkpoint.rounds(tmp_path) == [10, 15]
  assert sorted(f.name for f in tmp_path.iterdir()) == [
    'round_10.npz', 'round_15.npz'
  ]


def test_a_kill_before_the_pruning_is_made_up_for(tmp_path, monkeypatch):
  monkeypatch.setattr(checkpoint, '_KEEP', 3)
  for round_num in (5, 10, 15):
    _save(tmp_path, round_num, _state(round_num))
  monkeypatch.setattr(checkpoint, '_KEEP', 2)
  newest = (tmp_path / 'round_15.npz').read_bytes()
  _damage(tmp_path / 'round_15.npz', 'empty')
  # Not now, because the old ones may be all there is.
  assert _latest(tmp_path)[0] == 10
  assert checkpoint.rounds(tmp_path) == [5, 10, 15]
  (tmp_path / 'round_15.npz').write_bytes(newest)
  assert _latest(tmp_path)[0] == 15
  assert checkpoint.rounds(tmp_path) == [10, 15]


def test_nothing_there(tmp_path):
  assert _latest(tmp_path / 'none') is None
  assert _latest(tmp_path) is None


def test_unfinished_checkpoint_is_not_taken(tmp_path):
  _save(tmp_path, 5, _state(5))
  (tmp_path / 'round_10.npz.tmp').write_bytes(b'PK')  # A kill while saving.
  assert checkpoint.rounds(tmp_path) == [5]
  run_directory.remove_unfinished(tmp_path)
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
  _save(tmp_path, 4, _state(4))
  _save(tmp_path, 5, _state(5))
  _damage(tmp_path / 'round_5.npz', how)
  with pytest.raises(OSError, match='round_5.npz is damaged'):
    checkpoint.load(tmp_path, 5, _ROUNDS, _state(0), _ORIGIN)
  round_num, state = _latest(tmp_path)
  assert round_num == 4
  np.testing.assert_array_equal(state.rates, np.full(3, 4 / 3))


@pytest.mark.parametrize('place', range(0, 30))
def test_damage_of_the_directory_of_the_file(place, tmp_path):
  _save(tmp_path, 4, _state(4))
  _save(tmp_path, 5, _state(5))
  path = tmp_path / 'round_5.npz'
  content = bytearray(path.read_bytes())
  content[content.rindex(b'PK\x01\x02') + place] ^= 0x85
  path.write_bytes(content)
  # Either it is read in spite of that, whole, or the one before it is taken.
  round_num, state = _latest(tmp_path)
  np.testing.assert_array_equal(state.rates, np.full(3, round_num / 3))


def test_checkpoints_of_another_kind_are_not_overwritten(tmp_path):
  (tmp_path / 'round_5').mkdir()
  with pytest.raises(run_directory.RunDirectoryError, match='No checkpoint in'):
    _latest(tmp_path)


def test_when_none_can_be_read_it_is_said(tmp_path):
  _save(tmp_path, 5, _state(5))
  _damage(tmp_path / 'round_5.npz', 'empty')
  with pytest.raises(run_directory.RunDirectoryError, match='No checkpoint in'):
    _latest(tmp_path)


def test_a_renamed_checkpoint_is_damage(tmp_path, caplog):
  _save(tmp_path, 4, _state(4))
  _save(tmp_path, 5, _state(5))
  (tmp_path / 'round_5.npz').rename(tmp_path / 'round_9.npz')
  assert _latest(tmp_path)[0] == 4
  assert 'round_9.npz is damaged (it is of round 5)' in caplog.text
  # It goes when the run gets on, and never stands in the way of a newer one.
  _save(tmp_path, 6, _state(6))
  assert checkpoint.rounds(tmp_path) == [4, 6]


def test_a_checkpoint_of_before_rounds_were_recorded_is_refused(tmp_path):
  _save(tmp_path, 5, _state(5))
  path = tmp_path / 'round_5.npz'
  with np.load(path, allow_pickle=False) as file:
    arrays = dict(file)
  about = json.loads(arrays['about'].tobytes())
  del about['round'], about['rounds']
  arrays['about'] = np.frombuffer(json.dumps(about).encode(), np.uint8)
  np.savez(path, **arrays)
  with pytest.raises(run_directory.RunDirectoryError) as caught:
    _latest(tmp_path)
  assert 'finish the run with that version' in str(caught.value)
  assert path.exists()


def test_another_number_of_clients_is_refused(tmp_path):
  _save(tmp_path, 5, _state(5))
  with pytest.raises(run_directory.RunDirectoryError, match='another model'):
    checkpoint.load(tmp_path, 5, _ROUNDS, _state(0, num_clients=4), _ORIGIN)


@pytest.mark.parametrize(
  'name, there, here',
  [
    ('beta', 0.001, 0.5),
    ('the data set', 'one', 'another'),
    ('f3ast-tff', '1.0', '1.1'),
  ],
)
def test_another_run_is_refused_and_the_difference_named(
  name, there, here, tmp_path
):
  _save(tmp_path, 4, _state(4))
  _save(tmp_path, 5, _state(5))
  with pytest.raises(run_directory.RunDirectoryError) as caught:
    _latest(tmp_path, {**_ORIGIN, name: here})
  assert f'{name} is {there!r} there and {here!r} here' in str(caught.value)
  assert checkpoint.rounds(tmp_path) == [4, 5]


def test_a_header_that_claims_fewer_numbers_is_damage(tmp_path):
  # NumPy would read the two numbers and never look at the checksum.
  _save(tmp_path, 4, _state(4))
  _save(tmp_path, 5, _state(5))
  path = tmp_path / 'round_5.npz'
  content = path.read_bytes()
  assert content.count(b"'shape': (3,)") == 1
  path.write_bytes(content.replace(b"'shape': (3,)", b"'shape': (2,)"))
  round_num, _ = _latest(tmp_path)
  assert round_num == 4


@pytest.fixture
def with_rows(tmp_path):
  """Two checkpoints, and a file with a row before and after each."""
  folder, rows = tmp_path / 'checkpoints', tmp_path / 'rows.csv'
  rows.write_text('round\n4\n')
  _save(folder, 4, _state(4), [rows])
  rows.write_text('round\n4\n5\n')
  _save(folder, 5, _state(5), [rows])
  rows.write_text('round\n4\n5\n6\n7')
  return folder, rows


def _load_latest(folder, rows, num_rounds=_ROUNDS):
  found = _latest(folder, files=[rows], num_rounds=num_rounds)
  return found and found[0]


def test_rows_are_cut_back_to_what_they_were(with_rows):
  folder, rows = with_rows
  assert _load_latest(folder, rows) == 5
  assert rows.read_text() == 'round\n4\n5\n'


def test_damaged_rows_are_noticed_and_an_earlier_checkpoint_taken(with_rows):
  folder, rows = with_rows
  rows.write_text('round\n4\n8\n6\n')
  assert _load_latest(folder, rows) == 4
  assert rows.read_text() == 'round\n4\n'


@pytest.mark.parametrize('text', ['round\n3\n5\n', '', None])
def test_rows_that_are_lost_are_an_error_and_nothing_changes(text, with_rows):
  folder, rows = with_rows
  rows.unlink() if text is None else rows.write_text(text)
  with pytest.raises(run_directory.RunDirectoryError, match='No checkpoint'):
    _load_latest(folder, rows)
  assert rows.exists() == (text is not None)
  assert text is None or rows.read_text() == text


@pytest.mark.parametrize(
  'there, here, found, left',
  [
    (20, 20, 5, [4, 5]),  # Not at the end of any of the two.
    (20, 6, 5, [4, 5]),
    (6, 20, 5, [4, 5]),
    (5, 5, 5, [4, 5]),  # A run that has finished, and stays so.
    (5, 20, 4, [4]),  # Its last round is not one of a longer run.
    (20, 5, 4, [4]),  # The shorter run has a last test there.
    (4, 20, None, []),  # None is left: from the start.
  ],
)
def test_the_last_round_is_of_runs_of_its_length_only(
  there, here, found, left, with_rows
):
  folder, rows = with_rows
  for round_num in (4, 5):  # Saved again, by a run of that length.
    rows.write_text(''.join(['round\n', '4\n', '5\n'][: round_num - 2]))
    _save(folder, round_num, _state(round_num), [rows], there)
  if there == 4:
    (folder / 'round_5.npz').unlink()
  assert _load_latest(folder, rows, here) == found
  assert checkpoint.rounds(folder) == left
  expected = {5: 'round\n4\n5\n', 4: 'round\n4\n', None: None}[found]
  assert (rows.read_text() if rows.exists() else None) == expected


def test_a_run_of_another_length_and_other_data_is_refused(tmp_path):
  rows = tmp_path / 'rows.csv'
  rows.write_text('round\n5\n')
  folder = tmp_path / 'checkpoints'
  _save(folder, 5, _state(5), [rows], num_rounds=5)
  other = {**_ORIGIN, 'the data set': 'another'}
  with pytest.raises(run_directory.RunDirectoryError, match='the data set is'):
    _latest(folder, other, [rows], num_rounds=9)
  assert checkpoint.rounds(folder) == [5]
  assert rows.read_text() == 'round\n5\n'


def test_rows_without_a_checkpoint_go(tmp_path):
  rows = tmp_path / 'rows.csv'
  rows.write_text('round\n1\n')
  none = tmp_path / 'none'
  assert _latest(none, files=[rows]) is None
  assert not rows.exists()


def test_a_file_that_was_not_there_yet_goes(tmp_path):
  rows = tmp_path / 'rows.csv'
  _save(tmp_path / 'checkpoints', 4, _state(4), [rows])
  rows.write_text('round\n5\n')
  assert _load_latest(tmp_path / 'checkpoints', rows) == 4
  assert not rows.exists()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
