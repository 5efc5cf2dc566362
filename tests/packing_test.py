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


def test_rows_read_back_by_hand():
  layout = packing.layout_of(_EXAMPLES)
  rows = packing.to_rows(layout, _EXAMPLES)
  assert rows.shape == (3, 12)
  np.testing.assert_array_equal(
    np.frombuffer(rows[1, :8].tobytes(), '<f4'), _EXAMPLES['x'][1]
  )
  assert np.frombuffer(rows[1, 8:].tobytes(), '<i4')[0] == -1


def test_pack_puts_header_rows_and_zeros():
  layout = packing.layout_of(_EXAMPLES)
  rows = packing.to_rows(layout, _EXAMPLES)
  packed = packing.pack(rows, index=5, weight=0.25, batch_size=2)
  assert packed.shape == (1 + 4, 12)
  header = np.frombuffer(packed[0].tobytes(), packing.HEADER)[0]
  assert (header['num_examples'], header['index']) == (3, 5)
  assert header['weight'] == 0.25
  np.testing.assert_array_equal(packed[1:4], rows)
  assert not packed[4].any()


def test_narrow_rows_leave_room_for_the_header():
  layout = packing.layout_of({'y': np.zeros(2, np.uint8)})
  assert layout.width == packing.HEADER.itemsize
  rows = packing.to_rows(layout, {'y': np.array([3, 4], np.uint8)})
  np.testing.assert_array_equal(rows[:, 0], [3, 4])


def test_absent_participant_has_no_examples_and_no_weight():
  packed = packing.absent(packing.layout_of(_EXAMPLES), 20)
  header = np.frombuffer(packed[0, :12].tobytes(), packing.HEADER)[0]
  assert header.tolist() == (0, packing.ABSENT, 0.0)


_NUM_BATCHES = sorted({2**i for i in range(20)} | {3 * 2**i for i in range(20)})


@hypothesis.given(st.integers(0, 10000), st.integers(1, 64))
def test_padded_size_is_the_smallest_that_is_enough(num_examples, batch_size):
  expected = next(
    batch_size * n for n in _NUM_BATCHES if batch_size * n >= num_examples
  )
  assert packing.padded_size(num_examples, batch_size) == expected


@pytest.mark.parametrize(
  'examples, message',
  [
    ({'x': _EXAMPLES['x'][:2], 'y': _EXAMPLES['y']}, 'same number'),
    ({'x': np.zeros((3, 5), np.float32), 'y': _EXAMPLES['y']}, 'shape'),
  ],
)
def test_bad_examples_are_named(examples, message):
  with pytest.raises(ValueError, match=message):
    packing.to_rows(packing.layout_of(_EXAMPLES), examples)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
