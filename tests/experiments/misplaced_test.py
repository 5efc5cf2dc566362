"""Tests of `experiments.misplaced`."""

import sys

import numpy as np
import pandas as pd
import pytest

from experiments import misplaced
from f3ast_tff import methods
from tests import programs


def test_shares_by_hand():
  # Both are always there and one takes part. With r(0) = p = (3/4, 1/4) and
  # beta = 1/2 the scores p^2 / r^2 tie at 1 and the first is drawn by chance.
  # If it is client 0: r(1) = (7/8, 1/8), weight 6/7, and client 1 is next with
  # r(2) = (7/16, 9/16) and weight 4/9. If it is client 1: r(1) = (3/8, 5/8),
  # weight 2/5, and client 0 is next with r(2) = (11/16, 5/16), weight 12/11.
  p = np.array([0.75, 0.25])
  found = set()
  for seed in range(20):
    both = methods.build_selector(
      p, 'always', 1, beta=0.5, rate_init='p', seed=seed
    )
    one, two = misplaced.weights_up_to(both, [1, 2])
    first = int(one.shares.argmax())
    found.add(first)
    np.testing.assert_allclose(one.shares, np.eye(2)[first])
    weights = np.array([[6 / 7, 4 / 9], [12 / 11, 2 / 5]][first])
    np.testing.assert_allclose(two.shares, weights / weights.sum())
    assert one.largest == pytest.approx(weights[first])
    assert two.largest == pytest.approx(weights.max())
  assert found == {0, 1}


def test_misplaced_by_hand():
  p = np.array([0.5, 0.3, 0.2])
  assert misplaced.misplaced(p, p) == 0
  assert misplaced.misplaced(np.array([0.2, 0.3, 0.5]), p) == pytest.approx(0.3)
  assert misplaced.misplaced(np.array([0.0, 0.0, 1.0]), p) == pytest.approx(0.8)


def test_all_who_take_part_in_every_round_get_the_same():
  # So FedAvg misplaces what others have above 1 / N.
  p = np.array([0.7, 0.2, 0.1])
  everybody = methods.build_selector(p, 'always', 3, policy='proportional')
  (found,) = misplaced.weights_up_to(everybody, [4])
  np.testing.assert_allclose(found.shares, 1 / 3)
  assert found.largest == pytest.approx(1 / 3)
  assert misplaced.misplaced(found.shares, p) == pytest.approx(0.7 - 1 / 3)


def test_in_the_long_run_f3ast_misplaces_less_and_fedavg_does_not(tmp_path):
  programs.succeed(
    tmp_path,
    'experiments.misplaced',
    '--avail=always,scarce',
    '--rounds=300,3000',
    '--seeds=1',
    '--output_dir=out',
  )
  table = pd.read_csv(tmp_path / 'out' / 'misplaced.csv')
  assert len(table) == 2 * 3 * 2
  found = table.set_index(['avail', 'method', 'rounds'])['misplaced']
  for avail in ('always', 'scarce'):
    assert found[avail, 'F3AST', 3000] < 0.6 * found[avail, 'F3AST', 300]
    assert found[avail, 'FedAvg', 3000] > 0.9 * found[avail, 'FedAvg', 300]


@pytest.mark.parametrize(
  'flag, message',
  [
    ('--avail=sometimes', 'avail must name some of always'),
    ('--avail=', 'avail must name some of always'),
    ('--rounds=0', "whole numbers >= 1 with commas between, but it is '0'"),
    ('--rounds=5,x', "but it is '5,x'"),
    ('--rounds=', "but it is ''"),
  ],
)
def test_bad_flags_are_one_sentence(flag, message, tmp_path):
  assert message in programs.one_error(
    tmp_path, 'experiments.misplaced', flag
  )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
