"""What can be put around the optimizer of local training.

Each function takes a TFF optimizer and returns one, so that it works with every
kind of local training: shards, `tf.data` datasets, and TFF's own.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff


class _Wrapped(tff.learning.optimizers.Optimizer):
  """An optimizer made of two functions, as TFF wants a class."""

  def __init__(
    self,
    initialize: Callable[[Any], Any],
    next_fn: Callable[[Any, Any, Any], tuple[Any, Any]],
  ):
    self._initialize = initialize
    self._next = next_fn

  def initialize(self, specs: Any) -> Any:
    """Returns the state to start with."""
    return self._initialize(specs)

  def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
    """Returns the new state and the new weights."""
    return self._next(state, weights, gradients)


def wrapped(
  initialize: Callable[[Any], Any],
  next_fn: Callable[[Any, Any, Any], tuple[Any, Any]],
) -> tff.learning.optimizers.Optimizer:
  """Returns the optimizer that two functions make up."""
  return _Wrapped(initialize, next_fn)


def proximal(
  optimizer: tff.learning.optimizers.Optimizer, strength: float
) -> tff.learning.optimizers.Optimizer:
  """FedProx: draws local training back to the model that the client received.

  The loss gains strength / 2 times the squared distance from that model, the
  gradient strength times the difference. (TFF 0.87's own FedProx adds this term
  with the opposite sign, which drives clients away; so it is not used here.)

  Args:
    optimizer: The optimizer of local training.
    strength: FedProx's mu, at least 0.

  Returns:
    An optimizer for local training. It takes the weights of its first step for
    the model received.
  """
  if not strength >= 0:
    raise ValueError(
      f'The strength of the proximal term must be at least 0, but it is '
      f'{strength}.'
    )
  if strength == 0:
    return optimizer

  def initialize(specs):
    anchor = tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), specs)
    return optimizer.initialize(specs), anchor, tf.constant(True)

  def next_fn(state, weights, gradients):
    inner, anchor, is_first = state
    anchor = tf.nest.map_structure(
      lambda now, then: tf.where(is_first, now, then), weights, anchor
    )
    gradients = tf.nest.map_structure(
      lambda g, now, then: g + strength * (now - then),
      gradients,
      weights,
      anchor,
    )
    inner, weights = optimizer.next(inner, weights, gradients)
    return (inner, anchor, tf.constant(False)), weights

  return wrapped(initialize, next_fn)


def clipped(
  optimizer: tff.learning.optimizers.Optimizer, norm: float
) -> tff.learning.optimizers.Optimizer:
  """Scales gradients down whose norm, over all weights, is above a bound.

  Args:
    optimizer: The optimizer of local training.
    norm: The bound.

  Returns:
    An optimizer.
  """
  if not norm > 0:
    raise ValueError(f'The bound of the norm must be above 0, but is {norm}.')

  def next_fn(state, weights, gradients):
    shortened, _ = tf.clip_by_global_norm(tf.nest.flatten(gradients), norm)
    gradients = tf.nest.pack_sequence_as(gradients, shortened)
    return optimizer.next(state, weights, gradients)

  return wrapped(optimizer.initialize, next_fn)
