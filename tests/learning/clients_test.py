"""Tests of `clients`: what can be read into arrays, and why other cannot."""

import collections
import sys

import numpy as np
import pytest
import tensorflow_federated as tff

from f3ast_tff import selection
from f3ast_tff.learning import clients as clients_lib

_SIZES = (7, 0, 12)


def _client_data(preprocess=lambda dataset: dataset.batch(4)):
  rng = np.random.default_rng(0)
  return tff.simulation.datasets.TestClientData({
    name: collections.OrderedDict(
      x=rng.standard_normal((size, 3)).astype(np.float32),
      y=rng.integers(0, 5, size).astype(np.int32),
    )
    for name, size in zip('abc', _SIZES)
  }).preprocess(preprocess)


@pytest.mark.parametrize('in_memory', [True, False])
def test_examples_are_counted(in_memory):
  clients = clients_lib.read_clients(_client_data(), in_memory)
  assert (clients.arrays is not None) == in_memory
  np.testing.assert_array_equal(clients.num_examples, _SIZES)
  np.testing.assert_allclose(clients.p, np.array(_SIZES) / 19)


def test_clients_are_read_in_the_order_of_their_datasets():
  data = _client_data()
  clients = clients_lib.read_arrays(data)
  assert clients.batch_size == 4 and not clients.is_shuffled
  assert [len(part['y']) for part in clients.train] == list(_SIZES)
  for name, part in zip('abc', clients.train):
    batches = list(data.create_tf_dataset_for_client(name).as_numpy_iterator())
    for field in ('x', 'y'):
      expected = [row for batch in batches for row in batch[field]]
      assert len(part[field]) == len(expected)
      for row, other in zip(part[field], expected):
        np.testing.assert_array_equal(row, other)


def test_datasets_that_shuffle_are_noticed():
  data = _client_data(lambda dataset: dataset.shuffle(20).batch(4))
  assert clients_lib.read_arrays(data).is_shuffled


@pytest.mark.parametrize(
  'preprocess, why',
  [
    (
      lambda d: d.batch(4).map(lambda e: (e['x'], e['x'], e['y'])), 'not pairs'
    ),
    (lambda d: d.batch(4).map(lambda e: ({'a': e['x']}, e['y'])), 'not pairs'),
    (lambda d: d.batch(5).repeat(2), 'unlike sizes'),
    (lambda d: d.batch(4).take(0), 'no examples'),
  ],
)
def test_clients_that_do_not_fit_say_why(preprocess, why):
  data = _client_data(preprocess)
  with pytest.raises(clients_lib.UnfitError, match=why):
    clients_lib.read_arrays(data)
  clients = clients_lib.read_clients(data)
  assert clients.arrays is None and why in clients.why_not


def test_clients_that_fill_too_much_memory_say_so():
  with pytest.raises(clients_lib.UnfitError, match='more than 100 bytes'):
    clients_lib.read_arrays(_client_data(), max_bytes=100)


def test_who_trains_on_datasets_by_hand():
  clients = clients_lib.read_clients(_client_data(), in_memory=False)
  cohort = selection.Cohort(np.array([0, 2]), np.array([0.5, 1.5]))
  parts = clients.parts(cohort, 1, failed=[0])
  # Who fails is there without examples.
  for part, expected in zip(parts, [(0, 0.5, 0), (2, 1.5, 12)]):
    value = clients.fill(part)
    num_examples = sum(len(batch['y']) for batch in value.examples)
    assert (value.index, value.weight, num_examples) == expected


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
