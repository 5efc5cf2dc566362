"""Tests of `claims` against numbers computed by hand."""

import math
import sys

import pytest

from experiments.paper import claims
from experiments.paper import design
from experiments.paper import frames
from experiments.paper import paper_numbers
from experiments.paper import verdicts
from tests import fake_results


def _claims(found):
  return claims.claims(
    frames.values(found), frames.curves(found), paper_numbers.load()
  )


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
  where = {
    'topic': 'tables', 'dataset': 'shakespeare', 'where': 'Home-devices'
  }
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
_OTHER_DRAW = {
  'metric': 'accuracy', 'text': 'F3AST above FedAvg, with replacement'
}
_ADAM = {'metric': 'accuracy', 'text': 'F3AST+Adam above FedAdam'}


@pytest.mark.parametrize(
  'dataset, where, of, source',
  [
    ('shakespeare', 'Always', _ACCURACY, verdicts.PAPER),
    ('shakespeare', 'Always', _USERS, verdicts.PAPER),
    # The tables have no column of Synthetic; the curves have Home-devices, of
    # three methods, and tab:heterogeneity has Smartphones.
    ('synthetic', 'Always', _ACCURACY, verdicts.CARRIED_OVER),
    ('synthetic', 'Always', _USERS, verdicts.CARRIED_OVER),
    ('synthetic', 'Home-devices', _ACCURACY, verdicts.PAPER),
    ('synthetic', 'Home-devices', _ADAM, verdicts.CARRIED_OVER),
    ('synthetic', 'Smartphones', _ACCURACY, verdicts.PAPER),
    # .557 and .557, .542 and .543 are no such claims.
    ('shakespeare', 'Uneven', _ADAM, verdicts.CARRIED_OVER),
    ('cifar100', 'Scarce', _ADAM, verdicts.PAPER),
    ('shakespeare', 'Scarce', _USERS, verdicts.CARRIED_OVER),
    ('shakespeare', claims.ALL_AVAILS, _USERS, verdicts.CARRIED_OVER),
    # Baselines that draw otherwise have verdicts of their own.
    ('shakespeare', 'Always', _OTHER_DRAW, verdicts.OTHER_DRAW),
    ('synthetic', claims.ALL_AVAILS, _OTHER_DRAW, verdicts.OTHER_DRAW),
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


def test_a_comparison_is_there_once(nothing):
  places = [
    (c.preset, c.dataset, c.metric, c.text, c.where, c.topic) for c in nothing
  ]
  assert len(set(places)) == len(places)
  wheres = {claim.where for claim in nothing}
  # In the main grid.
  assert 'Smartphones, alpha = 0.5' in wheres
  assert not wheres & {'Smartphones, alpha = 1', 'Home-devices, K = 10'}
  # On CIFAR-100 Uneven is Always.
  assert {c.dataset for c in nothing if c.where == 'Uneven'} == {
    'synthetic', 'shakespeare'
  }


def test_both_ways_to_draw_are_next_to_the_papers_difference(nothing):
  place = {'topic': 'tables', 'preset': 'paper', 'where': 'Home-devices'}
  for of in (_ACCURACY, _OTHER_DRAW):
    claim = _one(nothing, dataset='shakespeare', **place, **of)
    assert claim.paper == pytest.approx(0.568 - 0.522)
  # tab:heterogeneity, alpha = 1.
  place = {'topic': 'tables', 'dataset': 'synthetic', 'where': 'Smartphones'}
  claim = _one(nothing, **place, **_ACCURACY)
  assert claim.paper == pytest.approx(0.76 - 0.68)


def test_p_is_corrected_for_all_tests():
  # By .1, .11, .09: p = 1 - sqrt(300 / 302) = .0033.
  all_ = _claims([
    *fake_results.synthetic('fedavg', 'scarce', [0.5, 0.6, 0.7]),
    *fake_results.synthetic('f3ast', 'scarce', [0.6, 0.71, 0.79]),
  ])
  (found,) = [
    claim.found
    for claim in all_
    if claim.found.seeds and claim.metric == 'accuracy'
  ]
  tests = [claim for claim in all_ if not math.isnan(claim.found.p)]
  # Both accuracies, which scatter alike, and both losses, which are equal.
  assert len(tests) == 4
  assert found.p == pytest.approx(1 - math.sqrt(300 / 302))
  assert found.corrected == pytest.approx(4 / 2 * found.p)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
