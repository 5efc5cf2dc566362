"""Tests of `open_points`."""

import sys

import pytest

from experiments.paper import design
from experiments.paper import frames
from experiments.paper import open_points
from tests import fake_results


def _found(all_results):
  points = open_points.points(frames.values(all_results))
  return {point.title: point.found for point in points}


def test_nothing_run():
  found = _found([])
  assert len(found) == 11
  assert found['Uneven on CIFAR-100'] == 'Not run yet.'


def test_findings_by_hand():
  def seeds(dataset, avail, accuracies, variant='', **rest):
    return fake_results.seeds(
      'paper', dataset, avail, 'f3ast', accuracies, variant, **rest
    )

  short = fake_results.result(
    design.Key('paper', 'synthetic', 'scarce', 'f3ast')
  )
  short |= {'rounds_with_fewer_than_k': 20, 'empty_rounds': 2}
  found = _found([
    *seeds('cifar100', 'always', [0.1, 0.2]),
    *seeds('cifar100', 'uneven', [0.1, 0.203]),
    *seeds('synthetic', 'uneven', [0.7], weights=0.85),
    *seeds('synthetic', 'uneven', [0.6], 'rate_init=p', weights=2.5),
    *seeds('synthetic', 'smartphones', [0.5, 0.5]),
    *seeds('synthetic', 'smartphones', [0.4, 0.5], 'protocol=uncorrelated_h'),
    *seeds('shakespeare', 'home_devices', [0.5, 0.6], loss=1.42),
    *seeds('synthetic', 'smartphones', [0.3], 'rate_init=kp'),
    *seeds('synthetic', 'uneven', [0.75], 'local_steps=10'),
    *fake_results.synthetic('fedavg', 'uneven', [0.4]),
    *fake_results.synthetic('fedavg_with_replacement', 'uneven', [0.6]),
    short,
  ])
  assert 'by at most 0.0030' in found['Uneven on CIFAR-100']
  assert (
    'Uneven: 0.700 from Kp (mean sum of weights 0.85), 0.600 from p (mean sum '
    'of weights 2.50). Smartphones: 0.500 from the tie point, 0.300 from Kp, '
    'as at first.' in found['The first rates r(0)']
  )
  draws = found['How FedAvg and FedAdam draw clients']
  assert draws.endswith('Uneven: FedAvg with replacement +0.200.')
  assert found['What E is'].endswith('Uneven: F3AST +0.050.')
  correlated = found['H when availability is positively correlated']
  assert 'F3AST -0.050 (2 seeds)' in correlated
  few = found['Fewer than K clients available, or none']
  assert 'Scarce 10.0% of rounds (2 empty)' in few
  # 1.42 times 338,974 characters in 439,200 positions is 1.096.
  losses = found['Over what a loss on Shakespeare is a mean']
  assert losses.endswith('are: Home-devices: F3AST 1.10.')
  # The last test is .01 above the mean of the last 100 rounds.
  assert 'by 0.010 on average' in found['What a number in a table is']


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
