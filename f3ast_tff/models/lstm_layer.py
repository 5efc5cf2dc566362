"""An LSTM layer for small batches; sequences are [time, batch, size].

Local batches are so small that an LSTM spends its time on fetching weights and
on starting operations, and this layer is written to do less of both.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

# One turn of a layer's loop does this many time steps. It has to divide their
# number; more make the program larger and hardly faster.
BLOCK = 5

# Matrices whose rows are a power of two apart keep pushing their own lines out
# of the cache. A line more per row makes the products almost twice as fast.
_MARGIN = 16


def widen(matrix: tf.Tensor) -> tf.Tensor:
  """Returns the matrix with a margin of zeros at the end of each row."""
  return tf.pad(matrix, [[0, 0], [0, _MARGIN]])


def multiply(
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
  return tf.reshape(sequence, [-1, BLOCK, batch_size, sequence.shape[2]])


def _from_blocks(blocks: tf.TensorArray, size: int) -> tf.Tensor:
  """Returns the sequence of blocks that were written one by one."""
  stacked = blocks.stack()
  return tf.reshape(stacked, [-1, tf.shape(stacked)[2], size])


def run(
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
  projected = _to_blocks(multiply(inputs, kernel) + bias)
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
def lstm(
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
  h, c, i, f, g, o = run(
    inputs, kernel, recurrent_kernel, bias, outputs_only=False
  )

  def gradient(dh: tf.Tensor) -> tuple[tf.Tensor, ...]:
    units = recurrent_kernel.shape[0]
    batch_size = tf.shape(inputs)[1]
    zeros = tf.zeros([batch_size, units])
    margin = tf.zeros([batch_size, _MARGIN])
    # Left to tf.matmul, each step would transpose it, at ten times the cost.
    backward_kernel = widen(tf.transpose(recurrent_kernel))
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
      multiply(dz, kernel, transpose=True),
      of_kernel(inputs),
      of_kernel(h_before),
      tf.reduce_sum(dz_vectors, axis=0, keepdims=True),
    )

  return h, gradient
