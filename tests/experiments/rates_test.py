"""Tests of `experiments.rates` and of what it shares with others."""

import sys

import numpy as np
import pandas as pd
import pytest

from experiments import rates as experiment
from experiments import theory
from f3ast_tff import availability
from tests import programs


def test_tables_and_picture(tmp_path):
  printed = programs.succeed(
    tmp_path,
    'experiments.rates',
    '--output_dir=out',
    '--avail=scarce,smartphones',
    '--betas=0.1,0.01',
    '--num_clients=12',
    '--clients_per_round=2',
  )
  out = tmp_path / 'out'
  for name in ('rates.png', 'rates.svg'):
    assert (out / name).exists()
  summary = pd.read_csv(out / 'rates-summary.csv')
  assert summary['rounds'].tolist() == [100, 1000] * 2
  forms = summary.set_index('avail')['form_of_h']
  assert set(forms['scarce']) == {'uncorrelated'}
  assert set(forms['smartphones']) == {'positive'}
  # A tenth of beta: far nearer.
  near = summary['distance'].to_numpy().reshape(2, 2)
  assert (near[:, 1] < 0.7 * near[:, 0]).all()
  assert 'scarce: the distance falls' in printed
  curves = pd.read_csv(out / 'rates.csv')
  assert curves.groupby(['avail', 'beta'])['round'].max().tolist() == [
    1000, 100
  ] * 2
  bounds = pd.read_csv(out / 'variance-bound.csv').set_index('policy')
  best = bounds.loc['best']
  assert (best['duality_gap'] <= 1e-10 * best['h']).all()
  assert (bounds.loc['uniform', 'percent_above_best'] > 5).all()


@pytest.mark.parametrize(
  'flag, message',
  [
    ('--avail=sometimes', "has 'sometimes'"),
    ('--avail=', 'must name some of'),
    ('--betas=0.1,x', 'numbers with commas'),
    ('--betas=2', 'beta must be in (0, 1]'),
    ('--clients_per_round=ten', "is 'ten'"),
    ('--clients_per_round=0', 'can never take part'),
    ('--horizon=nan', 'horizon must be above 0'),
  ],
)
def test_bad_flags_are_one_sentence(tmp_path, flag, message):
  assert message in programs.one_error(
    tmp_path, 'experiments.rates', flag, '--num_clients=5'
  )
  assert not list(tmp_path.iterdir())


def test_chains_in_one_pass_are_those_of_the_model():
  for model in (
    theory.markov(9, seed=3),
    availability.Markov(np.array([0.9, 0.1]), np.array([0.8, 1.0]), seed=1),
  ):
    p = np.full(model.num_clients, 1 / model.num_clients)
    setting = theory.settings(['scarce'], p, '2', 0)[0]
    masks, ks = theory.record(setting._replace(availability=model), 60)
    expected = np.array([model(t) for t in range(1, 61)])
    np.testing.assert_array_equal(masks, expected)
    assert (ks == 2).all()


def test_long_term_rates_by_hand():
  setting = theory.settings(['scarce'], np.full(2, 0.5), '1', 0)[0]
  course = experiment.Course(
    np.zeros(4), np.array([3.0, 0.0]), np.array([4, 0])
  )
  # q = .2; three of four available rounds, and never available.
  np.testing.assert_allclose(
    experiment.long_term_rates(setting, course), [0.15, 0.0]
  )


def test_thinning_keeps_every_round_once():
  for length in (1, 2, 10, 1000):
    values = np.arange(length, dtype=float)
    rows = experiment.thin(values)
    ends = [0] + [last for last, _ in rows]
    assert ends[-1] == length
    total = sum(
      mean * (b - a) for a, b, (_, mean) in zip(ends, ends[1:], rows)
    )
    assert total == pytest.approx(values.sum())


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
