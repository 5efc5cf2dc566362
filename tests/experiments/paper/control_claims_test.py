"""Tests of `control_claims`: numbers by hand."""

import sys

import pytest

from experiments.paper import control_claims
from experiments.paper import frames
from experiments.paper import verdicts
from tests import fake_results


def _found(results):
  """Returns the means of what was run, by topic, text and condition."""
  claims = control_claims.claims(
    frames.values(results), frames.curves(results)
  )
  return {
    (claim.topic, claim.text, claim.where): claim
    for claim in claims
    if claim.found.seeds and claim.metric == 'accuracy'
  }


def _means(found):
  return {key: claim.differences.mean() for key, claim in found.items()}


def _of(method, variant, accuracies):
  return fake_results.synthetic(method, 'uneven', accuracies, variant)


def test_equal_steps():
  found = _found([
    *_of('f3ast', '', [0.7, 0.8]),
    *_of('fedavg', 'matched', [0.6, 0.8]),
    *_of('fedavg', 'following', [0.6, 0.7]),
    *_of('fedavg_with_replacement', 'following', [0.8, 0.9]),
    *_of('f3ast', 'rate_init=p', [0.7, 0.8]),
    *_of('fedavg', 'matched_to_p', [0.3, 0.5]),
  ])
  assert {claim.source for claim in found.values()} == {verdicts.OURS}
  text = 'F3AST above FedAvg'
  assert _means(found) == pytest.approx({
    ('controls (ours)', text + ending, 'Uneven'): mean
    for ending, mean in (
      (control_claims.MATCHED, 0.05),
      (control_claims.FOLLOWING, 0.1),
      (f', with replacement{control_claims.FOLLOWING}', -0.1),
      (f'{control_claims.MATCHED}, r(0) = p', 0.35),
    )
  })


def test_long_runs_and_safe():
  found = _found([
    *_of('f3ast', '5000_rounds', [0.4, 0.4]),
    *_of('fedavg', '5000_rounds', [0.5, 0.6]),
    *_of('fedavg_with_replacement', '5000_rounds', [0.3, 0.3]),
    *_of('f3ast_safe', '5000_rounds', [0.7, 0.8]),
    *_of('f3ast_safe', '', [0.6, 0.6]),
    *_of('f3ast', '', [0.4, 0.4]),
  ])
  long, safe = '5000 rounds (ours)', 'F3AST, safe (ours)'
  assert _means(found) == pytest.approx({
    (long, 'F3AST above FedAvg', 'Uneven'): -0.15,
    (long, 'F3AST above FedAvg, with replacement', 'Uneven'): 0.1,
    (safe, 'F3AST, safe above F3AST', 'Uneven, 500 rounds'): 0.2,
    (safe, 'F3AST, safe above F3AST', 'Uneven, 5000 rounds'): 0.35,
    (safe, 'F3AST, safe above FedAvg', 'Uneven, 5000 rounds'): 0.2,
    (
      safe,
      'F3AST, safe above FedAvg, with replacement',
      'Uneven, 5000 rounds',
    ): 0.45,
  })


def test_local_steps_and_the_released_code():
  found = _found([
    *_of('f3ast', 'local_steps=10', [0.6]),
    *_of('fedavg', 'local_steps=10', [0.5]),
    *_of('f3ast_adam', 'protocol=released', [0.3]),
    *_of('fedadam', 'protocol=released', [0.4]),
  ])
  assert _means(found) == pytest.approx({
    ('10 local steps (ours)', 'F3AST above FedAvg', 'Uneven'): 0.1,
    (
      'the released code (ours)', 'F3AST+Adam above FedAdam', 'Uneven'
    ): -0.1,
  })


def test_equal_work():
  place = 'compact', 'shakespeare', 'scarce'
  results = [
    *fake_results.trained(*place, 'f3ast', [0.5, 0.6], 100),
    *fake_results.trained(*place, 'fedavg', [0.6, 0.7], 200),
  ]
  # F3AST ends with 400 examples, which FedAvg had in round 100, with nothing.
  assert _means(_found(results)) == pytest.approx({
    ('equal local work (ours)', 'F3AST above FedAvg', 'Scarce'): 0.56
  })


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
