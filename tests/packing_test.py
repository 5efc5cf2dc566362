"""Tests of `packing`."""

import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import packing

_EXAMPLES = {
  'x': np.arange(6, dtype=np.float32).reshape(3, 2) / 7,
  'y': np.array([9, -1, 4], np.int32),
}


_LAYOUT = packing.layout_of(_EXAMPLES)


def _member(num_examples, client=0, weight=1.0):
  rows = np.full((num_examples, _LAYOUT.width), client, np.uint8)
  return packing.Member(rows, client, weight)


def test_rows_read_back_by_hand():
  rows = packing.to_rows(_LAYOUT, _EXAMPLES)
  assert rows.shape == (3, 16)  # Room for a client's row.
  np.testing.assert_array_equal(
    np.frombuffer(rows[1, :8].tobytes(), '<f4'), _EXAMPLES['x'][1]
  )
  assert np.frombuffer(rows[1, 8:12].tobytes(), '<i4')[0] == -1
  np.testing.assert_array_equal(rows[:, -1], [1, 1, 1])


def test_wide_rows_are_one_byte_longer_than_an_example():
  layout = packing.layout_of({'x': np.zeros((2, 5), np.float32)})
  assert layout.width == 21


def test_pack_by_hand():
  rows = packing.to_rows(_LAYOUT, _EXAMPLES)
  members = [packing.Member(rows, 5, 0.25), packing.Member(rows[:2], 7, 2.0)]
  packed = packing.pack(members, _LAYOUT, batch_size=2)
  # A row with the number of clients, two clients, batches of 2, 1 + 0, 2.
  assert packed.shape == (1 + 2 + 6, 16)
  assert np.frombuffer(packed[0, :4].tobytes(), '<i4')[0] == 2
  clients = [
    np.frombuffer(row.tobytes(), packing.CLIENT)[0].tolist()
    for row in packed[1:3]
  ]
  assert clients == [(5, 0.25, 0, 2), (7, 2.0, 2, 3)]
  np.testing.assert_array_equal(packed[3:6], rows)
  assert not packed[6].any()
  np.testing.assert_array_equal(packed[7:], rows[:2])


def test_pack_of_nobody_and_of_somebody_without_examples():
  assert not packing.pack([], _LAYOUT, 20).any()
  packed = packing.pack([_member(0, client=3)], _LAYOUT, 20)
  assert packed.shape == (2, 16)
  client = np.frombuffer(packed[1].tobytes(), packing.CLIENT)[0]
  assert client.tolist() == (3, 1.0, 0, 0)


@hypothesis.given(
  st.lists(st.integers(0, 200), max_size=12), st.integers(1, 4)
)
def test_deal_gives_every_client_once_and_loads_evenly(sizes, num_hands):
  members = [_member(size, client) for client, size in enumerate(sizes)]
  hands = packing.deal(members, 20, num_hands)
  assert len(hands) == num_hands
  dealt = sorted(member.client for hand in hands for member in hand)
  assert dealt == list(range(len(sizes)))
  batches = [-(-size // 20) for size in sizes]
  loads = [sum(batches[m.client] for m in hand) for hand in hands]
  # No hand is ahead of another by more than its last, smallest client.
  for hand, load in zip(hands, loads):
    if hand:
      assert load - batches[hand[-1].client] <= min(loads)


@pytest.mark.parametrize(
  'examples, message',
  [
    ({'x': _EXAMPLES['x'][:2], 'y': _EXAMPLES['y']}, 'same number'),
    ({'x': np.zeros((3, 5), np.float32), 'y': _EXAMPLES['y']}, 'shape'),
    (
      {'x': _EXAMPLES['x'], 'y': np.array([0.5, 1.0, 2.0])},
      "Field 'y' must fit int32.*one has float64",
    ),
    (
      {'x': np.full((3, 2), 1e300), 'y': _EXAMPLES['y']},
      "Field 'x' must fit float32.*one has float64",
    ),
    (
      {'x': _EXAMPLES['x'], 'y': np.array([1, 2, 2**31 + 5])},
      "Field 'y' must fit int32.*one has int64",
    ),
  ],
)
def test_bad_examples_are_named(examples, message):
  with pytest.raises(ValueError, match=message):
    packing.to_rows(packing.layout_of(_EXAMPLES), examples)


def test_another_type_is_taken_where_nothing_but_digits_is_lost():
  wide = {
    'x': _EXAMPLES['x'].astype(np.float64), 'y': _EXAMPLES['y'].astype(int)
  }
  np.testing.assert_array_equal(
    packing.to_rows(_LAYOUT, wide), packing.to_rows(_LAYOUT, _EXAMPLES)
  )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
