"""The next-character model for Shakespeare: embedding, LSTM layers, logits.

Variant `paper` is the model of McMahan et al., "Communication-Efficient
Learning of Deep Networks from Decentralized Data" (2017), as TFF ships it:
embedding 8, two LSTM layers of 256 units, 90 logits; 820,522 parameters. With
the same weights, which are in the same order, it computes the same as the Keras
model of `tff.simulation.baselines.shakespeare`, and its weights start from the
same distributions.

Token 0 is padding. It follows the text of a sequence and never precedes any, so
no output that counts depends on it. What the model says at padding means
nothing: TFF's Keras model repeats its last output there, this one goes on when
it trains; else it stops after the longest text of a batch and says 0.

Loss and accuracy count the characters of y that are not padding, as TFF's own
accuracy does: letters, out-of-vocabulary characters and the end of a snippet
alike. (TFF's training loss also counts the padding token that follows the end
of a snippet.)
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from f3ast_tff import randomness
from f3ast_tff.models import functional
from f3ast_tff.models import initializers
from f3ast_tff.models import lstm_layer

SEQUENCE_LENGTH = 80
NUM_TOKENS = 90
PAD = 0


@dataclasses.dataclass(frozen=True)
class _Size:
  """The size of a model.

  Attributes:
    embedding: The size of a token's embedding.
    units: The units of each LSTM layer.
  """

  embedding: int
  units: tuple[int, ...]


_VARIANTS = {
  'paper': _Size(embedding=8, units=(256, 256)),
  'compact': _Size(embedding=8, units=(128,)),
}


def build(seed: int = 0, variant: str = 'paper') -> functional.Model:
  """Builds the model.

  Args:
    seed: Decides the initial weights.
    variant: `paper`; or `compact` for trials, with one LSTM layer of 128 units
      and a tenth of the parameters, 82,474.

  Returns:
    The model, for batches of `uint8` tokens x and y of shape [batch, 80].
  """
  if variant not in _VARIANTS:
    raise ValueError(
      f'The variant of the character LSTM must be one of '
      f'{", ".join(_VARIANTS)}, but it is {variant!r}.'
    )
  tokens = tf.TensorSpec([None, SEQUENCE_LENGTH], tf.uint8)
  return functional.build(
    initial_weights=(_initial_weights(_VARIANTS[variant], seed), ()),
    forward=_forward,
    per_example=per_example,
    input_spec=(tokens, tokens),
    length=length,
  )


def length(x: Any) -> tf.Tensor:
  """Returns how many tokens of each sequence are not padding."""
  return tf.math.count_nonzero(x, axis=1, dtype=tf.int32)


def per_example(
  logits: tf.Tensor, y: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
  """Returns each sequence's sums over the characters that are not padding.

  Args:
    logits: [batch, time, tokens].
    y: The tokens to predict, [batch, time].

  Returns:
    The sum of the losses, of the correct predictions, and the number of
    characters, each [batch].
  """
  labels = tf.cast(y, tf.int32)
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
  predicted = tf.argmax(logits, axis=-1, output_type=tf.int32)
  # Where TFF builds its graphs, == and != would compare objects, not values.
  is_counted = tf.cast(tf.not_equal(labels, PAD), tf.float32)
  is_correct = tf.cast(tf.equal(predicted, labels), tf.float32)
  return (
    tf.reduce_sum(losses * is_counted, axis=1),
    tf.reduce_sum(is_correct * is_counted, axis=1),
    tf.reduce_sum(is_counted, axis=1),
  )


def _forward(weights: Any, x: tf.Tensor, training: bool) -> tf.Tensor:
  """Returns logits [batch, time, tokens] for tokens x [batch, time]."""
  (embedding, *layers, out_kernel, out_bias), _ = weights
  tokens = tf.transpose(tf.cast(x, tf.int32))
  if not training:
    # Tests come in order of length. Batches of training are drawn at random,
    # and nearly all of them have a full sequence.
    longest = tf.maximum(tf.reduce_max(length(x)), 1)
    tokens = tokens[: -(-longest // lstm_layer.BLOCK) * lstm_layer.BLOCK]
  # A product, not tf.gather, so that optimizers see a dense gradient.
  h = lstm_layer.multiply(tf.one_hot(tokens, NUM_TOKENS), embedding)
  for i in range(0, len(layers), 3):
    kernel, recurrent_kernel, bias = layers[i : i + 3]
    kernel, recurrent_kernel, bias = map(
      lstm_layer.widen, (kernel, recurrent_kernel, bias[None])
    )
    if training:
      h = lstm_layer.lstm(h, kernel, recurrent_kernel, bias)
    else:
      h, *_ = lstm_layer.run(
        h, kernel, recurrent_kernel, bias, outputs_only=True
      )
  logits = lstm_layer.multiply(h, out_kernel) + out_bias
  logits = tf.pad(
    logits, [[0, SEQUENCE_LENGTH - tf.shape(logits)[0]], [0, 0], [0, 0]]
  )
  return tf.transpose(logits, [1, 0, 2])


# Initial weights.


def _initial_layer(
  rng: np.random.Generator, num_inputs: int, units: int
) -> list[np.ndarray]:
  """Returns kernel, recurrent kernel and bias, with gates i, f, c, o."""
  kernel = np.sqrt(2 / num_inputs) * initializers.truncated_normal(
    rng, (num_inputs, 4 * units)
  )
  q, r = np.linalg.qr(rng.standard_normal((4 * units, units)))
  orthogonal = (q * np.sign(np.diag(r))).T
  bias = np.zeros(4 * units)
  bias[units : 2 * units] = 1  # At first, nothing is forgotten.
  return [kernel, orthogonal, bias]


def _initial_weights(size: _Size, seed: int) -> tuple[np.ndarray, ...]:
  """Returns the weights in the order of TFF's Keras model."""
  rng = randomness.generator(seed, 'character lstm weights')
  weights = [rng.uniform(-0.05, 0.05, (NUM_TOKENS, size.embedding))]
  num_inputs = size.embedding
  for units in size.units:
    weights += _initial_layer(rng, num_inputs, units)
    num_inputs = units
  limit = np.sqrt(6 / (num_inputs + NUM_TOKENS))
  weights.append(rng.uniform(-limit, limit, (num_inputs, NUM_TOKENS)))
  weights.append(np.zeros(NUM_TOKENS))
  return tuple(np.ascontiguousarray(w, np.float32) for w in weights)
