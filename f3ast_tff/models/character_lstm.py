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

Local batches are so small that an LSTM spends its time on fetching weights and
on starting operations, and the layer here is written to do less of both.
"""

from collections.abc import Callable
import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from f3ast_tff import randomness
from f3ast_tff.models import functional
from f3ast_tff.models import initializers

SEQUENCE_LENGTH = 80
NUM_TOKENS = 90
PAD = 0

# One turn of a layer's loop does this many time steps. It has to divide their
# number; more make the program larger and hardly faster.
_BLOCK = 5

# Matrices whose rows are a power of two apart keep pushing their own lines out
# of the cache. A line more per row makes the products almost twice as fast.
_MARGIN = 16


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
    tokens = tokens[: -(-longest // _BLOCK) * _BLOCK]
  # A product, not tf.gather, so that optimizers see a dense gradient.
  h = _multiply(tf.one_hot(tokens, NUM_TOKENS), embedding)
  for i in range(0, len(layers), 3):
    kernel, recurrent_kernel, bias = layers[i : i + 3]
    layer = _widen(kernel), _widen(recurrent_kernel), _widen(bias[None])
    h = _lstm(h, *layer) if training else _run(h, *layer, outputs_only=True)[0]
  logits = _multiply(h, out_kernel) + out_bias
  left_out = SEQUENCE_LENGTH - tf.shape(logits)[0]
  logits = tf.pad(logits, [[0, left_out], [0, 0], [0, 0]])
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


# The LSTM layer. Sequences are [time, batch, size].


def _widen(matrix: tf.Tensor) -> tf.Tensor:
  """Returns the matrix with a margin of zeros at the end of each row."""
  return tf.pad(matrix, [[0, 0], [0, _MARGIN]])


def _multiply(
  sequence: tf.Tensor, matrix: tf.Tensor, transpose: bool = False
) -> tf.Tensor:
  """Returns the product of each vector of a sequence with a matrix."""
  vectors = tf.reshape(sequence, [-1, sequence.shape[2]])
  product = tf.matmul(vectors, matrix, transpose_b=transpose)
  time, batch_size, _ = tf.unstack(tf.shape(sequence))
  return tf.reshape(product, [time, batch_size, product.shape[1]])


def _to_blocks(sequence: tf.Tensor) -> tf.Tensor:
  """Returns a sequence as [blocks, time in a block, batch, size]."""
  batch_size = tf.shape(sequence)[1]
  return tf.reshape(sequence, [-1, _BLOCK, batch_size, sequence.shape[2]])


def _from_blocks(blocks: tf.TensorArray, size: int) -> tf.Tensor:
  """Returns the sequence of blocks that were written one by one."""
  stacked = blocks.stack()
  return tf.reshape(stacked, [-1, tf.shape(stacked)[2], size])


def _run(
  inputs: tf.Tensor,
  kernel: tf.Tensor,
  recurrent_kernel: tf.Tensor,
  bias: tf.Tensor,
  outputs_only: bool,
) -> list[tf.Tensor]:
  """Runs a layer.

  Args:
    inputs: The sequence of inputs.
    kernel: [inputs, 4 units], with gates i, f, c, o; widened.
    recurrent_kernel: [units, 4 units], widened.
    bias: [1, 4 units], widened.
    outputs_only: Whether to leave out what only the gradient needs.

  Returns:
    The sequences of outputs h, cells c, and gates i, f, g (for c) and o.
  """
  units = recurrent_kernel.shape[0]
  projected = _to_blocks(_multiply(inputs, kernel) + bias)
  num_blocks = tf.shape(projected)[0]

  def step(h: Any, c: Any, projection: Any) -> tuple[tf.Tensor, ...]:
    z = projection + tf.matmul(h, recurrent_kernel)
    i, f, g, o, _ = tf.split(z, [units] * 4 + [_MARGIN], axis=1)
    i, f, g, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)
    c = f * c + i * g
    return o * tf.tanh(c), c, i, f, g, o

  def run_block(block: Any, h: Any, c: Any, arrays: Any) -> tuple[Any, ...]:
    steps = []
    for projection in tf.unstack(projected[block]):
      steps.append(step(h, c, projection))
      h, c, *_ = steps[-1]
    arrays = [
      array.write(block, tf.stack(values))
      for array, values in zip(arrays, zip(*steps))
    ]
    return block + 1, h, c, arrays

  zeros = tf.zeros([tf.shape(inputs)[1], units])
  *_, arrays = tf.while_loop(
    lambda block, *_: block < num_blocks,
    run_block,
    (
      0,
      zeros,
      zeros,
      [
        tf.TensorArray(tf.float32, num_blocks)
        for _ in range(1 if outputs_only else 6)
      ],
    ),
    parallel_iterations=1,
  )
  return [_from_blocks(array, units) for array in arrays]


@tf.custom_gradient
def _lstm(
  inputs: tf.Tensor,
  kernel: tf.Tensor,
  recurrent_kernel: tf.Tensor,
  bias: tf.Tensor,
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, ...]]]:
  """Runs a layer, with a gradient written by hand.

  A step does what only it can do. All that does not have to wait for it is done
  for all steps at once: the projection of the inputs and the factors of the
  gradient before, the gradients of the weights after.

  Args:
    inputs: The arguments of `_run`, as are the others.
    kernel: [inputs, 4 units].
    recurrent_kernel: [units, 4 units].
    bias: [1, 4 units].

  Returns:
    The sequence of outputs, and the function that maps its gradient to those of
    the arguments.
  """
  h, c, i, f, g, o = _run(
    inputs, kernel, recurrent_kernel, bias, outputs_only=False
  )

  def gradient(dh: tf.Tensor) -> tuple[tf.Tensor, ...]:
    units = recurrent_kernel.shape[0]
    batch_size = tf.shape(inputs)[1]
    zeros = tf.zeros([batch_size, units])
    margin = tf.zeros([batch_size, _MARGIN])
    # Left to tf.matmul, each step would transpose it, at ten times the cost.
    backward_kernel = _widen(tf.transpose(recurrent_kernel))
    h_before = tf.concat([zeros[None], h[:-1]], axis=0)
    c_before = tf.concat([zeros[None], c[:-1]], axis=0)
    tanh_c = tf.tanh(c)
    dc_by_dh = o * (1 - tanh_c * tanh_c)
    dz_by_dc_and_dh = tf.concat(
      [
        g * i * (1 - i),
        c_before * f * (1 - f),
        i * (1 - g * g),
        tanh_c * o * (1 - o),
        tf.zeros_like(h[:, :, :_MARGIN]),
      ],
      axis=2,
    )
    sequences = [
      _to_blocks(sequence) for sequence in (dh, dc_by_dh, dz_by_dc_and_dh, f)
    ]
    num_blocks = tf.shape(sequences[0])[0]

    def run_block(
      block: Any, dh_after: Any, dc_after: Any, dz_blocks: Any
    ) -> tuple[Any, ...]:
      steps = list(zip(*(tf.unstack(s[block]) for s in sequences)))
      dzs = []
      for dh_t, to_dc, to_dz, f_t in reversed(steps):
        dh_t += dh_after
        dc_t = dh_t * to_dc + dc_after
        dz = tf.concat([dc_t, dc_t, dc_t, dh_t, margin], axis=1) * to_dz
        dh_after = tf.matmul(dz, backward_kernel)[:, :units]
        dc_after = dc_t * f_t
        dzs.append(dz)
      dz_blocks = dz_blocks.write(block, tf.stack(dzs[::-1]))
      return block - 1, dh_after, dc_after, dz_blocks

    *_, dz_blocks = tf.while_loop(
      lambda block, *_: block >= 0,
      run_block,
      (num_blocks - 1, zeros, zeros, tf.TensorArray(tf.float32, num_blocks)),
      parallel_iterations=1,
    )
    width = 4 * units + _MARGIN
    dz = _from_blocks(dz_blocks, width)
    dz_vectors = tf.reshape(dz, [-1, width])

    def of_kernel(sequence: tf.Tensor) -> tf.Tensor:
      vectors = tf.reshape(sequence, [-1, sequence.shape[2]])
      return tf.matmul(vectors, dz_vectors, transpose_a=True)

    return (
      _multiply(dz, kernel, transpose=True),
      of_kernel(inputs),
      of_kernel(h_before),
      tf.reduce_sum(dz_vectors, axis=0, keepdims=True),
    )

  return h, gradient
