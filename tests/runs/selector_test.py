"""Tests of `selector`: what the settings and the protocol mean."""

import sys

import numpy as np
import pytest

from f3ast_tff import methods
from f3ast_tff import rates
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import selector as selector_lib

_SIZES = np.array([20, 21, 40, 100, 19])


@pytest.fixture(name='build')
def _build(make_config):
  """Builds the selector of settings; changes are keyword arguments."""

  def build(sizes=_SIZES, **changes):
    settings = {'clients_per_round': '2', **changes}
    return selector_lib.build(make_config(**settings), sizes, sizes)

  return build


@pytest.mark.parametrize(
  'avail, expected',
  [('smartphones', rates.POSITIVE), ('scarce', rates.UNCORRELATED)],
)
def test_auto_takes_the_form_of_h_that_fits_the_availability(
  avail, expected, build
):
  assert build(avail=avail).correlation == expected
  forced = build(avail=avail, correlation='positive')
  assert forced.correlation == rates.POSITIVE


def test_settings_that_are_left_open_are_refused():
  with pytest.raises(ValueError, match='call resolve'):
    selector_lib.build(config_lib.Config(), _SIZES, _SIZES)


def test_p_is_by_examples_or_by_batches(build):
  np.testing.assert_allclose(build().p, _SIZES / 200)
  # Of 20: 1, 2, 2, 5 and 1 batches, 11 in all.
  batches = np.array([1, 2, 2, 5, 1]) / 11
  np.testing.assert_allclose(build(protocol='count_batches').p, batches)
  np.testing.assert_allclose(build(protocol='released').p, batches)


def test_p_is_by_examples_also_where_an_example_has_many_predictions(
  make_config,
):
  # Sequences: the second client has few and long ones.
  examples, predictions = np.array([30, 10]), np.array([60, 300])
  same = {'avail': 'always', 'algorithm': 'fedavg'}
  selector = selector_lib.build(make_config(**same), examples, predictions)
  np.testing.assert_allclose(selector.p, [0.75, 0.25])
  # The released code weighs by predictions those whom it drew by p.
  config = make_config(
    clients_per_round='6', protocol='draw_with_replacement', **same
  )
  selector = selector_lib.build(config, examples, predictions)
  cohort = selector.select(1, selector.initial_rates).cohort
  assert cohort.clients.tolist() == [0, 1]
  # The weights are as 60 n : 300 (6 - n) if the first was drawn n times.
  ratio = cohort.weights[1] / cohort.weights[0]
  assert any(ratio == pytest.approx(5 * (6 - n) / n) for n in range(1, 6))


def test_the_rates_begin_at_k_p_or_at_p(build):
  p = _SIZES / 200
  np.testing.assert_allclose(build().initial_rates, np.minimum(1, 2 * p))
  other = build(protocol='rates_start_at_p')
  np.testing.assert_allclose(other.initial_rates, p)


def test_the_rates_begin_at_the_tie_point_of_the_h_in_use(build):
  p, root = _SIZES / 200, np.sqrt(_SIZES)
  of_common, of_single = 2 * root / root.sum(), np.minimum(1, 2 * p)
  for changes, expected in (
    ({'avail': 'smartphones'}, of_common),
    ({'avail': 'scarce'}, of_single),
    ({'avail': 'scarce', 'correlation': 'positive'}, of_common),
    ({'avail': 'smartphones', 'protocol': 'uncorrelated_h'}, of_single),
    ({'avail': 'smartphones', 'protocol': 'rates_start_at_p'}, p),
  ):
    selector = build(rate_init='tie', **changes)
    np.testing.assert_allclose(selector.initial_rates, expected)


def test_the_sine_has_24_points_or_23(build):
  def factors(protocol):
    model = build(avail='smartphones', protocol=protocol).availability
    return np.array([model.probabilities(t)[0] for t in range(1, 26)])

  ours, theirs = factors('paper'), factors('linspace_sine')
  # Ours: hour 24 is at 2 pi and hour 25 one step on; nowhere two in a row.
  assert (np.abs(np.diff(ours)) > 1e-4).all()
  assert ours[24] == pytest.approx(ours[0])
  # Theirs: hour 1 is at 0 and hour 24 at 2 pi, so they are the same.
  assert theirs[23] == pytest.approx(theirs[0])
  assert theirs[24] == theirs[0]


def test_h_of_the_released_code_ignores_correlation(build):
  built = build(avail='smartphones', protocol='uncorrelated_h')
  assert built.correlation == rates.UNCORRELATED


def test_availability_of_the_released_code_is_the_same_for_every_seed(build):
  def mask(seed, protocol):
    sizes = np.full(200, 30)
    built = build(sizes, avail='scarce', seed=seed, protocol=protocol)
    return built.availability(3)

  assert (mask(0, 'paper') != mask(5, 'paper')).any()
  np.testing.assert_array_equal(
    mask(0, 'one_availability'), mask(5, 'one_availability')
  )


@pytest.mark.parametrize('algorithm', methods.ALGORITHMS)
@pytest.mark.parametrize('protocol', ['paper', 'released'])
def test_a_round_is_a_pure_function_of_the_settings(algorithm, protocol, build):
  settings = {'algorithm': algorithm, 'protocol': protocol, 'avail': 'always'}
  selectors = build(**settings), build(**settings)
  (available, cohort), (_, again) = (
    s.select(7, s.initial_rates, lambda clients: clients / 5) for s in selectors
  )
  assert available.all()
  np.testing.assert_array_equal(cohort.clients, again.clients)
  np.testing.assert_array_equal(cohort.weights, again.weights)


@pytest.mark.parametrize('algorithm', ['f3ast', 'fedavg', 'power_of_choice'])
def test_the_factors_of_a_file_multiply_all_weights(algorithm, tmp_path, build):
  path = tmp_path / 'rates.csv'
  path.write_text('round,factor\n1,2\n2,0\n3,0.25\n')
  same = {'algorithm': algorithm, 'rounds': 3}
  selectors = build(**same), build(**same, server_rate_file=str(path))
  for t, factor in ((3, 0.25), (1, 2), (2, 0)):
    (mask, before), (same_mask, after) = (
      s.select(t, s.initial_rates, lambda some: some / 5) for s in selectors
    )
    np.testing.assert_array_equal(mask, same_mask)
    np.testing.assert_array_equal(before.clients, after.clients)
    np.testing.assert_array_equal(after.weights, factor * before.weights)


def test_power_of_choice_queries_as_many_as_it_is_told(build):
  selector = build(
    np.full(20, 30),
    algorithm='power_of_choice',
    num_candidates=4,
    avail='always',
  )
  queried = []

  def losses_of(clients):
    queried.extend(clients)
    return clients / 20

  cohort = selector.select(1, selector.initial_rates, losses_of).cohort
  assert len(queried) == 4
  assert sorted(cohort.clients) == sorted(queried)[-2:]


def test_fixed_policy_fits_the_form_of_h_and_the_data(build):
  same = {'selection': 'fixed_policy', 'avail': 'smartphones'}
  pair = build(**same), build(correlation='uncorrelated', **same)
  targets = [selector.policy.fitted.target for selector in pair]
  assert np.abs(targets[0] - targets[1]).max() > 0.001
  # Of all rates that the two policies attain, each has the lower H of its own.
  for own, its, theirs in zip(pair, targets, reversed(targets)):
    h = [
      rates.variance_bound(own.p, target, own.correlation)
      for target in (its, theirs)
    ]
    assert h[0] < h[1]
  cohort = pair[0].select(9, pair[0].initial_rates).cohort
  assert cohort.clients.size
  np.testing.assert_allclose(
    cohort.weights, (pair[0].p / targets[0])[cohort.clients], rtol=1e-6
  )


def test_fixed_policy_weighs_by_the_best_rates(build):
  # All are always there and p is equal: the best rate is K / N = 2/4 for all.
  selector = build(np.full(4, 30), selection='fixed_policy', avail='always')
  cohort = selector.select(1, selector.initial_rates).cohort
  np.testing.assert_allclose(cohort.weights, [0.5, 0.5], rtol=1e-6)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
