"""Tests of `environment`: what the settings and the protocol mean."""

import sys

import numpy as np
import pytest

from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import environment
from f3ast_tff import rates

_STEP_SIZES = {
  name: config_lib.LearningRates(0.1, 1.0)
  for name in config_lib.SERVER_OPTIMIZERS
}
_SIZES = np.array([20, 21, 40, 100, 19])


def _config(**changes):
  return config_lib.Config(**changes).resolve(_STEP_SIZES)


def _build(sizes=_SIZES, **changes):
  config = _config(**changes)
  return config, environment.build(config, sizes, sizes)


@pytest.mark.parametrize(
  'avail, expected',
  [('smartphones', rates.POSITIVE), ('scarce', rates.UNCORRELATED)],
)
def test_auto_takes_the_form_of_h_that_fits_the_availability(avail, expected):
  assert _build(avail=avail)[1].correlation == expected
  forced = _build(avail=avail, correlation='positive')[1]
  assert forced.correlation == rates.POSITIVE


def test_settings_that_are_left_open_are_refused():
  with pytest.raises(ValueError, match='call resolve'):
    environment.build(config_lib.Config(), _SIZES, _SIZES)


def test_p_is_by_examples_or_by_batches():
  np.testing.assert_allclose(_build()[1].p, _SIZES / 200)
  # Of 20: 1, 2, 2, 5 and 1 batches, 11 in all.
  batches = np.array([1, 2, 2, 5, 1]) / 11
  np.testing.assert_allclose(_build(protocol='count_batches')[1].p, batches)
  np.testing.assert_allclose(_build(protocol='released')[1].p, batches)


def test_p_is_by_examples_also_where_an_example_has_many_predictions():
  # Sequences: the second client has few and long ones.
  examples, predictions = np.array([30, 10]), np.array([60, 300])
  config = _config(avail='always', clients_per_round='2', algorithm='fedavg')
  built = environment.build(config, examples, predictions)
  np.testing.assert_allclose(built.p, [0.75, 0.25])
  # The released code weighs by predictions those whom it drew by p.
  config = _config(
    avail='always',
    clients_per_round='6',
    algorithm='fedavg',
    protocol='draw_with_replacement',
  )
  built = environment.build(config, examples, predictions)
  _, cohort = environment.select(config, built, built.initial_rates, 1)
  assert cohort.clients.tolist() == [0, 1]
  # The weights are as 60 n : 300 (6 - n) if the first was drawn n times.
  ratio = cohort.weights[1] / cohort.weights[0]
  assert any(ratio == pytest.approx(5 * (6 - n) / n) for n in range(1, 6))


def test_the_rates_begin_at_k_p_or_at_p():
  p = _SIZES / 200
  k2 = {'clients_per_round': '2'}
  np.testing.assert_allclose(
    _build(**k2)[1].initial_rates, np.minimum(1, 2 * p)
  )
  other = _build(protocol='rates_start_at_p', **k2)[1]
  np.testing.assert_allclose(other.initial_rates, p)


def test_the_rates_begin_at_the_tie_point_of_the_h_in_use():
  tie = {'clients_per_round': '2', 'rate_init': 'tie'}
  p, root = _SIZES / 200, np.sqrt(_SIZES)
  of_common, of_single = 2 * root / root.sum(), np.minimum(1, 2 * p)
  for changes, expected in (
    ({'avail': 'smartphones'}, of_common),
    ({'avail': 'scarce'}, of_single),
    ({'avail': 'scarce', 'correlation': 'positive'}, of_common),
    ({'avail': 'smartphones', 'protocol': 'uncorrelated_h'}, of_single),
    ({'avail': 'smartphones', 'protocol': 'rates_start_at_p'}, p),
  ):
    built = _build(**tie, **changes)[1]
    np.testing.assert_allclose(built.initial_rates, expected)


def test_the_sine_has_24_points_or_23():
  def factors(protocol):
    model = _build(avail='smartphones', protocol=protocol)[1].availability
    return np.array([model.probabilities(t)[0] for t in range(1, 26)])

  ours, theirs = factors('paper'), factors('linspace_sine')
  # Ours: hour 24 is at 2 pi and hour 25 one step on; nowhere two in a row.
  assert (np.abs(np.diff(ours)) > 1e-4).all()
  assert ours[24] == pytest.approx(ours[0])
  # Theirs: hour 1 is at 0 and hour 24 at 2 pi, so they are the same.
  assert theirs[23] == pytest.approx(theirs[0])
  assert theirs[24] == theirs[0]


def test_h_of_the_released_code_ignores_correlation():
  built = _build(avail='smartphones', protocol='uncorrelated_h')[1]
  assert built.correlation == rates.UNCORRELATED


def test_availability_of_the_released_code_is_the_same_for_every_seed():
  def mask(seed, protocol):
    sizes = np.full(200, 30)
    built = _build(sizes, avail='scarce', seed=seed, protocol=protocol)[1]
    return built.availability(3)

  assert (mask(0, 'paper') != mask(5, 'paper')).any()
  np.testing.assert_array_equal(
    mask(0, 'one_availability'), mask(5, 'one_availability')
  )


@pytest.mark.parametrize('algorithm', config_lib.ALGORITHMS)
@pytest.mark.parametrize('protocol', ['paper', 'released'])
def test_a_round_is_a_pure_function_of_the_settings(algorithm, protocol):
  config, built = _build(
    algorithm=algorithm,
    protocol=protocol,
    clients_per_round='2',
    avail='always',
  )

  def play():
    return environment.select(
      config, built, built.initial_rates, 7, lambda clients: clients / 5
    )

  (available, cohort), (_, again) = play(), play()
  assert available.all()
  np.testing.assert_array_equal(cohort.clients, again.clients)
  np.testing.assert_array_equal(cohort.weights, again.weights)


@pytest.mark.parametrize('algorithm', ['f3ast', 'fedavg', 'power_of_choice'])
def test_the_factors_of_a_file_multiply_all_weights(algorithm, tmp_path):
  path = tmp_path / 'rates.csv'
  path.write_text('round,factor\n1,2\n2,0\n3,0.25\n')
  same = {'algorithm': algorithm, 'clients_per_round': '2', 'rounds': 3}
  config, plain = _build(**same)
  changed, built = _build(**same, server_rate_file=str(path))
  for t, factor in ((3, 0.25), (1, 2), (2, 0)):
    (mask, before), (same_mask, after) = (
      environment.select(c, e, e.initial_rates, t, lambda some: some / 5)
      for c, e in ((config, plain), (changed, built))
    )
    np.testing.assert_array_equal(mask, same_mask)
    np.testing.assert_array_equal(before.clients, after.clients)
    np.testing.assert_array_equal(after.weights, factor * before.weights)


def test_power_of_choice_asks_as_many_as_it_is_told():
  config, built = _build(
    np.full(20, 30),
    algorithm='power_of_choice',
    num_candidates=4,
    clients_per_round='2',
    avail='always',
  )
  asked = []

  def losses_of(clients):
    asked.extend(clients)
    return clients / 20

  _, cohort = environment.select(
    config, built, built.initial_rates, 1, losses_of
  )
  assert len(asked) == 4
  assert sorted(cohort.clients) == sorted(asked)[-2:]


def test_fixed_policy_fits_the_form_of_h_and_the_data():
  config, built = _build(
    selection='fixed_policy', clients_per_round='2', avail='smartphones'
  )
  _, other = _build(
    selection='fixed_policy',
    clients_per_round='2',
    avail='smartphones',
    correlation='uncorrelated',
  )
  assert np.abs(built.fixed.target - other.fixed.target).max() > 0.001
  # Of all rates that the two policies attain, each has the lower H of its own.
  for own, theirs in ((built, other), (other, built)):
    h = [
      rates.variance_bound(own.p, which.fixed.target, own.correlation)
      for which in (own, theirs)
    ]
    assert h[0] < h[1]
  _, cohort = environment.select(config, built, built.initial_rates, 9)
  assert cohort.clients.size
  np.testing.assert_allclose(
    cohort.weights, (built.p / built.fixed.target)[cohort.clients], rtol=1e-6
  )


def test_fixed_policy_weighs_by_the_best_rates():
  # All are always there and p is equal: the best rate is K / N = 2/4 for all.
  sizes = np.full(4, 30)
  config, built = _build(
    sizes, selection='fixed_policy', clients_per_round='2', avail='always'
  )
  _, cohort = environment.select(config, built, built.initial_rates, 1)
  np.testing.assert_allclose(cohort.weights, [0.5, 0.5], rtol=1e-6)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
