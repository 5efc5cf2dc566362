"""Tests of `federated`."""

import dataclasses
import sys

import numpy as np
import pytest

from f3ast_tff.datasets import federated
from f3ast_tff.datasets import synthetic

_DATA = synthetic.load(num_clients=4, seed=1)


def _changed(**changes):
  return federated.fingerprint(dataclasses.replace(_DATA, **changes))


def test_predictions_are_labels_or_tokens_that_are_no_padding():
  assert _DATA.num_predictions.tolist() == _DATA.num_examples.tolist()
  y = np.array([[1, 2, 0], [3, 0, 0]])
  sequences = dataclasses.replace(_DATA, train=[{'x': y, 'y': y}])
  assert sequences.num_predictions.tolist() == [3]
  assert sequences.num_examples.tolist() == [2]


def test_label_shares_are_of_labels_or_of_tokens_that_are_no_padding():
  def shares(*labels):
    train = [{'x': np.array(y), 'y': np.array(y)} for y in labels]
    return dataclasses.replace(_DATA, train=train).label_shares

  np.testing.assert_array_equal(
    shares([0, 2, 2, 2], [1]), [[0.25, 0, 0.75], [0, 1, 0]]
  )
  np.testing.assert_array_equal(
    shares([[1, 2, 0], [1, 0, 0]], np.zeros((0, 3), int)),
    [[0, 2 / 3, 1 / 3], [0, 0, 0]],
  )
  with pytest.raises(ValueError, match='are not whole numbers'):
    _ = shares([0.5])


def test_equal_data_have_equal_fingerprints():
  again = synthetic.load(num_clients=4, seed=1)
  assert federated.fingerprint(again) == federated.fingerprint(_DATA)
  assert federated.fingerprint(_DATA).startswith('4 clients, sha256 ')


def _one_bit(array):
  array = array.copy()
  array.view(np.uint8).reshape(-1)[-1] ^= 1
  return array


def test_whatever_differs_shows():
  first, *others = _DATA.train
  prints = [
    federated.fingerprint(_DATA),
    _changed(train=[{**first, 'x': _one_bit(first['x'])}, *others]),
    _changed(train=[{**first, 'y': _one_bit(first['y'])}, *others]),
    _changed(train=[*others, first]),
    _changed(train=others),
    # The same bytes, divided otherwise.
    _changed(
      train=[
        {name: a[:-1] for name, a in first.items()},
        {n: np.concatenate([first[n][-1:], a]) for n, a in others[0].items()},
        *others[1:],
      ]
    ),
    _changed(train=[{**first, 'y': first['y'].view(np.uint32)}, *others]),
    _changed(test={**_DATA.test, 'y': _one_bit(_DATA.test['y'])}),
    _changed(test_owner=_one_bit(_DATA.test_owner)),
  ]
  assert len(set(prints)) == len(prints)


def test_data_without_any_example_are_refused():
  nothing = {name: array[:0] for name, array in _DATA.test.items()}
  with pytest.raises(ValueError, match='has no training examples at all'):
    _changed(train=[nothing, nothing])
  with pytest.raises(ValueError, match='has no test examples at all'):
    _changed(test=nothing, test_owner=_DATA.test_owner[:0])


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
