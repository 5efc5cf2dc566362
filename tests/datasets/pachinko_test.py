"""Tests of Pachinko allocation."""

import sys

import numpy as np
import pytest
import scipy.integrate
import scipy.special

from f3ast_tff.datasets import pachinko

NUM_COARSE, NUM_FINE = 20, 100


def _labels(per_label, num_coarse=NUM_COARSE, num_fine=NUM_FINE):
  fine = np.arange(num_fine * per_label) % num_fine
  return fine // (num_fine // num_coarse), fine


def _slow_reference(coarse, fine, num_clients, size, rng):
  """The method as it is written down: one draw at a time, all in arrays."""
  left = np.bincount(fine, minlength=NUM_FINE)
  parent = np.zeros(NUM_FINE, int)
  parent[fine] = coarse
  labels = []
  for _ in range(num_clients):
    alive = np.bincount(parent, left, NUM_COARSE) > 0
    root = np.zeros(NUM_COARSE)
    root[alive] = rng.dirichlet(np.full(alive.sum(), 0.1))
    leaf = np.zeros(NUM_FINE)
    for c in np.flatnonzero(alive):
      members = (parent == c) & (left > 0)
      leaf[members] = rng.dirichlet(np.full(members.sum(), 10.0))
    mine = []
    for _ in range(size):
      c = rng.choice(NUM_COARSE, p=root / root.sum())
      members = np.where(parent == c, leaf, 0.0)
      f = rng.choice(NUM_FINE, p=members / members.sum())
      mine.append(f)
      left[f] -= 1
      if left[f] == 0:
        leaf[f] = 0.0
        if not left[parent == c].any():
          root[c] = 0.0
    labels.append(mine)
  return labels


def _mean_distinct(labels):
  return np.mean([len(set(mine)) for mine in labels])


def test_gives_every_example_to_exactly_one_client():
  coarse, fine = _labels(per_label=100)
  clients = pachinko.allocate(coarse, fine, 100, 100, seed=3)
  assert [len(rows) for rows in clients] == [100] * 100
  np.testing.assert_array_equal(
    np.sort(np.concatenate(clients)), np.arange(10_000)
  )


def test_may_leave_examples_over():
  coarse, fine = _labels(per_label=10)
  rows = np.concatenate(pachinko.allocate(coarse, fine, 7, 30))
  assert len(rows) == len(set(rows)) == 210


def test_labels_need_be_neither_balanced_nor_consecutive():
  fine = np.repeat([7, 3, 50], [1, 5, 24])
  coarse = np.repeat([9, 9, 2], [1, 5, 24])
  clients = pachinko.allocate(coarse, fine, 3, 10)
  np.testing.assert_array_equal(np.sort(np.concatenate(clients)), np.arange(30))


def test_an_alpha_so_small_that_probabilities_vanish_works():
  coarse, fine = _labels(per_label=2)
  clients = pachinko.allocate(coarse, fine, 20, 10, alpha=1e-5, beta=1e-5)
  np.testing.assert_array_equal(
    np.sort(np.concatenate(clients)), np.arange(200)
  )


def test_is_a_pure_function_of_seed_and_purpose():
  coarse, fine = _labels(per_label=20)

  def rows(**options):
    return np.concatenate(pachinko.allocate(coarse, fine, 20, 100, **options))

  np.testing.assert_array_equal(rows(seed=1), rows(seed=1))
  assert (rows(seed=1) != rows(seed=2)).any()
  assert (rows(seed=1) != rows(seed=1, purpose='other')).any()


def test_a_first_client_has_as_many_labels_as_in_theory():
  # Nothing runs out for it, so that its labels are 100 independent draws. It
  # misses coarse label c with probability E (1 - P)^100, P ~ Beta(.1, 1.9), and
  # fine label f with E (1 - P Q)^100, where Q ~ Beta(10, 40).
  missing_coarse = np.exp(
    scipy.special.betaln(0.1, 101.9) - scipy.special.betaln(0.1, 1.9)
  )
  # With p = u^10 the integrand over u is smooth where that over p is not.
  missing_fine, _ = scipy.integrate.dblquad(
    lambda q, u: (
      (1 - u**10 * q) ** 100
      * (10 * (1 - u**10) ** 0.9 / scipy.special.beta(0.1, 1.9))
      * (q**9 * (1 - q) ** 39 / scipy.special.beta(10, 40))
    ),
    0,
    1,
    0,
    1,
  )
  coarse, fine = _labels(per_label=100)
  first = [
    pachinko.allocate(coarse, fine, 1, 100, seed=seed)[0] for seed in range(300)
  ]
  # In theory 6.9 coarse and 23.0 fine labels. Three standard errors of a mean
  # over 300 clients, whose deviations were measured as 1.9 and 6.3 labels.
  assert _mean_distinct(coarse[rows] for rows in first) == pytest.approx(
    NUM_COARSE * (1 - missing_coarse), abs=0.34
  )
  assert _mean_distinct(fine[rows] for rows in first) == pytest.approx(
    NUM_FINE * (1 - missing_fine), abs=1.1
  )


def test_all_clients_have_as_many_labels_as_in_a_slow_reference():
  coarse, fine = _labels(per_label=50)
  ours, reference = [], []
  for seed in range(4):
    rows = pachinko.allocate(coarse, fine, 50, 100, seed)
    ours += [fine[r] for r in rows]
    rng = np.random.default_rng(seed)
    reference += _slow_reference(coarse, fine, 50, 100, rng)
  # Three standard errors of a difference of means over 200 clients each, whose
  # deviations were measured as 6.6 and 6.1 labels around a mean of 20.
  assert _mean_distinct(ours) == pytest.approx(
    _mean_distinct(reference), abs=1.9
  )
  # Late clients get what others left over, and so about 12 labels. Three
  # standard errors of a difference of means over 20 clients each, whose
  # deviation was measured as 3.2 labels.
  late = [k for k in range(200) if k % 50 >= 45]
  assert _mean_distinct(ours[k] for k in late) == pytest.approx(
    _mean_distinct(reference[k] for k in late), abs=3.0
  )


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (dict(alpha=0), r'^alpha must be a number > 0, but it is 0\.$'),
    (dict(beta=float('nan')), r'^beta must be a number > 0, but it is nan\.$'),
    (dict(coarse=np.zeros(3, int)), r'3 coarse and 200 fine ones\.$'),
    (dict(num_clients=0), r'^There must be at least 1 client'),
    (dict(num_clients=21), r'^21 clients with 10 .* the 200 examples there'),
    (dict(coarse=np.arange(200) % 7), r'^Fine label 0 must have one coarse'),
  ],
)
def test_bad_input_is_named(change, message):
  coarse, fine = _labels(per_label=2)
  arguments = dict(
    coarse=coarse, fine=fine, num_clients=20, examples_per_client=10
  )
  with pytest.raises(ValueError, match=message):
    pachinko.allocate(**{**arguments, **change})


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
