"""Tests of `availability` against the paper's definitions."""

import sys

import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff import randomness

_P = np.array([0.5, 0.3, 0.15, 0.05])


def _all_models(num_clients=40, seed=5):
  p = np.arange(1, num_clients + 1) / np.arange(1, num_clients + 1).sum()
  yield from (make(p, seed) for make in availability.MODELS.values())
  yield availability.Markov(
    np.full(num_clients, 0.2), np.full(num_clients, 0.1), seed
  )


@pytest.mark.parametrize('model', list(_all_models()))
def test_mask_is_a_pure_function_of_the_round(model):
  forward = [model(t) for t in range(1, 30)]
  backward = [model(t) for t in range(29, 0, -1)][::-1]
  np.testing.assert_array_equal(forward, backward)
  assert forward[0].dtype == bool
  assert forward[0].shape == (model.num_clients,)


@pytest.mark.parametrize('model', list(_all_models()))
def test_share_of_rounds_available_equals_the_probability(model):
  rounds = 1440  # Whole days of 24.
  mask = np.array([model(t) for t in range(1, rounds + 1)])
  q = np.mean([model.probabilities(t) for t in range(1, 25)], axis=0)
  # Markov rounds are correlated: the variance is (2 - a - b) / (a + b) = 5.7
  # times that of independent ones.
  variance_factor = 6 if isinstance(model, availability.Markov) else 1
  error = np.sqrt(variance_factor * np.maximum(q * (1 - q), 1e-4) / rounds)
  assert (np.abs(mask.mean(axis=0) - q) < 5 * error).all()


@pytest.mark.parametrize('n', [1, 2**14 - 1, 2**14, 2**14 + 1, 50000])
def test_blocks_do_not_change_the_draws(n):
  model = availability.smartphones(n, seed=4)
  rng = randomness.generator(4, 'availability', 9)
  np.testing.assert_array_equal(
    model(9), rng.random(n) < model.probabilities(9)
  )


def test_another_seed_gives_other_draws():
  a, b = availability.scarce(200, seed=1), availability.scarce(200, seed=2)
  assert (a(1) != b(1)).any()


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
    name: make(_P, 0).positively_correlated
    for name, make in availability.MODELS.items()
  }
  assert positive == {
    'always': False,
    'scarce': False,
    'home_devices': False,
    'smartphones': True,
    'uneven': False,
  }


@pytest.mark.parametrize('model', list(_all_models()))
def test_what_is_recorded_is_what_the_model_says(model):
  masks = np.array([model(t) for t in (1, 2, 3)])
  recorded = availability.Recorded(masks, model)
  for t in (3, 1, 2):
    np.testing.assert_array_equal(recorded(t), model(t))
    np.testing.assert_array_equal(
      recorded.probabilities(t), model.probabilities(t)
    )
  assert recorded.num_clients == model.num_clients
  assert recorded.positively_correlated == model.positively_correlated
  with pytest.raises(ValueError, match='3 rounds are recorded, but round 4'):
    recorded(4)
  with pytest.raises(ValueError, match='count from 1'):
    recorded(0)  # Not the last one.


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
    (
      lambda: availability.Markov(np.zeros(2), np.zeros(2)), 'not both be 0'
    ),
  ],
)
def test_bad_parameters_are_named(make, message):
  with pytest.raises(ValueError, match=message):
    make()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
