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


def _orders(clients, rounds):
  """Returns the order of client 2's labels in some rounds, and what was made.

  Training takes what `fill` returns and goes through it once.
  """
  cohort = selection.Cohort(np.array([2]), np.ones(1))
  orders = []
  for t in range(1, rounds + 1):
    (part,) = clients.parts(cohort, t)
    batches = clients.fill(part).examples.as_numpy_iterator()
    orders.append([label for batch in batches for label in batch['y']])
  return orders


@pytest.mark.parametrize('is_kept', [True, False])
def test_datasets_are_made_once_while_memory_lasts(is_kept, monkeypatch):
  made = []

  def preprocess(dataset):
    made.append(dataset)
    return dataset.shuffle(12, seed=1).batch(4)

  data = _client_data(preprocess)
  clients = clients_lib.read_clients(data, in_memory=False)
  if not is_kept:
    monkeypatch.setattr(clients_lib, '_free_bytes', lambda: 0)
  made.clear()
  assert clients.p.shape == (3,)
  orders = _orders(clients, 5)
  assert len(made) == (3 if is_kept else 8)  # All are counted, one trains.
  # A shuffle goes on with its draws; where the dataset is new, it starts over.
  assert len({tuple(order) for order in orders}) == (5 if is_kept else 1)
  assert all(sorted(order) == sorted(orders[0]) for order in orders)


def test_who_fails_keeps_its_dataset_for_later():
  clients = clients_lib.read_clients(_client_data(), in_memory=False)
  failing = clients.fill(clients_lib.DatasetPart(2, 1.0, is_failed=True))
  assert not list(failing.examples)
  later = clients.fill(clients_lib.DatasetPart(2, 1.0))
  assert sum(len(batch['y']) for batch in later.examples) == 12


@pytest.mark.parametrize('in_memory', [True, False])
def test_going_through_all_clients_shows_progress(
  in_memory, monkeypatch, capfd
):
  shown = []
  plain = clients_lib.tqdm.tqdm

  def bar(clients, what, **options):
    shown.append((len(clients), what, options['disable'], options['delay']))
    return plain(clients, what, **options)

  monkeypatch.setattr(clients_lib.tqdm, 'tqdm', bar)
  clients = clients_lib.read_clients(_client_data(), in_memory)
  np.testing.assert_array_equal(clients.num_examples, _SIZES)
  what = 'Reading clients' if in_memory else 'Counting examples'
  # None: only on a terminal; and there only what takes more than a second.
  assert shown == [(3, what, None, 1)]
  assert capfd.readouterr() == ('', '')


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
