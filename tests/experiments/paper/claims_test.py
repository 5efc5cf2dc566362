"""Tests of `claims` against numbers computed by hand."""

import math
import sys

import pytest

from experiments.paper import claims
from experiments.paper import design
from experiments.paper import frames
from experiments.paper import paper_numbers
from tests import fake_results


def test_statistics_by_hand():
  found = claims.paired([1.0, 2.0, 3.0])
  assert (found.seeds, found.mean, found.wins) == (3, 2.0, 3)
  # t = 2 sqrt 3, and with 2 degrees of freedom p = 1 - t / sqrt(t^2 + 2).
  assert found.p == pytest.approx(1 - math.sqrt(12 / 14))
  assert found.sign_p == pytest.approx(2 / 8)
  # t = 2, and with 1 degree of freedom p = 1 - 2 / pi atan t.
  two = claims.paired([1.0, 3.0])
  assert two.p == pytest.approx(1 - 2 / math.pi * math.atan(2))


def test_sign_test_leaves_out_zeros():
  found = claims.paired([1.0, 1.0, 1.0, 1.0, -1.0, 0.0])
  assert found.wins == 4
  # Of 5 signs at least 4 alike: 2 (5 + 1) / 32.
  assert found.sign_p == pytest.approx(12 / 32)


@pytest.mark.parametrize(
  'differences, verdict',
  [
    ([], 'not run'),
    ([0.3], 'undecided (1 seed)'),
    ([1.0, 2.0, 3.0], 'undecided (3 seeds, p = 0.074)'),
    ([2.0, 2.1, 1.9], 'holds'),  # p = 1 - sqrt(1200 / 1202).
    ([-2.0, -2.1, -1.9], 'does not hold'),
    ([0.0, 0.0, 0.0], 'undecided (3 seeds, p = 1)'),
    ([0.5, 0.5], 'holds'),  # No spread at all.
    ([1.0, -1.0], 'undecided (2 seeds, p = 1)'),
    ([math.nan, 0.1, 0.2], 'undecided (a run diverged, 3 seeds)'),
  ],
)
def test_verdicts(differences, verdict):
  assert claims.paired(differences).verdict == verdict


def _claims(found):
  return claims.claims(frames.values(found), paper_numbers.load())


def _one(found, **fields):
  (claim,) = [
    claim
    for claim in found
    if all(getattr(claim, name) == value for name, value in fields.items())
  ]
  return claim


@pytest.fixture(name='nothing', scope='module')
def _nothing():
  return _claims([])


def test_nothing_run(nothing):
  assert {claim.found.verdict for claim in nothing} == {'not run'}


_ACCURACY = {'metric': 'accuracy', 'text': 'F3AST above FedAvg'}


def test_pairs_are_of_the_same_seed_and_preset():
  place = 'compact', 'shakespeare', 'home_devices'
  found = _claims([
    *fake_results.seeds(*place, 'fedavg', [0.3, 0.5, 0.7]),
    *fake_results.seeds(*place, 'f3ast', [0.5, 0.71, 0.89, 0.1]),
    # Neither has a pair.
    *fake_results.seeds('paper', *place[1:], 'f3ast', [0.9]),
    *fake_results.seeds(*place, 'fedadam', [0.9]),
  ])
  where = {'dataset': 'shakespeare', 'where': 'Home-devices'}
  claim = _one(found, preset='compact', **where, **_ACCURACY)
  assert list(claim.differences) == pytest.approx([0.2, 0.21, 0.19])
  assert claim.found.verdict == 'holds'
  assert claim.paper == pytest.approx(0.568 - 0.522)
  claim = _one(found, preset='paper', **where, **_ACCURACY)
  assert claim.found.verdict == 'not run'


def test_a_lower_loss_is_as_claimed():
  found = _claims([
    *fake_results.synthetic('fedavg', 'scarce', [0.5, 0.6, 0.7], loss=1.0),
    *fake_results.synthetic('f3ast', 'scarce', [0.5, 0.6, 0.7], loss=0.9),
  ])
  claim = _one(
    found,
    dataset='synthetic',
    metric='loss',
    where='Scarce',
    text='F3AST below FedAvg',
  )
  assert claim.found.mean == pytest.approx(0.1)
  assert claim.found.verdict == 'holds'


_USERS = {'metric': 'user_accuracy', 'text': 'F3AST above PoC'}
_ADAM = {'metric': 'accuracy', 'text': 'F3AST+Adam above FedAdam'}


@pytest.mark.parametrize(
  'dataset, where, of, source',
  [
    ('shakespeare', 'Always', _ACCURACY, claims.PAPER),
    ('shakespeare', 'Always', _USERS, claims.PAPER),
    # The tables have no column of Synthetic; the curves have Home-devices, of
    # three methods, and tab:heterogeneity has Smartphones.
    ('synthetic', 'Always', _ACCURACY, claims.CARRIED_OVER),
    ('synthetic', 'Always', _USERS, claims.CARRIED_OVER),
    ('synthetic', 'Home-devices', _ACCURACY, claims.PAPER),
    ('synthetic', 'Home-devices', _ADAM, claims.CARRIED_OVER),
    ('synthetic', 'Smartphones', _ACCURACY, claims.PAPER),
    # .557 and .557, .281 and .282, .542 and .543 are no such claims.
    ('shakespeare', 'Uneven', _ADAM, claims.CARRIED_OVER),
    ('cifar100', 'Uneven', _ADAM, claims.CARRIED_OVER),
    ('shakespeare', 'Scarce', _USERS, claims.CARRIED_OVER),
    ('shakespeare', claims.ALL_AVAILS, _USERS, claims.CARRIED_OVER),
  ],
)
def test_where_claims_are_from(nothing, dataset, where, of, source):
  place = {'topic': 'tables', 'preset': 'paper', 'dataset': dataset}
  assert _one(nothing, **place, where=where, **of).source == source


def test_the_mean_of_five_needs_all_five():
  def mean(accuracies, is_diverged=False):
    found = [
      result
      for avail, accuracy in zip(design.AVAILS, accuracies)
      for method, values in (
        ('fedavg', [0.4, 0.5]), ('f3ast', [accuracy, accuracy + 0.1])
      )
      for result in fake_results.synthetic(method, avail, values)
    ]
    if is_diverged:
      found[0]['metrics']['accuracy'][-1] = math.nan
    return _one(
      _claims(found),
      preset='paper',
      dataset='synthetic',
      where=claims.ALL_AVAILS,
      **_ACCURACY,
    ).found

  assert mean([0.4, 0.5, 0.5, 0.5, 0.6]).mean == pytest.approx(0.1)
  assert mean([0.4, 0.5, 0.5, 0.5]).seeds == 0
  # A run that diverged is not left out.
  diverged = mean([0.4, 0.5, 0.5, 0.5, 0.6], is_diverged=True)
  assert diverged.verdict == 'undecided (a run diverged, 2 seeds)'


def test_the_gap_widens():
  def of(method, k, accuracies):
    variant = '' if k == 10 else f'clients_per_round={k}'
    return fake_results.synthetic(method, 'home_devices', accuracies, variant)

  found = _claims([
    *of('fedavg', 1, [0.5, 0.6]),
    *of('f3ast', 1, [0.5, 0.6]),
    *of('fedavg', 30, [0.5, 0.6]),
    *of('f3ast', 30, [0.6, 0.71]),
    *of('f3ast', 10, [0.6, 0.71]),
  ])
  gap = _one(found, text='the gap between F3AST and FedAvg widens with K').found
  assert gap.mean == pytest.approx((0.1 + 0.11) / 2)
  assert (gap.wins, gap.seeds) == (2, 2)
  assert _one(found, where='Home-devices, K = 30', **_ACCURACY).found.seeds == 2


def test_our_own():
  def of(method, variant, accuracies):
    return fake_results.synthetic(method, 'uneven', accuracies, variant)

  found = [
    claim
    for claim in _claims([
      *of('f3ast', '', [0.7, 0.8]),
      *of('fedavg', 'matched', [0.6, 0.8]),
      *of('f3ast', 'rate_init=p', [0.7, 0.8]),
      *of('fedavg', 'matched_to_p', [0.3, 0.5]),
      *of('f3ast', '5000_rounds', [0.4, 0.4]),
      *of('fedavg', '5000_rounds', [0.5, 0.6]),
    ])
    if claim.source == claims.OURS and claim.found.seeds
  ]
  assert {claim.topic for claim in found} == {'controls (ours)'}
  # The last one is of users, whose accuracy is half as high.
  means = [claim.differences.mean() for claim in found]
  assert means == pytest.approx([0.05, 0.35, -0.15, -0.075])


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
