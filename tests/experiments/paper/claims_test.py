"""Tests of `report.claims` against numbers computed by hand."""

import math
import sys

import pandas as pd
import pytest

from experiments.paper import claims
from experiments.paper import frames
from experiments.paper import names
from experiments.paper import paper_numbers
from tests import fake_results


def test_three_seeds_by_hand():
  found = claims.paired([1.0, 2.0, 3.0])
  assert (found.seeds, found.mean, found.sd) == (3, 2.0, 1.0)
  # t = 2 sqrt 3, and with 2 degrees of freedom p = 1 - t / sqrt(t^2 + 2).
  assert found.p == pytest.approx(1 - math.sqrt(12 / 14))
  assert (found.wins, found.losses) == (3, 0)
  assert found.sign_p == pytest.approx(2 / 8)
  assert claims.verdict(found) == 'undecided (3 seeds, p = 0.074)'


def test_two_seeds_by_hand():
  found = claims.paired([1.0, 3.0])
  # t = 2, and with 1 degree of freedom p = 1 - 2 / pi atan t.
  assert found.p == pytest.approx(1 - 2 / math.pi * math.atan(2))


def test_sign_test_leaves_out_zeros():
  found = claims.paired([1.0, 1.0, 1.0, 1.0, -1.0, 0.0])
  assert (found.wins, found.losses) == (4, 1)
  # Of 5 signs at least 4 alike: 2 (5 + 1) / 32.
  assert found.sign_p == pytest.approx(12 / 32)


@pytest.mark.parametrize(
  'differences, verdict',
  [
    ([], 'not run'),
    ([0.3], 'undecided (1 seed)'),
    ([2.0, 2.1, 1.9], 'holds'),  # p = 1 - sqrt(1200 / 1202).
    ([-2.0, -2.1, -1.9], 'does not hold'),
    ([0.0, 0.0, 0.0], 'undecided (3 seeds, p = 1)'),
    ([0.5, 0.5], 'holds'),  # No spread at all.
    ([1.0, -1.0], 'undecided (2 seeds, p = 1)'),
  ],
)
def test_verdicts(differences, verdict):
  assert claims.verdict(claims.paired(differences)) == verdict


def _claims(all_results):
  values = frames.values(all_results)
  return claims.claims(values, paper_numbers.load())


def _one(found, **fields):
  fits = [
    claim
    for claim in found
    if all(getattr(claim, name) == value for name, value in fields.items())
  ]
  assert len(fits) == 1
  return fits[0]


def test_pairs_are_of_the_same_seed_and_preset():
  place = 'compact', 'shakespeare', 'home_devices'
  found = _claims([
    *fake_results.seeds(*place, 'fedavg', [0.3, 0.5, 0.7]),
    *fake_results.seeds(*place, 'f3ast', [0.5, 0.71, 0.89, 0.1]),
    # Neither has a pair.
    *fake_results.seeds('paper', *place[1:], 'f3ast', [0.9]),
    *fake_results.seeds(*place, 'fedadam', [0.9]),
  ])
  accuracy = {
    'dataset': 'shakespeare',
    'metric': 'accuracy',
    'where': 'Home-devices',
    'text': 'F3AST above FedAvg',
  }
  claim = _one(found, preset='compact', **accuracy)
  assert list(claim.ours - claim.other)[:3] == pytest.approx([0.2, 0.21, 0.19])
  assert claims.verdict(claim.found) == 'holds'
  assert claim.paper == pytest.approx(0.568 - 0.522)
  assert claims.verdict(_one(found, preset='paper', **accuracy).found) == (
    'not run'
  )


def test_a_lower_loss_is_as_claimed():
  place = 'paper', 'synthetic', 'scarce'
  values = [0.5, 0.6, 0.7]
  found = _claims([
    *fake_results.seeds(*place, 'fedavg', values, loss=1.0),
    *fake_results.seeds(*place, 'f3ast', values, loss=0.9),
  ])
  claim = _one(
    found,
    dataset='synthetic',
    metric='loss',
    where='Scarce',
    text='F3AST below FedAvg',
  )
  assert claim.found.mean == pytest.approx(0.1)
  assert claims.verdict(claim.found) == 'holds'


def test_where_claims_are_from():
  found = _claims([])

  def source(**fields):
    return _one(found, preset='paper', **fields).source

  accuracy = {'metric': 'accuracy', 'text': 'F3AST above FedAvg'}
  users = {'metric': 'user_accuracy', 'text': 'F3AST above PoC'}
  # The tables have no column of Synthetic; the curves have Home-devices.
  place = {'dataset': 'synthetic', 'topic': 'tables'}
  drawn = source(**place, where='Home-devices', **accuracy)
  assert drawn == claims.PAPER
  for of in (accuracy, users):
    printed = source(dataset='shakespeare', where='Always', **of)
    assert printed == claims.PAPER
    carried = source(**place, where='Always', **of)
    assert carried == claims.CARRIED_OVER
  # tab:heterogeneity has Smartphones, and the curves are of three methods.
  assert source(**place, where='Smartphones', **accuracy) == claims.PAPER
  with_adam = {'metric': 'accuracy', 'text': 'F3AST+Adam above FedAdam'}
  carried = source(**place, where='Home-devices', **with_adam)
  assert carried == claims.CARRIED_OVER
  # .557 and .557, .281 and .282, .542 and .543 are no such claims.
  for dataset, where, of in (
    ('shakespeare', 'Uneven', with_adam),
    ('cifar100', 'Uneven', with_adam),
    ('shakespeare', 'Scarce', users),
  ):
    carried = source(dataset=dataset, where=where, **of)
    assert carried == claims.CARRIED_OVER
  mean = source(dataset='shakespeare', where=claims.ALL_AVAILS, **users)
  assert mean == claims.CARRIED_OVER
  ours = {claim.topic for claim in found if claim.source == claims.OURS}
  assert ours == {'controls (ours)'}


def test_the_mean_of_five_needs_all_five():
  def of(method, accuracies):
    return [
      result
      for avail, accuracy in accuracies.items()
      for result in fake_results.seeds(
        'paper', 'synthetic', avail, method, [accuracy, accuracy + 0.1]
      )
    ]

  five = ('always', 'scarce', 'home_devices', 'uneven', 'smartphones')
  fields = {
    'preset': 'paper',
    'dataset': 'synthetic',
    'metric': 'accuracy',
    'where': claims.ALL_AVAILS,
    'text': 'F3AST above FedAvg',
  }
  baseline = of('fedavg', dict.fromkeys(five, 0.4))
  ours = dict(zip(five, (0.4, 0.5, 0.5, 0.5, 0.6)))
  claim = _one(_claims(baseline + of('f3ast', ours)), **fields)
  assert claim.found.mean == pytest.approx(0.1)
  del ours['uneven']
  claim = _one(_claims(baseline + of('f3ast', ours)), **fields)
  assert claim.found.seeds == 0


def test_the_gap_widens():
  def of(method, k, accuracies):
    variant = '' if k == 10 else f'clients_per_round={k}'
    return fake_results.seeds(
      'paper', 'synthetic', 'home_devices', method, accuracies, variant
    )

  found = _claims([
    *of('fedavg', 1, [0.5, 0.6]),
    *of('f3ast', 1, [0.5, 0.6]),
    *of('fedavg', 30, [0.5, 0.6]),
    *of('f3ast', 30, [0.6, 0.71]),
    *of('f3ast', 10, [0.6, 0.71]),
  ])
  claim = _one(
    found, text='the gap between F3AST and FedAvg widens with K'
  )
  assert claim.found.mean == pytest.approx((0.1 + 0.11) / 2)
  assert (claim.found.wins, claim.found.seeds) == (2, 2)
  at_30 = _one(
    found, where='Home-devices, K = 30', text='F3AST above FedAvg'
  )
  assert at_30.found.seeds == 2


def test_nothing_run():
  verdicts = {
    claims.verdict(claim.found)
    for claim in _claims([])
  }
  assert verdicts == {'not run'}
  assert isinstance(_claims([])[0].ours, pd.Series)


def test_a_run_that_diverged_decides_nothing():
  found = claims.paired([math.nan, 0.1, 0.2])
  assert math.isnan(found.p) and math.isnan(found.mean) and found.seeds == 3
  assert claims.verdict(found) == 'undecided (a run diverged, 3 seeds)'


def test_a_run_that_diverged_is_in_the_mean_of_the_five():
  every = [
    result
    for avail in names.AVAILS
    for method, accuracies in (('f3ast', [0.8, 0.7]), ('fedavg', [0.5, 0.5]))
    for result in fake_results.seeds(
      'paper', 'synthetic', avail, method, accuracies
    )
  ]

  def verdict():
    (claim,) = (
      claim
      for claim in claims.claims(frames.values(every), paper_numbers.load())
      if claim.where == claims.ALL_AVAILS
      and (claim.preset, claim.dataset) == ('paper', 'synthetic')
      and (claim.metric, claim.text) == ('accuracy', 'F3AST above FedAvg')
    )
    return claims.verdict(claim.found)

  assert verdict().startswith('undecided (2 seeds')
  every[0]['metrics']['accuracy'][-1] = math.nan
  assert verdict() == 'undecided (a run diverged, 2 seeds)'


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
