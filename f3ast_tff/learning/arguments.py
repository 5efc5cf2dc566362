"""What `build_training` is given, checked before anything is built."""

from collections.abc import Mapping
import inspect
from typing import Any

import psutil
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import checks
from f3ast_tff import selector as selector_lib
from f3ast_tff import vectors as vectors_lib
from f3ast_tff.learning import client_work
from f3ast_tff.learning import clients as clients_lib
from f3ast_tff.learning import server as server_lib
from f3ast_tff.learning import shard_training
from f3ast_tff.models import functional


class ArgumentError(ValueError):
  """Something given to `build_training` is not what it should be."""


def check_optimizer(name: str, optimizer: Any) -> None:
  """Raises an `ArgumentError` unless it is an optimizer of TFF."""
  if not isinstance(optimizer, tff.learning.optimizers.Optimizer):
    raise ArgumentError(
      f'{name} must be an optimizer of TFF and not of Keras, such as '
      'tff.learning.optimizers.build_sgdm(0.1), but it is '
      f'{checks.describe(optimizer)}.'
    )


def check_aggregator(aggregator: Any) -> None:
  """Raises an `ArgumentError` unless it is an aggregation factory of TFF."""
  if not isinstance(aggregator, server_lib.AGGREGATORS):
    raise ArgumentError(
      'aggregator must be a factory of TFF, such as '
      'tff.learning.robust_aggregator(), but it is '
      f'{checks.describe(aggregator)}.'
    )


def check_clients(clients: Any, selector: Any) -> None:
  """Raises an `ArgumentError` unless a selector is one for these clients."""
  if not isinstance(
    clients, (clients_lib.ClientArrays, clients_lib.ClientDatasets)
  ):
    raise ArgumentError(
      'clients must be ClientArrays or come from read_clients(client_data), '
      f'but it is {checks.describe(clients)}.'
    )
  if not isinstance(selector, selector_lib.Selector):
    raise ArgumentError(
      'selector must come from build_selector(clients.p, ...), but it is '
      f'{checks.describe(selector)}.'
    )
  if selector.p.size != clients.num_clients:
    raise ArgumentError(
      f'The selector is for {selector.p.size} clients, the length of its p, '
      f'but there are {clients.num_clients}; give build_selector clients.p.'
    )


def check_model(model: Any) -> None:
  """Raises an `ArgumentError` unless it is a model or what may return one."""
  if isinstance(model, (functional.Model, tff.learning.models.FunctionalModel)):
    return
  hint = ''
  is_keras = isinstance(model, tf.keras.Model)
  if is_keras or isinstance(model, tff.learning.models.VariableModel):
    hint = '; give the function that makes it, and do not call it'
  elif callable(model) and not _takes_nothing(model):
    hint = ', which takes arguments'
  elif callable(model):
    return
  raise ArgumentError(
    'model must be a FunctionalModel, or a function without arguments that '
    'returns tff.learning.models.from_keras_model(...) or another '
    f'VariableModel, but it is {checks.describe(model)}{hint}.'
  )


def _takes_nothing(function: Any) -> bool:
  try:
    inspect.signature(function).bind()
  except TypeError:
    return False
  except ValueError:  # What is not of Python may have no signature.
    return True
  return True


def checked(
  model: client_work.TffModel, spec: Any = None
) -> client_work.TffModel:
  """Returns a model whose result is checked, if it is a function.

  Args:
    model: A `FunctionalModel`, or a function of the user's.
    spec: The spec of the clients' batches; None if it is not to be compared.

  Returns:
    The model, or a function that returns it.

  Raises:
    ArgumentError: If the model is not for such batches.
  """
  if isinstance(model, tff.learning.models.FunctionalModel):
    _check_spec(model.input_spec, spec)
    return model

  def checked_model() -> tff.learning.models.VariableModel:
    made: Any = model()
    if not isinstance(made, tff.learning.models.VariableModel):
      raise ArgumentError(
        f'The function {checks.name_of(model)} must return a VariableModel, '
        'such as tff.learning.models.from_keras_model(...), but it returned '
        f'{checks.describe(made)}.'
      )
    _check_spec(made.input_spec, spec)
    return made

  return checked_model


def check_layout(
  model: tff.learning.models.FunctionalModel, layout: shard_training.Layout
) -> None:
  """Raises an `ArgumentError` unless a model is for examples of a layout."""
  fields = {
    name: tf.TensorSpec([None, *shape], dtype) for name, shape, dtype in layout
  }
  _check_spec(model.input_spec, fields, any_integer=True)


def _parts(spec: Any) -> list[Any]:
  if isinstance(spec, Mapping) and set(spec) == {'x', 'y'}:
    return [*tf.nest.flatten(spec['x']), *tf.nest.flatten(spec['y'])]
  return tf.nest.flatten(spec)


def _check_spec(
  of_model: Any, of_clients: Any, any_integer: bool = False
) -> None:
  """Raises an `ArgumentError` unless a model takes what clients have.

  Args:
    of_model: Its `input_spec`.
    of_clients: The spec of a batch of theirs; None if it is not known.
    any_integer: Whether integers may be of another size.
  """
  if of_clients is None:
    return
  wanted, given = _parts(of_model), _parts(of_clients)
  if len(wanted) != len(given):
    raise ArgumentError(
      f"The model's input_spec has {len(wanted)} tensors, but a batch of the "
      f'clients has {len(given)}; make them alike.'
    )
  for want, have in zip(wanted, given):
    if not all(isinstance(spec, tf.TensorSpec) for spec in (want, have)):
      continue  # Ragged or sparse: TensorFlow compares these.
    is_type = want.dtype == have.dtype or (
      any_integer and want.dtype.is_integer and have.dtype.is_integer
    )
    if not (is_type and want.shape.is_compatible_with(have.shape)):
      raise ArgumentError(
        f"The model's input_spec has {want.dtype.name} of shape {want.shape}, "
        f'but a batch of the clients has {have.dtype.name} of shape '
        f'{have.shape}; give the model the spec of the batches, '
        'client_data.element_type_structure.'
      )


def check_vectors(
  rule: vectors_lib.Vectors, server_optimizer: Any, aggregator: Any
) -> None:
  """Raises unless a method that keeps vectors can be trained like that."""
  if aggregator is not None:
    raise ArgumentError(
      'A method that keeps a vector per client needs plain sums, so that it '
      'takes no aggregator; leave that out, or take another method.'
    )
  if rule.needs_sgd and server_optimizer is not None:
    raise ArgumentError(
      'The step of this method is no sum of updates, so that it takes no '
      'server_optimizer; leave that out, or take another method.'
    )


def check_memory(num_clients: int, size: int) -> None:
  """Raises unless a vector per client fits into memory.

  Args:
    num_clients: N.
    size: How many numbers a vector has.
  """
  needed = vectors_lib.TABLES_IN_MEMORY * 4 * num_clients * size
  free = psutil.virtual_memory().available
  if needed > free:
    raise ArgumentError(
      f'The method keeps a vector of {size:,} numbers for each of '
      f'{num_clients:,} clients, for which {needed / 2**30:,.1f} GiB of memory '
      f'are needed and {free / 2**30:,.1f} are free; keep them in files '
      '(--vectors_in=files, or build_training(..., vectors_folder=...)).'
    )
