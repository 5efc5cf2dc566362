"""Tests of the paper's models against its definitions."""

import sys

import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff import randomness

_P = np.array([0.5, 0.3, 0.15, 0.05])


def _papers_models(num_clients=40, seed=5):
  p = np.arange(1, num_clients + 1) / np.arange(1, num_clients + 1).sum()
  yield from (availability.parse(name, p, seed) for name in availability.PAPER)


@pytest.mark.parametrize('model', list(_papers_models()))
def test_share_of_rounds_available_equals_the_probability(model):
  rounds = 1440  # Whole days of 24.
  mask = np.array([model(t) for t in range(1, rounds + 1)])
  q = np.mean([model.probabilities(t) for t in range(1, 25)], axis=0)
  error = np.sqrt(np.maximum(q * (1 - q), 1e-4) / rounds)
  assert (np.abs(mask.mean(axis=0) - q) < 5 * error).all()


@pytest.mark.parametrize('n', [1, 2**14 - 1, 2**14, 2**14 + 1, 50000])
def test_blocks_do_not_change_the_draws(n):
  model = availability.smartphones(n, seed=4)
  rng = randomness.generator(4, 'availability', 9)
  np.testing.assert_array_equal(
    model(9), rng.random(n) < model.probabilities(9)
  )


@pytest.mark.parametrize(
  'model, q',
  [
    (availability.always(7), 1.0),
    (availability.scarce(3), 0.2),
    (availability.scarce(2, q=0.7), 0.7),
  ],
)
def test_all_clients_alike(model, q):
  np.testing.assert_array_equal(
    model.probabilities(9), np.full(model.num_clients, q)
  )


def test_home_devices_is_lognormal_over_its_maximum():
  q = availability.home_devices(20000, seed=3).probabilities(1)
  assert q.max() == 1.0
  logs = np.log(q)  # log T_k - log max T: normal with sd 0.5.
  assert abs(logs.std() - 0.5) < 0.01
  centred = (logs - logs.mean()) / logs.std()
  assert abs(np.mean(centred**3)) < 0.1  # Symmetric, as a normal is.


def test_smartphones_follows_the_sine_of_the_paper():
  model = availability.smartphones(50, seed=1)
  q = model.probabilities(24) / 0.5  # sin(2 pi) = 0, so f_24 = 0.5.
  by_hand = {1: 0.4 * np.sin(np.pi / 12) + 0.5, 6: 0.9, 12: 0.5, 18: 0.1}
  for t, factor in by_hand.items():
    np.testing.assert_allclose(model.probabilities(t), factor * q, rtol=1e-12)
    np.testing.assert_array_equal(
      model.probabilities(t), model.probabilities(t + 48)
    )
  spread = np.log(availability.smartphones(20000).probabilities(24)).std()
  assert abs(spread - 0.25) < 0.005


def test_uneven_is_inverse_to_the_data_share():
  np.testing.assert_allclose(
    availability.uneven(_P).probabilities(1), [0.1, 1 / 6, 1 / 3, 1.0]
  )


def test_only_a_common_factor_is_a_positive_correlation():
  positive = {
    name: availability.parse(name, _P).positively_correlated
    for name in availability.PAPER
  }
  assert positive == {
    'always': False,
    'scarce': False,
    'home_devices': False,
    'smartphones': True,
    'uneven': False,
  }


@pytest.mark.parametrize(
  'make, message',
  [
    (lambda: availability.always(0), 'N >= 1 clients'),
    (lambda: availability.scarce(3, q=1.5), 'probabilities in'),
    (lambda: availability.scarce(3, q=float('nan')), 'probabilities in'),
    (lambda: availability.home_devices(3, sigma=-1), 'sigma'),
    (lambda: availability.smartphones(3, period=0), 'period'),
    (lambda: availability.smartphones(3, amplitude=0.6), 'probabilities in'),
    (lambda: availability.uneven(np.array([1.0, 0.0])), 'client 1 has none'),
    (lambda: availability.uneven(np.array([])), 'there is none'),
    (lambda: availability.always(3)(0), 'count from 1'),
  ],
)
def test_bad_parameters_are_named(make, message):
  with pytest.raises(ValueError, match=message):
    make()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
