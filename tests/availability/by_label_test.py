"""Tests of availability that depends on labels."""

import sys

import numpy as np
import pytest

from f3ast_tff import availability


def test_labels_weigh_as_in_fedawe():
  # One client per label: q is the weight of it. Uniform on [0, 1] and on
  # [0, 0.5], with variances 1/12 and 1/48.
  n = 4000
  q = availability.labels(np.eye(n), seed=3).probabilities(1)
  first, second = q[: n // 2], q[n // 2 :]
  assert abs(first.mean() - 0.5) < 4 * np.sqrt(1 / 12 / (n // 2))
  assert abs(second.mean() - 0.25) < 4 * np.sqrt(1 / 48 / (n // 2))
  assert 0.99 < first.max() <= 1 and 0.49 < second.max() <= 0.5


def test_q_is_the_mean_weight_of_a_client_s_examples():
  shares = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.2, 0.3, 0.5]])
  q = availability.labels(shares, seed=1, high=0.8, low=0.1).probabilities(1)
  assert q[3] == pytest.approx(0.2 * q[0] + 0.3 * q[1] + 0.5 * q[2])
  # Of three labels two are in the first half; the third weighs at most 0.1.
  assert (q <= [0.8, 0.8, 0.1, 1]).all()
  other = availability.labels(shares, seed=2).probabilities(1)
  assert (other != q).all()


def test_the_majority_label_counts_as_in_mifa():
  shares = np.zeros((5, 10))
  shares[[0, 1, 2, 3], [0, 9, 5, 1]] = 0.6
  shares[[0, 1, 2, 3], [9, 0, 0, 9]] = 0.4
  q = availability.majority_label(shares).probabilities(1)
  # .1 + .9 label / 9; a client without labels is like one of the first.
  np.testing.assert_allclose(q, [0.1, 1.0, 0.6, 0.2, 0.1])
  one = availability.majority_label(np.ones((2, 1)), least=0.3)
  np.testing.assert_allclose(one.probabilities(1), 0.3)


@pytest.mark.parametrize(
  'make', [availability.labels, availability.majority_label]
)
def test_shares_are_a_table(make):
  with pytest.raises(ValueError, match='a row per client and a column per'):
    make(np.ones(3))


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
