"""Tests of `client_losses`."""

import dataclasses
import sys

import numpy as np
import pytest
import tensorflow_federated as tff

from f3ast_tff import selection
from f3ast_tff.datasets import synthetic
from f3ast_tff.learning import client_losses
from f3ast_tff.learning import client_optimizers
from f3ast_tff.learning import shard_training
from f3ast_tff.learning import examples as examples_lib
from f3ast_tff.learning import shards
from f3ast_tff.models import character_lstm
from f3ast_tff.models import softmax

_DATA = synthetic.load(num_clients=4, seed=1)
_EXAMPLES = [{f: e[f][:70] for f in e} for e in _DATA.train]  # 45 to 70 each.
_LAYOUT = shard_training.layout_of(_EXAMPLES[0])
_BATCH = 20

pytestmark = pytest.mark.usefixtures('in_process')


def _weights():
  rng = np.random.default_rng(3)
  kernel = rng.normal(0, 0.3, (60, 10)).astype(np.float32)
  return kernel, rng.normal(0, 0.3, 10).astype(np.float32)


def _mean_loss(weights, examples):
  """Cross-entropy by hand, in float64."""
  logits = examples['x'].astype(np.float64) @ weights[0] + weights[1]
  logits -= logits.max(axis=1, keepdims=True)
  log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
  return -log_p[np.arange(len(log_p)), examples['y']].mean()


def _asked(*clients, train=_EXAMPLES, num_shards=1, **arguments):
  make = shards.AskedShards(
    train,
    examples_lib.concatenated(train),
    batch_size=client_losses.BATCH_SIZE,
    num_shards=num_shards,
    **arguments,
  )
  return [make.fill(part) for part in make.parts(np.array(clients, int))]


def _replaced(index, examples):
  return [*_EXAMPLES[:index], examples, *_EXAMPLES[index + 1 :]]


def _softmax(xla):
  return dataclasses.replace(softmax.build(), xla=xla)


def _model_weights(weights):
  return tff.learning.models.ModelWeights(tuple(weights), ())


@pytest.mark.parametrize('xla', [False, True])
@pytest.mark.parametrize('num_shards, filled_up_to', [(1, None), (2, 3)])
def test_losses_of_clients_in_shards_by_hand(xla, num_shards, filled_up_to):
  losses_of = client_losses.on_shards(_softmax(xla), 4, _LAYOUT)
  # They have 45 to 70 examples, in batches of 64: batches hold those of two.
  asked = _asked(
    1, 2, 3, num_shards=num_shards, filled_up_to=filled_up_to
  )
  got = losses_of(_model_weights(_weights()), asked)
  expected = [_mean_loss(_weights(), _EXAMPLES[k]) for k in (1, 2, 3)]
  np.testing.assert_allclose(got[1:], expected, rtol=1e-5)
  assert got[0] == 0


def test_sequences_of_all_lengths_go_through_the_model_in_order_of_length():
  model = character_lstm.build(variant='compact')
  rng = np.random.default_rng(5)
  rows = rng.integers(1, 90, (100, 81)).astype(np.uint8)
  lengths = rng.integers(2, 82, 100)
  rows[np.arange(81) >= lengths[:, None]] = 0
  examples = [
    {'x': part[:, :-1], 'y': part[:, 1:]} for part in (rows[:30], rows[30:])
  ]
  losses_of = client_losses.on_shards(
    model, 2, shard_training.layout_of(examples[0])
  )
  weights = model.functional.initial_weights
  asked = _asked(
    0, 1, train=examples, lengths=model.length(rows[:, :-1]).numpy()
  )
  got = losses_of(_model_weights(weights[0]), asked)

  def mean_loss(x, y):
    # One client at a time, in the pass for training, which leaves nothing out.
    logits = model.functional.predict_on_batch(weights, x, training=True)
    return model.functional.loss(logits, y)

  np.testing.assert_allclose(got, [mean_loss(**e) for e in examples], rtol=1e-5)


@pytest.mark.parametrize('xla', [False, True])
def test_a_loss_that_is_not_finite_stays_with_its_client(xla):
  losses_of = client_losses.on_shards(_softmax(xla), 4, _LAYOUT)
  bad = {**_EXAMPLES[2], 'x': np.full_like(_EXAMPLES[2]['x'], np.nan)}
  asked = _asked(0, 2, train=_replaced(2, bad))
  got = losses_of(_model_weights(_weights()), asked)
  assert np.isnan(got[2])
  np.testing.assert_allclose(
    got[0], _mean_loss(_weights(), _EXAMPLES[0]), rtol=1e-5
  )


def test_an_empty_client_has_loss_0():
  losses_of = client_losses.on_shards(softmax.build(), 4, _LAYOUT)
  nothing = {name: array[:0] for name, array in _EXAMPLES[0].items()}
  asked = _asked(0, train=_replaced(0, nothing), filled_up_to=2)
  got = losses_of(_model_weights(_weights()), asked)
  np.testing.assert_array_equal(got, np.zeros(4))


@pytest.mark.parametrize('xla', [False, True])
def test_losses_during_training_by_hand(xla):
  # Batches of 20 of 45 examples; each loss is before its step, and the mean
  # weighs the last batch by its 5 examples.
  rate = 0.1
  kernel, bias = (w.astype(np.float64) for w in _weights())
  examples = {name: array[:45] for name, array in _EXAMPLES[0].items()}
  total = 0.0
  for i in range(0, 45, _BATCH):
    x = examples['x'][i : i + _BATCH].astype(np.float64)
    y = examples['y'][i : i + _BATCH]
    total += _mean_loss((kernel, bias), {'x': x, 'y': y}) * len(y)
    logits = x @ kernel + bias
    logits -= logits.max(axis=1, keepdims=True)
    error = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    error[np.arange(len(y)), y] -= 1
    gradients = x.T @ error / len(y), error.mean(axis=0)
    norm = np.sqrt(sum((g**2).sum() for g in gradients))
    assert norm > 1  # Or clipping would not be tested.
    kernel, bias = (
      w - rate * g / norm for w, g in zip((kernel, bias), gradients)
    )
  losses_of = client_losses.during_training(
    _softmax(xla),
    client_optimizers.clipped(tff.learning.optimizers.build_sgdm(rate), 1.0),
    4,
    _LAYOUT,
    _BATCH,
  )
  train = _replaced(0, examples)
  make = shards.ClientShards(
    train, examples_lib.concatenated(train), batch_size=_BATCH, is_shuffled=False
  )
  cohort = selection.Cohort(np.array([0, 3]), np.zeros(2))
  got = losses_of(_model_weights(_weights()), make(cohort, 1))
  np.testing.assert_allclose(got[0], total / 45, rtol=1e-5)
  assert got[3] > 0
  np.testing.assert_array_equal(got[1:3], [0, 0])


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
