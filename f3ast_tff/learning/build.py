"""Builds a training from a model, clients and a selector."""

from collections.abc import Callable
import dataclasses
import functools
import os
import pathlib
from typing import Any, NamedTuple, Optional, Union

from absl import logging
import numpy as np
import tensorflow_federated as tff

from f3ast_tff import checks
from f3ast_tff import selection
from f3ast_tff import selector as selector_lib
from f3ast_tff import vector_files
from f3ast_tff.learning import arguments
from f3ast_tff.learning import client_losses
from f3ast_tff.learning import client_work
from f3ast_tff.learning import clients as clients_lib
from f3ast_tff.learning import examples as examples_lib
from f3ast_tff.learning import loss_shards
from f3ast_tff.learning import model_conversion
from f3ast_tff.learning import process as process_lib
from f3ast_tff.learning import server as server_lib
from f3ast_tff.learning import shard_training
from f3ast_tff.learning import shards as shards_lib
from f3ast_tff.learning import training as training_lib
from f3ast_tff.learning import vector_training
from f3ast_tff.models import functional

Model = Union[functional.Model, client_work.TffModel]
Clients = Union[clients_lib.ClientArrays, clients_lib.ClientDatasets]


class _ArrayModel(NamedTuple):
  """A model that trains on shards.

  Attributes:
    functional: The model as a function of its weights.
    xla: Whether training is compiled with XLA.
    with_metrics: The model with its per-example metrics, if it has any.
  """

  functional: tff.learning.models.FunctionalModel
  xla: bool
  with_metrics: Optional[functional.Model] = None


def _array_model(model: Model, layout: shard_training.Layout) -> _ArrayModel:
  if isinstance(model, functional.Model):
    arguments.check_layout(model.functional, layout)
    return _ArrayModel(model.functional, model.xla, model)
  converted = model_conversion.functional(arguments.checked(model))
  arguments.check_layout(converted, layout)
  converted = model_conversion.for_batches_that_are_filled_up(
    converted, layout
  )
  return _ArrayModel(converted, model_conversion.is_for_xla(converted, layout))


def build_training(
  model: Model,
  clients: Clients,
  selector: selector_lib.Selector,
  *,
  client_optimizer: tff.learning.optimizers.Optimizer,
  server_optimizer: Optional[tff.learning.optimizers.Optimizer] = None,
  aggregator: Optional[server_lib.Aggregator] = None,
  num_shards: Optional[int] = None,
  losses_of_training: bool = False,
  vectors_folder: Optional[Union[str, os.PathLike[str]]] = None,
) -> training_lib.Training:
  """Builds a federated training.

  On arrays it is much faster (docs/performance.md); the metrics of local
  training are then its loss and the number of examples. Clients with datasets
  train on arrays where they and the model can; else by TFF's own client work,
  and a line of the log says why.

  Args:
    model: A no-argument function that returns a
      `tff.learning.models.VariableModel`, a `FunctionalModel`, or a
      `models.functional.Model`.
    clients: What clients train on.
    selector: Who takes part in which round.
    client_optimizer: The optimizer of local training.
    server_optimizer: As in `process.build_process`.
    aggregator: As in `process.build_process`.
    num_shards: In how many parts a cohort is summed, which train side by side;
      None for as many as there are cores. Sums are rounded differently with
      another number.
    losses_of_training: Whether the losses that a policy queries are those
      during local training (`methods.released`), for arrays only.
    vectors_folder: Where files of clients' vectors go, if the method keeps
      such; None to keep all in the state. Old versions stay in the folder until
      `training.files.forget(round_num)` says that no earlier state is needed.

  Returns:
    The training.

  Raises:
    ValueError: If the model cannot be trained on `ClientArrays`, or what is
      given does not fit together.
  """
  arguments.check_model(model)
  arguments.check_clients(clients, selector)
  arguments.check_optimizer('client_optimizer', client_optimizer)
  if server_optimizer is not None:
    arguments.check_optimizer('server_optimizer', server_optimizer)
  if aggregator is not None:
    arguments.check_aggregator(aggregator)
  if num_shards is None:
    num_shards = len(os.sched_getaffinity(0))
  elif not checks.is_whole(num_shards, 1):
    raise ValueError(
      'num_shards must be a whole number >= 1 or None, but it is '
      f'{checks.describe(num_shards)}.'
    )
  if selector.method.vectors:
    arguments.check_vectors(
      selector.method.vectors, server_optimizer, aggregator
    )
  compose = functools.partial(
    process_lib.build_process,
    p=selector.p,
    initial_rates=selector.initial_rates,
    server_optimizer=server_optimizer,
    beta=selector.beta,
    correlation=selector.correlation,
    aggregator=aggregator,
    initial_kept=selector.initial_kept,
    rule=selector.method.vectors,
    in_files=vectors_folder is not None,
  )
  on_arrays = functools.partial(
    _on_arrays,
    model,
    selector=selector,
    client_optimizer=client_optimizer,
    compose=compose,
    num_shards=num_shards,
    has_aggregator=aggregator is not None,
    losses_of_training=losses_of_training,
    vectors_folder=vectors_folder,
  )
  if isinstance(clients, clients_lib.ClientArrays):
    return on_arrays(clients)
  why_not = clients.why_not
  if clients.arrays is not None:
    try:
      return on_arrays(clients.arrays)
    except model_conversion.UnfitError as error:
      why_not = str(error)
  if selector.method.vectors:
    raise ValueError(
      'A method that keeps vectors of clients trains on arrays only, but '
      f'{why_not or "these clients have none"}.'
    )
  if clients.arrays is not None and clients.arrays.steps:
    raise clients_lib.no_steps(why_not)
  if why_not:
    logging.warning(
      'Clients cannot train on arrays: %s. They train on their datasets, '
      'slower.',
      why_not,
    )
  return _on_datasets(
    model, clients, selector, client_optimizer, compose, num_shards
  )


def _on_datasets(
  model: Model,
  clients: clients_lib.ClientDatasets,
  selector: selector_lib.Selector,
  client_optimizer: tff.learning.optimizers.Optimizer,
  compose: Callable[..., tff.learning.templates.LearningProcess],
  num_shards: int,
) -> training_lib.Training:
  """Returns a training by TFF's own client work."""
  if isinstance(model, functional.Model):
    model = model.functional
  model = arguments.checked(model, clients.client_data.element_type_structure)
  num_clients = selector.p.size
  local = client_work.on_datasets(model, client_optimizer, num_clients)
  process = compose(local)
  losses = None
  if selector.needs_losses:

    def parts(queried: np.ndarray, round_num: int) -> list[Any]:
      cohort = selection.Cohort(queried, np.zeros(queried.size))
      return clients.parts(cohort, round_num)

    computation = client_losses.on_datasets(
      model, num_clients, local.client_type
    )
    losses = training_lib.Losses(
      _of_state(process, computation), parts, clients.fill
    )
  return training_lib.Training(selector, process, clients, num_shards, losses)


def _on_arrays(
  model: Model,
  clients: clients_lib.ClientArrays,
  selector: selector_lib.Selector,
  client_optimizer: tff.learning.optimizers.Optimizer,
  compose: Callable[..., tff.learning.templates.LearningProcess],
  num_shards: int,
  has_aggregator: bool,
  losses_of_training: bool,
  vectors_folder: Optional[Union[str, os.PathLike[str]]],
) -> training_lib.Training:
  """Returns a training on shards."""

  @functools.cache
  def examples():
    return shard_training.as_tensors(examples_lib.concatenated(clients.train))

  make_shards = functools.partial(
    shards_lib.ClientShards,
    batch_size=clients.batch_size,
    epochs=clients.epochs,
    steps=clients.steps,
    # An aggregator has to see each client's update, so that each is a shard.
    num_shards=None if has_aggregator else num_shards,
    seed=selector.seed,
    augment=clients.augment,
    is_shuffled=clients.is_shuffled,
  )
  some_examples = make_shards(clients.train, examples).some_examples
  layout = shard_training.layout_of(some_examples)
  array_model = _array_model(model, layout)
  if array_model.xla:
    size = shards_lib.capacity(
      clients.num_examples,
      clients.batch_size,
      clients.epochs,
      1 if has_aggregator else selector.max_clients,
      clients.steps,
    )
    make_shards = functools.partial(make_shards, filled_up_to=size)
  cohort_data = make_shards(clients.train, examples)
  num_clients = selector.p.size
  build_local = shard_training.build
  files = None
  if selector.method.vectors:
    first = _first_vector(
      array_model.functional, selector.method.vectors.begins_with_model
    )
    if vectors_folder is None:
      arguments.check_memory(num_clients, first.size)
    else:
      files = vector_files.VectorFiles(pathlib.Path(vectors_folder), first)
    build_local = functools.partial(
      vector_training.build,
      rule=selector.method.vectors,
      num_slots=min(num_clients, selector.max_selected),
    )
  process = compose(
    build_local(
      array_model.functional,
      client_optimizer,
      num_clients,
      layout,
      clients.batch_size,
      xla=array_model.xla,
    )
  )
  training = training_lib.Training(
    selector,
    process,
    cohort_data,
    num_shards,
    makers={'train': make_shards},
    files=files,
  )
  if not selector.needs_losses:
    return training
  if array_model.with_metrics is None or losses_of_training:
    computation = client_losses.on_training_shards(
      array_model.functional,
      client_optimizer,
      num_clients,
      layout,
      clients.batch_size,
      losses_of_training,
      array_model.xla,
    )
    make_queried: training_lib.MakeShards = make_shards
    queried: Any = cohort_data

    def parts(some: np.ndarray, round_num: int) -> list[Any]:
      # What they would train on; the weights make no difference.
      cohort = selection.Cohort(some, np.zeros(some.size))
      return cohort_data.parts(cohort, round_num)

  else:
    computation = client_losses.on_shards(
      array_model.with_metrics, num_clients, layout
    )
    make_queried = _make_loss_shards(
      array_model.with_metrics, clients, selector, num_shards
    )
    queried = make_queried(clients.train, examples)
    parts = queried.parts
  return dataclasses.replace(
    training,
    losses=training_lib.Losses(
      _of_state(process, computation), parts, queried.fill
    ),
    makers={**training.makers, 'losses': make_queried},
  )


def _first_vector(
  model: tff.learning.models.FunctionalModel, is_model: bool
) -> np.ndarray:
  """Returns what a client's vector is at first: the model, or zeros."""
  trainable, _ = model.initial_weights
  weights = [np.ravel(w).astype(np.float32) for w in trainable]
  first = np.concatenate(weights)
  return first if is_model else np.zeros_like(first)


def _of_state(
  process: tff.learning.templates.LearningProcess,
  losses: tff.framework.ConcreteComputation,
) -> tff.framework.ConcreteComputation:
  """Returns a computation of model weights as one of the server's state."""

  @tff.federated_computation(
    process.next.type_signature.parameter[0],
    losses.type_signature.parameter[1],
  )
  def losses_of_state(state, clients):
    weights = tff.federated_map(process.get_model_weights, state)
    return state, losses(weights, clients)

  return losses_of_state


def _make_loss_shards(
  model: functional.Model,
  clients: clients_lib.ClientArrays,
  selector: selector_lib.Selector,
  num_shards: int,
) -> training_lib.MakeShards:
  """Returns what makes the shards of clients' whole training sets."""
  as_tested, lengths, filled_up_to = clients.as_tested, None, None
  if as_tested is None and clients.augment is not None:
    as_tested = dict
  if model.length is not None and as_tested is None:
    lengths = np.concatenate([
      model.length(examples['x']).numpy() for examples in clients.train
    ])
  if model.xla:
    size = shards_lib.capacity(
      clients.num_examples,
      client_losses.BATCH_SIZE,
      1,
      selector.num_candidates,
    )
    filled_up_to = -(-size.batches // num_shards)
  return functools.partial(
    loss_shards.LossShards,
    batch_size=client_losses.BATCH_SIZE,
    num_shards=num_shards,
    as_tested=as_tested,
    lengths=lengths,
    filled_up_to=filled_up_to,
  )
