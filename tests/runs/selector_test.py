"""Tests of `selector`: what the settings and the protocol mean."""

import sys

import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff import methods
from f3ast_tff import rates
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import selector as selector_lib

_SIZES = np.array([20, 21, 40, 100, 19])


@pytest.fixture(name='build')
def _build(make_config):
  """Builds the selector of settings; changes are keyword arguments."""

  def build(sizes=_SIZES, label_shares=None, **changes):
    settings = {'clients_per_round': '2', **changes}
    return selector_lib.build(
      make_config(**settings), sizes, sizes, label_shares
    )

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


def test_a_run_in_which_nobody_is_available_is_refused(build, monkeypatch):
  class Late:  # All of the clients, from round 3 on.
    num_clients, positively_correlated = _SIZES.size, False

    def probabilities(self, round_num):
      return self(round_num).astype(float)

    def __call__(self, round_num):
      return np.full(_SIZES.size, round_num >= 3)

  def check(rounds, **changes):
    selector = build(avail='late', rounds=rounds, **changes)
    selector_lib.check_anybody(selector, rounds)

  monkeypatch.setitem(availability.MODELS, 'late', lambda p, seed: Late())
  with pytest.raises(ValueError, match='No client is available up to round 2'):
    check(2)
  check(3)
  # And when they are, none may take part.
  with pytest.raises(ValueError, match='No client is available up to round 4'):
    check(4, clients_per_round='schedule:2,2,0,0')


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
    selector = build(**changes)
    np.testing.assert_allclose(selector.initial_rates, expected)


def test_a_sine_of_other_numbers_departs_likewise(build):
  model = build(
    avail='smartphones:0,.25,.5,4', protocol='linspace_sine'
  ).availability
  # Four points from 0 to 2 pi: 0, 120, 240 and 360 degrees.
  root = np.sqrt(3) / 2
  for t, sine in enumerate((0, root, -root, 0), 1):
    np.testing.assert_allclose(model.probabilities(t), 0.5 + 0.25 * sine)


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


# The shares of the data are .1, .105, .2, .5 and .095.
_SHARES = _SIZES / 200


@pytest.mark.parametrize(
  'changes, expected',
  [
    ({}, _SHARES),
    ({'target': 'uniform'}, np.full(5, 0.2)),
    ({'target': 'power:0.5'}, np.sqrt(_SIZES) / np.sqrt(_SIZES).sum()),
    # The groups are 0, 0, 0, 1, 1 with .405 and .595 of the data.
    (
      {'target': 'groups', 'groups': 'blocks:2'},
      [0.05 / 0.405, 0.0525 / 0.405, 0.1 / 0.405, 0.25 / 0.595, 0.0475 / 0.595],
    ),
    # Of batches: 1, 2, 2, 5 and 1.
    (
      {'target': 'power:2', 'protocol': 'count_batches'},
      np.array([1, 4, 4, 25, 1]) / 35,
    ),
  ],
)
def test_the_target_takes_the_place_of_p(changes, expected, build):
  selector = build(avail='uneven', **changes)
  np.testing.assert_allclose(selector.p, expected, rtol=1e-12)
  np.testing.assert_allclose(
    selector.initial_rates, np.minimum(1, 2 * np.asarray(expected))
  )
  # Who is available is the world's business: it stays with the data.
  data = build(
    avail='uneven', protocol=changes.get('protocol', 'paper')
  ).availability
  np.testing.assert_array_equal(
    selector.availability.probabilities(1), data.probabilities(1)
  )


def test_what_methods_do_with_a_target(build):
  # FedAvg draws by it, and Power-of-Choice whom it queries: the client with
  # almost all of the target is always among two, and the one without any never
  # is, though it has half of the data.
  shares = [1, 1e-9, 1e-9, 0, 1e9]
  with_target = {'avail': 'always', 'target': 'file:shares.csv'}
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(
      selector_lib.client_files, 'numbers', lambda *_: np.array(shares)
    )
    for algorithm in ('fedavg', 'power_of_choice', 'f3ast'):
      selector = build(algorithm=algorithm, num_candidates=2, **with_target)
      for t in range(1, 30):
        cohort = selector.select(
          t, selector.initial_rates, lambda some: some / 5
        ).cohort
        assert 3 not in cohort.clients
        assert 4 in cohort.clients or algorithm == 'f3ast'


def test_groups_and_quotas_of_the_settings(build, tmp_path):
  path = tmp_path / 'groups.csv'
  path.write_text('client,group\n4,x\n0,x\n3,y\n2,y\n1,y\n')
  shares = np.array([[1, 0], [0, 1], [0, 1], [1, 0], [1, 0]])
  for text, expected in (
    ('blocks:2', '00011'), (f'file:{path}', 'xyyyx'), ('labels', '01100')
  ):
    config = {'groups': text, 'group_quota': '..2/1..1', 'avail': 'always'}
    selector = build(label_shares=lambda: shares, **config)
    quotas = selector.quotas
    assert ''.join(quotas.names[g] for g in quotas.group_of) == expected
    assert quotas.most.tolist() == [[2, 2], [1, 1]]
    for t in range(1, 20):
      clients = selector.select(t, selector.initial_rates).cohort.clients
      assert clients.size == 2
      if t % 2 == 0:
        assert sorted(quotas.group_of[clients]) == [0, 1]
  with pytest.raises(ValueError, match='needs the labels'):
    build(groups='labels', group_quota='..2')
  assert build().quotas is None


def test_quotas_that_do_not_fit_the_clients_are_refused(build):
  for changes, message in (
    ({'groups': 'blocks:3', 'group_quota': '1..'}, 'requires 3 clients'),
    ({'groups': 'blocks:2', 'group_quota': '1:3..'}, "'1' .* but it has 2"),
    ({'groups': 'blocks:2', 'group_quota': 'a:..2'}, "the group 'a', but"),
    ({'groups': 'blocks:9', 'group_quota': '..2'}, 'needs as many clients'),
  ):
    with pytest.raises(ValueError, match=message):
      build(**changes)


@pytest.mark.parametrize('algorithm', methods.ALGORITHMS)
@pytest.mark.parametrize('protocol', ['paper', 'released'])
def test_a_round_is_a_pure_function_of_the_settings(algorithm, protocol, build):
  settings = {'algorithm': algorithm, 'protocol': protocol, 'avail': 'always'}
  selectors = build(**settings), build(**settings)
  (available, cohort, *_), (_, again, *_) = (
    s.select(7, s.initial_rates, lambda clients: clients / 5, s.initial_kept)
    for s in selectors
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
    (mask, before, *_), (same_mask, after, *_) = (
      s.select(t, s.initial_rates, lambda some: some / 5) for s in selectors
    )
    np.testing.assert_array_equal(mask, same_mask)
    np.testing.assert_array_equal(before.clients, after.clients)
    np.testing.assert_array_equal(after.weights, factor * before.weights)


def test_deliveries_of_the_settings(build, tmp_path):
  path = tmp_path / 'delivery.csv'
  path.write_text('client,probability\n0,1\n1,.5\n2,.25\n3,1\n4,1\n')
  assert build().delivery is None
  for text, expected in (
    ('0.9', np.full(5, 0.9)), (f'file:{path}', [1, 0.5, 0.25, 1, 1])
  ):
    delivery = build(
      delivery=text,
      over_selection=1.5,
      rates_count='selected',
      delivery_in_score=True,
      seed=3,
    ).delivery
    np.testing.assert_array_equal(delivery.probabilities, expected)
    assert delivery.over_selection == 1.5 and delivery.in_score
    assert delivery.rates_count == 'selected' and delivery.seed == 3


@pytest.mark.parametrize(
  'changes, words',
  [
    ({'delivery': '1.5'}, 'must be a probability'),
    ({'delivery': '0'}, 'must be a probability'),
    ({'delivery': 'often'}, 'must be a probability'),
    ({'delivery': 'trace'}, 'needs avail=trace:FILE'),
    ({'over_selection': 1.3}, 'give delivery as well'),
    ({'over_selection': 0.5, 'delivery': '0.9'}, 'at least 1'),
    ({'rates_count': 'selected'}, 'give delivery as well'),
    (
      {'delivery_in_score': True, 'delivery': '0.9', 'algorithm': 'fedavg'},
      'scores of f3ast',
    ),
    ({'delivery': '0.9', 'selection': 'fixed_policy'}, 'fixed weights'),
  ],
)
def test_deliveries_that_do_not_fit_are_refused(changes, words, build):
  with pytest.raises(ValueError, match=words):
    build(avail='always', **changes)


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
