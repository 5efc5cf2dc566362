"""Tests of `verdicts` against numbers computed by hand."""

import math
import sys

import pandas as pd
import pytest

from experiments.paper import verdicts


def test_statistics_by_hand():
  found = verdicts.paired([1.0, 2.0, 3.0])
  assert (found.seeds, found.mean, found.wins) == (3, 2.0, 3)
  # t = 2 sqrt 3, and with 2 degrees of freedom p = 1 - t / sqrt(t^2 + 2).
  assert found.p == pytest.approx(1 - math.sqrt(12 / 14))
  assert found.sign_p == pytest.approx(2 / 8)
  # t = 2, and with 1 degree of freedom p = 1 - 2 / pi atan t.
  two = verdicts.paired([1.0, 3.0])
  assert two.p == pytest.approx(1 - 2 / math.pi * math.atan(2))


def test_sign_test_leaves_out_zeros():
  found = verdicts.paired([1.0, 1.0, 1.0, 1.0, -1.0, 0.0])
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
  assert verdicts.paired(differences).verdict == verdict


def _claim(*differences, says_above=True):
  return verdicts.Claim(
    'tables',
    'paper',
    'synthetic',
    'Always',
    'F3AST above FedAvg',
    'accuracy',
    pd.Series(differences, dtype=float),
    says_above,
  )


def test_the_correction_by_hand():
  # p is 1 - sqrt(12 / 14) = .0742 for the first, about 8e-4 for the second:
  # 1 - sqrt(1200 / 1202); the others have none.
  first, second, one_seed, absent = verdicts.corrected([
    _claim(1.0, 2.0, 3.0), _claim(2.0, 2.1, 1.9), _claim(0.3), _claim()
  ])
  p = 1 - math.sqrt(1200 / 1202)
  assert second.found.p == pytest.approx(p)
  assert second.found.corrected == pytest.approx(2 * p)
  assert first.found.corrected == first.found.p  # The largest of two.
  assert math.isnan(one_seed.found.corrected)
  decisions = [c.found.decision for c in (first, second, one_seed, absent)]
  assert decisions == ['undecided', 'holds', 'undecided', 'not run']


def test_a_verdict_is_by_the_corrected_p():
  # p = 1 - t / sqrt(t^2 + 2) with t = 10 is .0099, and six times that .059.
  close = _claim(*(1 + 0.1 * math.sqrt(3) * d for d in (-1, 0, 1)))
  assert close.found.p == pytest.approx(1 - math.sqrt(100 / 102))
  assert close.found.verdict == 'holds'
  nothing = [_claim(1.0, -1.0)] * 5  # p = 1.
  found = verdicts.corrected([close, *nothing])[0].found
  assert found.corrected == pytest.approx(6 * (1 - math.sqrt(100 / 102)))
  assert found.verdict == 'undecided (3 seeds, p = 0.059)'
  assert not found.is_decided


def test_below_is_as_claimed():
  found = _claim(-0.1, -0.1, says_above=False).found
  assert found.mean == pytest.approx(0.1)
  assert found.verdict == 'holds'


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
