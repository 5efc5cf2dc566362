"""Tests of `datasets.synthetic`."""

import sys

import numpy as np
import pytest

from f3ast_tff.datasets import synthetic


def test_shapes_split_and_owners():
  dataset = synthetic.load(num_clients=30, seed=0)
  assert len(dataset.train) == 30
  totals = dataset.num_examples + np.bincount(dataset.test_owner)
  assert totals.min() >= 50
  num_train = (0.9 * totals).astype(int)
  np.testing.assert_array_equal(dataset.num_examples, num_train)
  for examples in dataset.train:
    assert examples['x'].shape == (len(examples['y']), 60)
    assert examples['x'].dtype == np.float32
    assert set(examples['y']) <= set(range(10))
  assert dataset.p.sum() == pytest.approx(1)


def test_sizes_are_lognormal():
  totals = synthetic.load(num_clients=400, seed=1).num_examples / 0.9
  # The median of lognormal(4, 2) is e^4 = 55, so that of the sizes is 105.
  assert 85 < np.median(totals) < 130
  assert totals.max() > 1000


def test_covariance_falls_as_in_li_et_al():
  dataset = synthetic.load(num_clients=200, seed=3)
  largest = max(dataset.train, key=lambda examples: len(examples['y']))
  variance = largest['x'].var(axis=0)
  expected = np.arange(1, 61) ** -1.2
  error = np.sqrt(2 / len(largest['y']))
  assert (np.abs(variance / expected - 1) < 5 * error).all()


def test_alpha_changes_nothing():
  # A client's u_k is added to its logits of all classes alike, so that their
  # argmax stays. That is so in the generator of Li et al., too.
  one, other = (
    synthetic.load(alpha, 1.0, num_clients=20, seed=4) for alpha in (0.0, 1.0)
  )
  for a, b in zip(one.train, other.train):
    np.testing.assert_array_equal(a['x'], b['x'])
    np.testing.assert_array_equal(a['y'], b['y'])


def test_beta_spreads_inputs():
  def spread_of_means(beta):
    data = synthetic.load(0, beta, num_clients=100, seed=4)
    return np.std([examples['x'].mean() for examples in data.train])

  assert spread_of_means(3.0) > 2 * spread_of_means(0.0)


def test_seeded():
  a, b = synthetic.load(seed=1, num_clients=3), synthetic.load(
    seed=1, num_clients=3
  )
  np.testing.assert_array_equal(a.train[2]['x'], b.train[2]['x'])
  c = synthetic.load(seed=2, num_clients=3)
  assert a.train[0]['x'][0, 0] != c.train[0]['x'][0, 0]
  # A client is the same whatever the number of clients.
  d = synthetic.load(seed=1, num_clients=5)
  np.testing.assert_array_equal(a.train[2]['x'], d.train[2]['x'])


@pytest.mark.parametrize(
  'arguments', [{'num_clients': 0}, {'alpha': -1}, {'beta': float('nan')}]
)
def test_bad_parameters_are_named(arguments):
  with pytest.raises(ValueError, match=next(iter(arguments)).split('_')[-1]):
    synthetic.load(**arguments)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
