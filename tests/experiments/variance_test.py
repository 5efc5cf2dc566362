"""Tests of `experiments.variance`."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments import theory
from experiments import variance
from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import randomness
from f3ast_tff.datasets import synthetic
from f3ast_tff.theory import fixed_policy
from f3ast_tff.theory import optimal_rates
from f3ast_tff.theory import population as population_lib
from tests import programs


def test_counterexample_on_the_command_line(tmp_path):
  programs.succeed(
    tmp_path,
    'experiments.variance',
    '--output_dir=out',
    '--avail=two_groups',
    '--rounds=4000',
    '--fit_iterations=5',
  )
  row = pd.read_csv(tmp_path / 'out' / 'variance.csv').iloc[0]
  # By hand: H rare clients, 10 - H others, H = min(10, Binomial(60, .1)).
  x = np.arange(61)
  chance = stats.binom.pmf(x, 60, 0.1)
  mean = (chance * np.minimum(x, 10)).sum()
  second = (chance * np.minimum(x, 10) ** 2).sum()
  exact = 4 * (second - mean**2) / 100
  assert abs(row['variance'] - exact) < 5 * row['variance_se']
  assert abs(row['trace'] - exact) < 5 * row['trace_se']
  # p = r / 10 and updates of norm 1.
  r2 = 60 * (mean / 60) ** 2 + 60 * ((10 - mean) / 60) ** 2
  assert row['independent'] == pytest.approx((10 + r2) / 100, rel=1e-4)
  assert row['any'] == pytest.approx(120 / 10 - 1, rel=1e-4)
  assert exact > 1.7 * row['independent']
  assert row['independent_applies'] == 'yes'
  assert row['independent_holds'] == 'NO' and row['any_holds'] == 'yes'
  assert (tmp_path / 'out' / 'variance.png').exists()


def _case(updates):
  """Two clients that are always there, K = 1, p = r = (.4, .6)."""
  p = np.array([0.4, 0.6])
  setting = theory.Setting(
    'always',
    p,
    availability.always(2),
    communication.fixed(1),
    'uncorrelated',
  )
  return variance.Case(setting, p, np.asarray(updates, float))


def test_a_row_by_hand():
  # One of two is selected, with weight 1. In orthogonal directions of norm 2
  # and 1: sum p v = (.8, .6), and
  # variance = .4 |(2, 0) - (.8, .6)|^2 + .6 |(0, 1) - (.8, .6)|^2 = 1.2.
  case = _case([[2, 0], [0, 1]])
  first = np.tile([1] * 4 + [0] * 6, 1000).astype(bool)
  row = variance.measure(case, np.stack([first, ~first], axis=1), seed=0)
  assert row['bias'] == pytest.approx(0, abs=1e-12)
  assert row['variance'] == pytest.approx(0.4 * 1.8 + 0.6 * 0.8)
  assert row['trace'] == pytest.approx(1.2)
  assert row['any'] == pytest.approx(4 * (2 - 1))
  assert row['independent'] == pytest.approx(4 * (1 + 0.16 + 0.36))
  assert row['jensen'] == pytest.approx(0.4 * 4 * 1.5 + 0.6 * 1 * (2 / 3))
  # Opposite directions of norm 2: Delta = +-2 around -.4.
  assert row['worst_case'] == pytest.approx(4 * (0.4 * 1.44 + 0.6 * 0.64))
  assert row['positive_pairs'] == 0


def test_bias_is_seen():
  case = _case([[1, 0], [0, 1]])
  first = np.tile([1] * 5 + [0] * 5, 1000).astype(bool)
  row = variance.measure(case, np.stack([first, ~first], axis=1), seed=0)
  assert row['bias'] == pytest.approx(np.hypot(0.1, 0.1))
  # Around (.4, .6), and around the mean (.5, .5), which the trace is about.
  assert row['variance'] == pytest.approx(0.5 * 0.72 + 0.5 * 0.32)
  assert row['trace'] == pytest.approx(0.5)


def test_positive_pairs_are_seen():
  p = np.full(2, 0.5)
  setting = theory.Setting(
    'always', p, availability.always(2), communication.fixed(2), 'uncorrelated'
  )
  case = variance.Case(setting, p, np.ones((2, 1)))
  both = np.random.default_rng(0).random(5000) < 0.5
  row = variance.measure(case, np.stack([both, both], axis=1), seed=0)
  assert row['positive_pairs'] == 1


def test_the_policy_is_unbiased_and_the_trace_formula_true():
  p = np.random.default_rng(0).dirichlet(np.full(12, 2.0))
  setting = theory.settings(['home_devices'], p, '3', 0)[0]
  population = population_lib.population_of(
    setting.availability, setting.constraint
  )
  r = optimal_rates.solve(population, p).rates
  updates = np.random.default_rng(1).standard_normal((12, 4))
  case = variance.Case(setting, r, updates)
  policy = fixed_policy.fit(population, r, iterations=60, test_batches=2)
  selected = variance.simulate(case, policy, 20_000, seed=0)
  masks, _ = theory.record(setting, 20_000)
  assert not (selected & ~masks).any()
  row = variance.measure(case, selected, seed=0)
  assert row['bias'] < 3 * row['bias_se']
  error = np.hypot(row['variance_se'], row['trace_se'])
  assert abs(row['variance'] - row['trace']) < 5 * error
  assert row['variance'] <= row['jensen'] <= row['any']
  assert row['variance'] <= row['worst_case']


def _local_sgd(examples, seed, client, learning_rate):
  """Softmax regression by hand from zero, one epoch in the packer's order."""
  rng = randomness.generator(seed, 'shuffling in epoch 0', 1, client)
  order = rng.permutation(len(examples['y']))
  kernel, bias = np.zeros((60, 10)), np.zeros(10)
  for rows in np.split(order, range(20, len(order), 20)):
    x, y = examples['x'][rows].astype(float), examples['y'][rows]
    logits = x @ kernel + bias
    logits -= logits.max(axis=1, keepdims=True)
    error = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    error[np.arange(len(y)), y] -= 1
    kernel -= learning_rate * x.T @ error / len(y)
    bias -= learning_rate * error.mean(axis=0)
  return np.concatenate([kernel.ravel(), bias])


def test_updates_are_those_of_local_sgd():
  p, updates = variance.client_updates(3, 0, 0.05, seed=2)
  data = synthetic.load(num_clients=3, seed=2)
  np.testing.assert_allclose(p, data.p)
  for client, examples in enumerate(data.train):
    expected = _local_sgd(examples, 2, client, 0.05)
    np.testing.assert_allclose(updates[client], expected, atol=2e-5)


@pytest.mark.parametrize(
  'flag, message',
  [
    ('--avail=sometimes', "has 'sometimes'"),
    ('--avail=', "has ''"),
    ('--clients_per_round=ten', "is 'ten'"),
    ('--rounds=3', 'integer >= 200'),
    ('--client_learning_rate=nan', 'client_learning_rate must be above 0'),
    ('--output_dir=/proc/no', 'Cannot write'),
  ],
)
def test_bad_flags_are_one_sentence(tmp_path, flag, message):
  assert message in programs.one_error(tmp_path, 'experiments.variance', flag)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
