"""A task of the experiments, and the training that settings make of it."""

from collections.abc import Callable, Mapping
import functools
import pathlib
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow_federated as tff

from f3ast_tff import checks
from f3ast_tff.datasets import federated
from f3ast_tff.learning import arguments
from f3ast_tff.learning import build as build_lib
from f3ast_tff.learning import client_optimizers
from f3ast_tff.learning import clients as clients_lib
from f3ast_tff.learning import examples as examples_lib
from f3ast_tff.learning import shard_training
from f3ast_tff.learning import training as training_lib
from f3ast_tff.methods import released
from f3ast_tff.models import functional
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import selector as selector_lib


class SettingsError(ValueError):
  """The settings do not fit the task."""


class Task(NamedTuple):
  """What is trained.

  Attributes:
    dataset: The data set.
    model: The model.
    load: Loads the data set again, on another machine; None if only this one
      has it.
  """

  dataset: federated.FederatedDataset
  model: functional.Model
  load: Optional[Callable[[], federated.FederatedDataset]] = None


def checked(task: Any, build_task: Callable[..., Any]) -> Task:
  """Returns the task that a function of the user's returned, if it is one."""
  for what, value, kind in (
    ('a task.Task', task, Task),
    ('a dataset from federated.FederatedDataset',
     getattr(task, 'dataset', None), federated.FederatedDataset),
    ('a model from functional.build',
     getattr(task, 'model', None), functional.Model),
  ):
    if not isinstance(value, kind):
      raise SettingsError(
        f'The function {checks.name_of(build_task)} must return {what}, but it '
        f'is {checks.describe(value)}.'
      )
  return task


def _client_optimizer(
  config: config_lib.Config, losses_of_training: bool
) -> tff.learning.optimizers.Optimizer:
  optimizer = client_optimizers.proximal(
    tff.learning.optimizers.build_sgdm(config.client_learning_rate),
    config.proximal,
  )
  if losses_of_training:
    optimizer = client_optimizers.clipped(optimizer, released.CLIP_NORM)
  return optimizer


def _server_optimizer(
  config: config_lib.Config,
) -> tff.learning.optimizers.Optimizer:
  optimizers = tff.learning.optimizers
  rate, epsilon = config.server_learning_rate, config.server_epsilon
  # The decay rates are those of Reddi et al. (2020): 0.9, and 0.999.
  build_one = {
    'sgd': lambda: optimizers.build_sgdm(rate),
    'momentum': lambda: optimizers.build_sgdm(rate, momentum=0.9),
    'adam': lambda: optimizers.build_adam(rate, epsilon=epsilon),
    'yogi': lambda: optimizers.build_yogi(
      rate, epsilon=epsilon, initial_preconditioner_value=0.0
    ),
    'adagrad': lambda: optimizers.build_adagrad(
      rate, epsilon=epsilon, initial_preconditioner_value=0.0
    ),
  }
  return build_one[config.server_optimizer or 'sgd']()


def build(
  config: config_lib.Config,
  task: Task,
  vectors_folder: Optional[pathlib.Path] = None,
) -> training_lib.Training:
  """Builds the training of a run.

  Args:
    config: The settings, with nothing left open.
    task: What is trained.
    vectors_folder: Where files of clients' vectors go; None for memory.

  Returns:
    The training.

  Raises:
    SettingsError: If the settings do not fit the task.
  """
  dataset = task.dataset
  try:
    selector = selector_lib.build(
      config,
      dataset.num_examples,
      dataset.num_predictions,
      lambda: dataset.label_shares,
    )
    clients = clients_lib.ClientArrays(
      dataset.train,
      config.batch_size,
      config.local_epochs,
      config.local_steps,
      augment=dataset.augment,
      as_tested=dataset.as_tested,
    )
    selector_lib.check_anybody(selector, config.rounds)
  except ValueError as error:
    raise SettingsError(str(error)) from error
  losses_of_training = (
    config.selection == 'power_of_choice'
    and released.parse(config.protocol).losses_of_training
  )
  try:
    return build_lib.build_training(
      task.model,
      clients,
      selector,
      client_optimizer=_client_optimizer(config, losses_of_training),
      server_optimizer=(
        None
        if config_lib.needs_sgd(config.method or 'none')
        else _server_optimizer(config)
      ),
      num_shards=config.parallel_clients,
      losses_of_training=losses_of_training,
      vectors_folder=vectors_folder,
    )
  except arguments.ArgumentError as error:
    raise SettingsError(str(error)) from error


class ClientExamples(NamedTuple):
  """The training examples of all clients, in a form that is quick to send.

  Attributes:
    fields: Those of all clients behind each other.
    sizes: How many each one has.
  """

  fields: examples_lib.Examples
  sizes: np.ndarray


def client_examples(dataset: federated.FederatedDataset) -> ClientExamples:
  """Returns the training examples of all clients."""
  return ClientExamples(
    examples_lib.concatenated(dataset.train), dataset.num_examples
  )


def load_again(
  load: Optional[Callable[[], federated.FederatedDataset]], fingerprint: str
) -> ClientExamples:
  """Loads a data set on another machine than the one that runs the rounds.

  Args:
    load: Loads it; None if only the one that runs the rounds has it.
    fingerprint: What `federated.fingerprint` says of the one that is meant.

  Returns:
    The training examples.

  Raises:
    ValueError: If what this machine has is another one.
  """
  if load is None:
    raise ValueError('the task does not say how to load its data set again')
  dataset = load()
  found = federated.fingerprint(dataset)
  if found != fingerprint:
    raise ValueError(f'the data set there is another one ({found})')
  return client_examples(dataset)


def fillers(
  makers: Mapping[str, training_lib.MakeShards], data: ClientExamples
) -> dict[str, Callable[[Any], Any]]:
  """Returns what fills shards on a machine.

  Args:
    makers: As in `Training`.
    data: The examples.

  Returns:
    For each of `makers`, a function from a part to the shard.
  """
  train = examples_lib.split(data.fields, data.sizes)
  examples = functools.cache(lambda: shard_training.as_tensors(data.fields))
  return {name: make(train, examples).fill for name, make in makers.items()}
