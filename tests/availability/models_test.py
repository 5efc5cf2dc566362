"""Tests of what all availability models have in common."""

import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff.theory import small_system

# Each with small numbers, so that what they do shows soon.
TEXTS = (
  *availability.PAPER,
  'markov:0.2,0.1',
  'persistent:0.3',
  'cyclic:12',
  'sine:0.3,6',
  'staircase:0.4,8',
  'interleaved:0.3,6,0.3',
  'time_zones:3,6',
  'clusters:3,0.3,0.2',
  'blocks:3,2',
  'arrivals:9,20,smartphones',
  'labels',
  'majority_label',
)


def _parse(text, num_clients=40, seed=5):
  p = np.arange(1, num_clients + 1) / np.arange(1, num_clients + 1).sum()
  rng = np.random.default_rng(seed)
  shares = rng.dirichlet(np.full(4, 0.3), num_clients)
  return availability.parse(text, p, seed, lambda: shares)


def test_every_model_is_tested():
  names = {text.partition(':')[0] for text in TEXTS}
  assert names == set(availability.MODELS) - {'trace'}  # See tests/traces.


@pytest.mark.parametrize('text', TEXTS)
def test_mask_is_a_pure_function_of_the_round(text):
  forward = [_parse(text)(t) for t in range(1, 40)]
  model = _parse(text)
  order = np.random.default_rng(0).permutation(np.arange(1, 40))
  for t in (*order, *order[:5]):
    np.testing.assert_array_equal(model(int(t)), forward[t - 1])


@hypothesis.given(
  text=st.sampled_from(TEXTS),
  num_clients=st.integers(1, 30),
  seed=st.integers(0, 2**32),
  t=st.integers(1, 10**4),
)
def test_masks_and_probabilities_fit(text, num_clients, seed, t):
  model = _parse(text, num_clients, seed)
  mask, q = model(t), model.probabilities(t)
  assert model.num_clients == num_clients
  assert isinstance(model.positively_correlated, bool)
  assert mask.dtype == bool and mask.shape == q.shape == (num_clients,)
  assert ((0 <= q) & (q <= 1)).all()
  assert not mask[q == 0].any() and mask[q == 1].all()


@pytest.mark.parametrize('text', TEXTS)
def test_a_round_counts_from_one(text):
  model = _parse(text)
  for call in (model, model.probabilities):
    with pytest.raises(ValueError, match='count from 1'):
      call(0)


@pytest.mark.parametrize('text', TEXTS)
def test_the_probability_is_how_often_a_client_is_available(text):
  # In a round of many seeds, which are independent of each other. What is drawn
  # once for all rounds, such as q, is different in each.
  t, seeds = 9, range(200)
  models = [_parse(text, 60, seed) for seed in seeds]
  total = sum(int(model(t).sum()) for model in models)
  q = np.array([model.probabilities(t) for model in models])
  variance = (q * (1 - q)).sum()
  if text.startswith('clusters'):
    # 20 clients in each cluster, covariance q_k q_l P (1 - P) / P^2.
    variance += sum(
      (1 - 0.4) / 0.4 * (chance[group].sum() ** 2 - (chance[group] ** 2).sum())
      for model, chance in zip(models, q)
      for group in (model.groups == g for g in range(3))
    )
  # Within four standard errors.
  assert abs(total - q.sum()) <= 4 * np.sqrt(variance) + 1e-9


def test_another_seed_gives_other_rounds():
  for text in TEXTS:
    if text == 'always':
      continue
    one, two = _parse(text, seed=1), _parse(text, seed=2)
    assert any((one(t) != two(t)).any() for t in range(1, 20)), text


_LONG_RUN = [text for text in TEXTS if not text.startswith('arrivals')]


@pytest.mark.parametrize('text', _LONG_RUN)
def test_the_long_run_is_what_rounds_come_to(text):
  model = _parse(text, num_clients=5, seed=3)
  found = model.long_run()
  assert found.shares.sum() == pytest.approx(1)
  num_rounds = 1200  # Whole periods of all models.
  masks = np.array([model(t) for t in range(1, num_rounds + 1)])
  # How often pairs are available together, and each client with itself.
  pairs = masks.T.astype(float) @ masks / num_rounds
  chances = found.chances
  expected = np.einsum('m,mk,ml->kl', found.shares, chances, chances)
  expected[np.diag_indices(5)] = found.shares @ chances
  # Chains remember: the variance of their mean is at most (2 - a - b) / (a + b)
  # times that of independent rounds, which is largest for `markov`, 5.7.
  error = np.sqrt(6 * np.maximum(expected * (1 - expected), 1e-4) / num_rounds)
  assert (np.abs(pairs - expected) <= 4 * error).all()
  mean = np.mean([model.probabilities(t) for t in range(1, 25)], axis=0)
  np.testing.assert_allclose(np.diag(expected), mean, atol=1e-12)


@pytest.mark.parametrize(
  'text',
  [
    *availability.PAPER,
    'markov:0.2,0.1',
    'sine:0.3,6',
    'staircase:0.4,8',
    'interleaved:0.3,6,0.3',
    'clusters:3,0.3,0.2',
    # With other probabilities, those decide as well as the groups.
    'time_zones:3,6,0.4,0.5,always',
    'blocks:3,2,always',
  ],
)
def test_positively_correlated_says_whether_pairs_are_on_average(text):
  for seed in range(5):
    model = _parse(text, num_clients=5, seed=seed)
    system = small_system.of_model(model, 1)
    both = np.einsum('c,ck,cl->kl', system.probabilities, *2 * [system.masks])
    single = system.probabilities @ system.masks
    excess = both - np.outer(single, single)
    np.fill_diagonal(excess, 0)
    assert model.positively_correlated == bool(excess.mean() > 1e-9), seed


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
