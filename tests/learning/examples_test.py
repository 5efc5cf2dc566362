"""Tests of `examples`."""

import sys

import numpy as np
import pytest

from f3ast_tff.learning import examples as examples_lib


def test_examples_of_all_are_split_as_they_were():
  behind = {
    'x': np.array([[1.0], [2.0], [3.0]]), 'y': np.array([4, 5, 6], np.int32)
  }
  parts = examples_lib.split(behind, np.array([2, 0, 1]))
  assert [part['x'].tolist() for part in parts] == [[[1], [2]], [], [[3]]]
  assert [part['y'].tolist() for part in parts] == [[4, 5], [], [6]]
  assert np.shares_memory(parts[0]['x'], behind['x'])


_EXAMPLES = {
  'x': np.arange(6, dtype=np.float32).reshape(3, 2) / 7,
  'y': np.array([9, -1, 4], np.int32),
}


@pytest.mark.parametrize(
  'examples, message',
  [
    ({'x': _EXAMPLES['x'][:2], 'y': _EXAMPLES['y']}, 'same number'),
    ({'y': _EXAMPLES['y']}, 'the same fields'),
    ({**_EXAMPLES, 'z': _EXAMPLES['y']}, 'the same fields'),
    (
      {'x': np.zeros((3, 5), np.float32), 'y': _EXAMPLES['y']},
      r"Field 'x' must have shape \(2,\) in every example, but at client 1 it "
      r'has \(5,\)',
    ),
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
def test_examples_that_do_not_fit_together_are_named(examples, message):
  with pytest.raises(ValueError, match=message):
    examples_lib.concatenated([_EXAMPLES, examples])


def test_another_type_is_taken_where_nothing_but_digits_is_lost():
  wide = {
    'x': _EXAMPLES['x'].astype(np.float64), 'y': _EXAMPLES['y'].astype(int)
  }
  fields = examples_lib.concatenated([_EXAMPLES, wide])
  assert fields['x'].dtype == np.float32 and fields['y'].dtype == np.int32
  np.testing.assert_array_equal(
    fields['x'], np.concatenate([_EXAMPLES['x']] * 2)
  )
  np.testing.assert_array_equal(fields['y'], [9, -1, 4, 9, -1, 4])


def test_what_is_not_finite_may_stay_so():
  strange = {'x': np.full((1, 2), np.nan), 'y': np.array([1])}
  fields = examples_lib.concatenated([_EXAMPLES, strange])
  assert np.isnan(fields['x'][3]).all()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
