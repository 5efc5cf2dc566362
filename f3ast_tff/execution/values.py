"""Python values as lists of tensors, in the order of their TFF type."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import checks


def _elements(value: Any, type_: tff.types.StructType) -> list[Any]:
  """Returns the elements of a value of a struct type, in the type's order."""
  names = [name for name, _ in tff.structure.iter_elements(type_)]
  if isinstance(value, tff.structure.Struct):
    return [value[place] for place in range(len(names))]
  try:
    if hasattr(value, 'keys'):
      return [value[name] for name in names]
    if not isinstance(value, (list, tuple)):  # An attrs class, for example.
      return [getattr(value, str(name)) for name in names]
  except (AttributeError, KeyError) as error:
    raise TypeError(
      f'A value with the fields {", ".join(map(str, names))} was expected, but '
      f'it is {checks.describe(value)}; training.initialize() returns the '
      'state of a training of f3ast_tff, training.inputs(cohort, t) what '
      'clients train on.'
    ) from error
  return list(value)


def flatten(value: Any, type_: tff.types.Type) -> list[Any]:
  """Returns the tensors, or arrays for tensors, that a value is made of."""
  if isinstance(type_, tff.types.FederatedType):
    return flatten(value, type_.member)
  if isinstance(type_, tff.types.StructType):
    elements = zip(
      _elements(value, type_), tff.structure.iter_elements(type_)
    )
    return [
      leaf
      for element, (_, element_type) in elements
      for leaf in flatten(element, element_type)
    ]
  if isinstance(type_, tff.types.SequenceType):
    if isinstance(value, (list, tuple)):  # TFF takes lists for datasets.
      value = _dataset(value, type_.element)
    return [tf.data.experimental.to_variant(value)]
  if isinstance(value, np.ndarray) and value.dtype == type_.dtype:
    return [value]  # TensorFlow's calls take it, and faster than a tensor.
  return [tf.convert_to_tensor(value, type_.dtype)]


def _dataset(elements: Sequence[Any], type_: tff.types.Type) -> tf.data.Dataset:
  """Returns a dataset of the elements of a list."""
  # In the containers of the type; a dict may have its keys in another order.
  filled = [_filled(type_, iter(flatten(e, type_))) for e in elements]
  return tf.data.Dataset.from_generator(
    lambda: iter(filled), output_signature=_filled(type_, iter(specs(type_)))
  )


def _filled(type_: tff.types.Type, leaves: Iterator[Any]) -> Any:
  """Returns leaves in the Python containers that a type stands for."""
  filled = _struct(type_, leaves)
  if isinstance(type_, tff.types.FederatedType):
    type_ = type_.member
  return tff.types.type_to_py_container(filled, type_)


# No function inside of the other: one that calls itself is garbage that waits
# for the collector, and the last leaf, maybe the largest, with it.
def _struct(type_: tff.types.Type, leaves: Iterator[Any]) -> Any:
  """Returns leaves in TFF's structures."""
  if isinstance(type_, tff.types.FederatedType):
    return _struct(type_.member, leaves)
  if isinstance(type_, tff.types.StructType):
    return tff.structure.Struct([
      (name, _struct(element, leaves))
      for name, element in tff.structure.iter_elements(type_)
    ])
  return next(leaves)


def pack(leaves: Sequence[tf.Tensor], type_: tff.types.Type) -> Any:
  """Returns the value that tensors make up, with arrays for tensors.

  Args:
    leaves: The tensors.
    type_: The type of the value.

  Returns:
    The value. Its arrays are read-only, because they are the memory of the
    tensors: vectors of clients are too large for a copy each time.
  """
  return _filled(
    type_,
    (np.asarray(leaf) if leaf.shape.rank else leaf.numpy() for leaf in leaves),
  )


def template(type_: tff.types.Type) -> Any:
  """Returns a value whose leaves are their own places, for `fill`."""
  return _filled(type_, iter(range(len(specs(type_)))))


def fill(places: Any, leaves: Sequence[tf.Tensor]) -> Any:
  """As `pack`, with a `template` instead of a type; takes a tenth of the time.

  Args:
    places: The template.
    leaves: The tensors.

  Returns:
    The value; its containers must be those of Python.
  """
  return tf.nest.map_structure(lambda place: leaves[place].numpy(), places)


def specs(type_: tff.types.Type) -> list[tf.TensorSpec]:
  """Returns the specs of the tensors of a type."""
  if isinstance(type_, tff.types.FederatedType):
    return specs(type_.member)
  if isinstance(type_, tff.types.StructType):
    elements = tff.structure.iter_elements(type_)
    return [spec for _, element in elements for spec in specs(element)]
  if isinstance(type_, tff.types.SequenceType):
    return [tf.TensorSpec([], tf.variant)]
  return [tf.TensorSpec(type_.shape, type_.dtype)]
