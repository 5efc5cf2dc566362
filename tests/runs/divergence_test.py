"""Tests of `divergence`."""

import sys

import numpy as np
import pytest

from f3ast_tff.datasets import federated
from f3ast_tff.runs import divergence


def test_only_rounds_in_a_row_without_any_finite_update_count():
  count = 0
  seen = []
  # (trained, finite) by round; in the third one nobody trained.
  for trained, finite in ((3, 3), (2, 0), (0, 0), (1, 0), (4, 1), (4, 0)):
    count = divergence.rounds_without_update(count, trained, finite)
    seen.append(count)
  assert seen == [0, 1, 1, 2, 0, 1]


def test_what_is_finite_is_no_problem():
  weights = [np.zeros(3), np.full((2, 2), 3e38, np.float32), np.zeros(0)]
  assert divergence.problem(9, weights, [0.5, 2002.0, 1e10]) is None


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_one(bad):
  found = divergence.problem(0, [np.zeros(2), np.array([0, bad])])
  assert found.what == 'the model has weights that are not finite'
  found = divergence.problem(0, [], [0.5, bad])
  assert found == (f'the test loss is {bad}', 'test')
  assert 'in 10 rounds' in divergence.problem(10).what


def test_a_loss_of_no_use_is_one():
  found = divergence.problem(0, [np.zeros(2)], [0.5, 1.234e30])
  assert found == ('the test loss is 1.2e+30, above 1e+10', '')


def _dataset(train=(), test=()):
  """Four clients with two examples each; the given ones have a bad value."""

  def examples(num_clients, bad):
    x = np.zeros((2 * num_clients, 3), np.float32)
    x[[2 * k + 1 for k in bad], 2] = np.nan
    return {'x': x, 'y': np.zeros(2 * num_clients, np.int32)}

  return federated.FederatedDataset(
    'x',
    [examples(1, [0] if k in train else []) for k in range(4)],
    examples(20, test),
    np.repeat(np.arange(20), 2),
  )


@pytest.mark.parametrize(
  'losses, train, test, expected',
  [
    ([np.nan], [], [7], 'the test examples of client 7 hold values'),
    ([0.1, np.inf], [1], [3, 7], 'the test examples of clients 3, 7 hold'),
    (
      [np.nan],
      [],
      range(1, 20, 2),
      'examples of clients 1, 3, 5, 7, 9 and 5 more hold',
    ),
    ([np.nan], [1, 2], [], None),  # Training leaves these out.
    ([1e30], [], [7], None),
    ([], range(4), [], 'the training examples of clients 0, 1, 2, 3 hold'),
    ([], [1], [7], None),  # The others gave no update, either.
    ([], [], [], None),
  ],
)
def test_data_are_named_where_they_are_the_cause(losses, train, test, expected):
  found = divergence.problem(10, [], losses)
  cause = divergence.cause_in_data(found, _dataset(train, test))
  assert cause is None if expected is None else expected in cause


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
