"""Tests of `evaluation`."""

import sys

import numpy as np
import pytest

from f3ast_tff.datasets import shakespeare
from f3ast_tff.models import character_lstm
from f3ast_tff.runs import evaluation
from tests import by_hand


def test_averages_by_hand():
  # User 0 has predictions 2 + 1 with 1 right; user 2 has 1 with 1 right; user 1
  # has none and does not count.
  metrics = evaluation.averages(
    losses=np.array([4.0, 2.0, 1.0]),
    correct=np.array([1.0, 0.0, 1.0]),
    counts=np.array([2.0, 1.0, 1.0]),
    owner=np.array([0, 0, 2]),
  )
  assert metrics.accuracy == pytest.approx(2 / 4)
  assert metrics.loss == pytest.approx(7 / 4)
  assert metrics.user_accuracy == pytest.approx((1 / 3 + 1) / 2)
  assert metrics.user_loss == pytest.approx((6 / 3 + 1) / 2)


def test_evaluator_equals_numpy_and_does_not_depend_on_the_batch(task):
  dataset = task.dataset
  rng = np.random.default_rng(0)
  kernel = rng.normal(size=(60, 10)).astype(np.float32)
  bias = rng.normal(size=10).astype(np.float32)
  y = dataset.test['y']
  log_p = by_hand.log_probabilities((kernel, bias), dataset.test['x'])
  losses = -log_p[np.arange(len(y)), y]
  right = log_p.argmax(axis=1) == y
  users = [dataset.test_owner == k for k in range(8)]
  for batch_size in (7, 1024):
    evaluate = evaluation.build_evaluator(task.model, dataset, batch_size)
    metrics = evaluate(((kernel, bias), ()))
    assert metrics.accuracy == pytest.approx(right.mean())
    assert metrics.loss == pytest.approx(losses.mean(), rel=1e-5)
    assert metrics.user_accuracy == pytest.approx(
      np.mean([right[user].mean() for user in users])
    )
    assert metrics.user_loss == pytest.approx(
      np.mean([losses[user].mean() for user in users]), rel=1e-5
    )


def test_sequences_in_order_of_length_give_what_they_give_alone():
  dataset = shakespeare.load('sample')
  model = character_lstm.build(variant='compact')
  weights = model.functional.initial_weights
  rows = np.arange(0, len(dataset.test_owner), 2)
  x, y = dataset.test['x'][rows], dataset.test['y'][rows]
  lengths = (x != 0).sum(axis=1)
  assert len(set(lengths)) > 2 and (np.diff(lengths) < 0).any()
  # The pass for training goes on to the end of each sequence.
  logits = model.functional.predict_on_batch(weights, x, training=True)
  sums = np.array(model.per_example(logits, y), float)
  expected = evaluation.averages(*sums, dataset.test_owner[rows])
  evaluate = evaluation.build_evaluator(model, dataset, batch_size=3)
  np.testing.assert_allclose(evaluate(weights, rows), expected, rtol=1e-5)


def test_subset_is_fixed_and_the_evaluator_uses_it(task):
  dataset = task.dataset
  total = len(dataset.test_owner)
  rows = evaluation.subset(total, 30, seed=4)
  assert len(set(rows)) == 30 and total / 2 < rows.max() < total
  assert (rows != evaluation.subset(total, 30, seed=5)).any()
  np.testing.assert_array_equal(rows, evaluation.subset(total, 30, seed=4))
  assert evaluation.subset(total, 0, seed=4) is None
  assert evaluation.subset(total, total, seed=4) is None
  evaluate = evaluation.build_evaluator(task.model, dataset, 7)
  zeros = tuple(w.astype(np.float32) for w in by_hand.zeros())
  metrics = evaluate((zeros, ()), rows)
  assert metrics.test_examples == 30
  # Zero weights predict class 0 with probability 1/10.
  share = (dataset.test['y'][rows] == 0).mean()
  assert metrics.accuracy == pytest.approx(share)
  assert metrics.loss == pytest.approx(np.log(10), rel=1e-5)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
