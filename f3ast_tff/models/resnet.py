"""Residual networks with group normalisation, the models for CIFAR-100.

A pure forward pass over a flat tuple of weights. 'paper' is the ResNet-18 of
`tff.simulation.baselines.cifar100`, which Reddi et al. (2020) and the paper's
experiments use: the same layers (pre-activation; no block has a stride, so all
four stages work on 6x6 pixels), the same initial distributions and the same L2
penalty. Weights are in the order in which TFF's code makes the layers.
"""

from collections.abc import Iterator, Sequence
import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from f3ast_tff import randomness
from f3ast_tff.models import functional
from f3ast_tff.models import initializers

NUM_CLASSES = 100
IMAGE_SIZE = 24
L2_PENALTY = 1e-4  # Of TFF's ResNet-18.
_EPSILON = 1e-3  # Of Keras' group normalisation.


@dataclasses.dataclass(frozen=True)
class Stage:
  """Residual blocks of one width.

  Attributes:
    filters: The number of channels.
    num_blocks: The number of blocks, of two 3x3 convolutions each.
    stride: The stride of the first convolution of the first block.
  """

  filters: int
  num_blocks: int
  stride: int = 1


@dataclasses.dataclass(frozen=True)
class Architecture:
  """The shape of a residual network.

  Attributes:
    stem_kernel: The width of the first convolution, which has stride 2.
    stem_pool: Whether 3x3 max pooling with stride 2 follows it.
    stages: The stages; the first convolution has the filters of the first.
    groups: The number of groups of each normalisation.
  """

  stem_kernel: int
  stem_pool: bool
  stages: tuple[Stage, ...]
  groups: int = 32


ARCHITECTURES = {
  'paper': Architecture(
    7, True, (Stage(64, 2), Stage(128, 2), Stage(256, 2), Stage(512, 2))
  ),
  # Reddi et al. do not say in how many groups; it may be in two.
  'paper_2_groups': Architecture(
    7,
    True,
    (Stage(64, 2), Stage(128, 2), Stage(256, 2), Stage(512, 2)),
    groups=2,
  ),
  'compact': Architecture(
    3, True, (Stage(32, 1), Stage(64, 1, stride=2)), groups=8
  ),
}


def build(
  seed: int = 0, variant: str = 'paper', l2_penalty: float = L2_PENALTY
) -> functional.Model:
  """Builds a residual network for 24x24 images with bytes as pixels.

  Args:
    seed: Decides the initial weights.
    variant: 'paper' is TFF's ResNet-18: 11,227,812 parameters, 807 MFLOP for
      the forward pass of an image. 'paper_2_groups' is the same, normalised
      in 2 groups of channels instead of 32. 'compact' is for quick
      experiments: 83,716 parameters, 2.6 MFLOP; its two stages work on 6x6 and
      3x3 pixels.
    l2_penalty: How much the squares of all kernels and of the last bias are
      penalised. Keras adds such penalties to the loss that TFF trains on; here
      they act on the gradients alone, so that the loss is the cross entropy.

  Returns:
    The model.
  """
  if variant not in ARCHITECTURES:
    raise ValueError(
      f'The ResNet must be one of {", ".join(ARCHITECTURES)}, but it is '
      f'{variant!r}.'
    )
  if not (np.isfinite(l2_penalty) and l2_penalty >= 0):
    raise ValueError(
      f'The L2 penalty must be a number >= 0, but it is {l2_penalty}.'
    )
  architecture = ARCHITECTURES[variant]

  def forward(weights, x, training):
    del training
    trainable, _ = weights
    return _logits(architecture, l2_penalty, trainable, x)

  return functional.build(
    initial_weights=(_initial_weights(architecture, seed), ()),
    forward=forward,
    per_example=functional.cross_entropy,
    input_spec=(
      tf.TensorSpec([None, IMAGE_SIZE, IMAGE_SIZE, 3], tf.uint8),
      tf.TensorSpec([None], tf.int32),
    ),
  )


def standardize(images: tf.Tensor) -> tf.Tensor:
  """Returns images with mean 0 and variance 1 each; black ones stay black.

  Args:
    images: Images of bytes.

  Returns:
    What `tf.image.per_image_standardization` returns, as `float32`.
  """
  x = tf.cast(images, tf.float32)
  mean, variance = tf.nn.moments(x, axes=[1, 2, 3], keepdims=True)
  num_values = np.prod(images.shape[1:])
  return (x - mean) * tf.math.rsqrt(tf.maximum(variance, 1.0 / num_values))


def _logits(
  architecture: Architecture, l2_penalty: float, trainable: Any, images: Any
) -> tf.Tensor:
  """The forward pass; takes weights in the order of `_initial_weights`."""
  weights = iter(trainable)

  def penalized():
    return _penalize(next(weights), l2_penalty)

  def convolve(x, stride=1):
    return tf.nn.conv2d(x, penalized(), stride, 'SAME')

  def normalize(x):
    return _group_norm(x, next(weights), next(weights), architecture.groups)

  x = convolve(standardize(images), 2)
  x = tf.nn.relu(normalize(x))
  if architecture.stem_pool:
    x = tf.nn.max_pool2d(x, 3, 2, 'SAME')
  is_normalized = True
  for filters, stride in _blocks(architecture):
    residual = x if is_normalized else tf.nn.relu(normalize(x))
    residual = convolve(residual, stride)
    residual = convolve(tf.nn.relu(normalize(residual)))
    if stride != 1 or x.shape[-1] != filters:
      x = normalize(convolve(x, stride))
    x += residual
    is_normalized = False
  x = tf.nn.relu(normalize(x))
  x = tf.reduce_mean(x, axis=[1, 2])
  return tf.matmul(x, penalized()) + penalized()


def _blocks(architecture: Architecture) -> Iterator[tuple[int, int]]:
  """Yields the filters and the stride of each block."""
  for stage in architecture.stages:
    for block in range(stage.num_blocks):
      yield stage.filters, stage.stride if block == 0 else 1


def _group_norm(
  x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, groups: int
) -> tf.Tensor:
  """Normalises each group of neighbouring channels of each image.

  Sums over pixels first and over the few channels of a group after that, since
  TensorFlow is slow to sum over two short axes at once.

  Args:
    x: Activations of shape [n, height, width, channels].
    scale: The factor per channel.
    offset: The offset per channel.
    groups: The number of groups.

  Returns:
    Activations of the same shape.
  """
  channels = x.shape[-1]

  def over_groups(values):
    grouped = tf.reshape(values, [-1, groups, channels // groups])
    means = tf.reduce_mean(grouped, axis=2, keepdims=True)
    means = tf.broadcast_to(means, tf.shape(grouped))
    return tf.reshape(means, [-1, 1, 1, channels])

  mean = over_groups(tf.reduce_mean(x, axis=[1, 2]))
  # The variance is at its minimum in the mean, so that it has no gradient with
  # respect to it; telling TensorFlow saves a pass over the activations.
  deviation = tf.math.squared_difference(x, tf.stop_gradient(mean))
  variance = over_groups(tf.reduce_mean(deviation, axis=[1, 2]))
  factor = scale * tf.math.rsqrt(variance + _EPSILON)
  return x * factor + (offset - mean * factor)


def _penalize(weight: tf.Tensor, l2_penalty: float) -> tf.Tensor:
  """Returns the weight, but adds its L2 penalty's gradient to its gradient."""
  if not l2_penalty:
    return weight

  @tf.custom_gradient
  def identity(w):
    return tf.identity(w), lambda gradient: gradient + 2 * l2_penalty * w

  return identity(weight)


def penalty(trainable: Sequence[np.ndarray]) -> float:
  """Returns what the L2 penalty adds to the loss that clients train on.

  Args:
    trainable: The weights of a model of `build`, in their order.
  """
  *others, last_bias = trainable
  penalized = [*(w for w in others if w.ndim > 1), last_bias]
  return L2_PENALTY * sum(float(np.square(w).sum()) for w in penalized)


def _initial_weights(
  architecture: Architecture, seed: int
) -> tuple[np.ndarray, ...]:
  """Returns the weights to start at, distributed as those of TFF's model."""
  rng = randomness.generator(seed, 'ResNet weights')
  weights: list[np.ndarray] = []

  def add_convolution(width, channels, filters):
    shape = (width, width, channels, filters)
    std = np.sqrt(2.0 / np.prod(shape[:3]))
    kernel = std * initializers.truncated_normal(rng, shape)
    weights.append(kernel.astype(np.float32))

  def add_norm(channels):
    weights.append(np.ones(channels, np.float32))
    weights.append(np.zeros(channels, np.float32))

  channels = architecture.stages[0].filters
  add_convolution(architecture.stem_kernel, 3, channels)
  add_norm(channels)
  is_normalized = True
  for filters, stride in _blocks(architecture):
    if not is_normalized:
      add_norm(channels)
    add_convolution(3, channels, filters)
    add_norm(filters)
    add_convolution(3, filters, filters)
    if stride != 1 or channels != filters:
      add_convolution(1, channels, filters)
      add_norm(filters)
    channels = filters
    is_normalized = False
  add_norm(channels)
  kernel = 0.01 * rng.standard_normal((channels, NUM_CLASSES))
  weights.append(kernel.astype(np.float32))
  weights.append(np.zeros(NUM_CLASSES, np.float32))
  return tuple(weights)
