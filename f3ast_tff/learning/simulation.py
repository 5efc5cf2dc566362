"""F3AST for a `tff.learning` model and a `ClientData`, in one call.

`build` reads the clients, makes the cohorts and the learning process, and sees
to it that both step the rates alike. What comes back fits the loops that TFF
users have: `process` is a `LearningProcess`, and `participants` maps a round to
what `process.next` takes, as the `training_selection_fn` of
`tff.simulation.run_training_process` does.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Optional, Union

from absl import logging
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import availability as availability_lib
from f3ast_tff import cohorts as cohorts_lib
from f3ast_tff import communication
from f3ast_tff import selection
from f3ast_tff.learning import client_arrays as in_memory_lib
from f3ast_tff.learning import client_work
from f3ast_tff.learning import process as process_lib
from f3ast_tff.learning import shard_training
from f3ast_tff.learning import shards as shards_lib
from f3ast_tff.runs import config as config_lib


class Simulation(NamedTuple):
  """A federated training, ready to run.

  Attributes:
    process: The learning process; its state is a `process.ServerState`.
    cohorts: Who takes part in which round.
    bring: Maps a cohort and a round to what `process.next` takes.
  """

  process: tff.learning.templates.LearningProcess
  cohorts: cohorts_lib.Cohorts
  bring: Callable[[selection.Cohort, int], list[Any]]

  def participants(self, round_num: int) -> list[Any]:
    """Returns what `process.next` takes in round t = 1, 2, ..."""
    return self.bring(self.cohorts(round_num), round_num)


def num_examples(client_data: tff.simulation.datasets.ClientData) -> np.ndarray:
  """Returns how many examples each client's batches hold.

  Args:
    client_data: Clients whose datasets are batched.

  Returns:
    The numbers, in the order of `client_data.client_ids`.
  """

  def count(client_id: str) -> int:
    dataset = client_data.create_tf_dataset_for_client(client_id)
    return sum(len(tf.nest.flatten(batch)[0]) for batch in dataset)

  return np.array([count(client_id) for client_id in client_data.client_ids])


def participants(
  client_data: tff.simulation.datasets.ClientData, cohort: selection.Cohort
) -> list[client_work.Participant]:
  """Returns what the members of a cohort bring to a round.

  Args:
    client_data: Clients whose datasets are batched; client k is the k-th of
      `client_data.client_ids`, from 0.
    cohort: Who takes part, with which weights.

  Returns:
    What `process.next` takes.
  """
  return [
    client_work.Participant(
      client_data.create_tf_dataset_for_client(client_data.client_ids[k]),
      np.int32(k),
      np.float32(weight),
    )
    for k, weight in zip(*cohort)
  ]


def build(
  model: client_work.Model,
  client_data: tff.simulation.datasets.ClientData,
  *,
  availability: Union[str, availability_lib.Availability],
  clients_per_round: Union[int, communication.Constraint],
  client_optimizer: tff.learning.optimizers.Optimizer,
  server_optimizer: Optional[tff.learning.optimizers.Optimizer] = None,
  aggregator: Optional[process_lib.Aggregator] = None,
  policy: Union[str, selection.Policy] = 'f3ast',
  beta: float = 0.001,
  rate_init: str = 'kp',
  correlation: str = 'auto',
  p: Optional[np.ndarray] = None,
  seed: int = 0,
  in_memory: Optional[bool] = None,
  num_shards: Optional[int] = None,
) -> Simulation:
  """Builds a federated training under an availability model.

  Where it can, it reads all clients into memory once and trains on arrays,
  which is much faster (docs/performance.md); the metrics of local training are
  then its loss and the number of examples. Else clients train on their
  datasets, by TFF's own client work, and a line of the log says why.

  Args:
    model: A no-argument function that returns a
      `tff.learning.models.VariableModel`, or a `FunctionalModel`.
    client_data: Clients whose datasets are batched.
    availability: Who is available: a model, or the name of one of the paper's.
    clients_per_round: How many may take part: K, or what gives K_t.
    client_optimizer: The optimizer of local training.
    server_optimizer: As in `process.build_f3ast`.
    aggregator: As in `process.build_f3ast`.
    policy: How to select: `f3ast`, `proportional` (as FedAvg does),
      `proportional_with_replacement`, `uniform`, or a function of your own.
    beta: The step of the rates.
    rate_init: r(0), see `rates.initial`.
    correlation: The form of H; `auto` takes the one that fits the availability
      model.
    p: Each client's share of the data; None to count the examples.
    seed: Decides who is available if that is given by name, what is drawn in
      the selection, and the order of examples where the datasets shuffle them.
    in_memory: Whether clients train on arrays; None for where that can be done.
    num_shards: How many parts a cohort on arrays has, which train side by side;
      None for as many as there are cores. Sums are rounded differently with
      another number.

  Returns:
    The training.

  Raises:
    ValueError: If `in_memory` is true and it cannot be done, for example.
  """
  arrays = None
  if in_memory is not False:
    try:
      arrays = _arrays(model, client_data)
    except in_memory_lib.UnfitError as error:
      why = f'Clients cannot train on arrays: {error}'
      if in_memory:
        raise ValueError(f'{why}.') from error
      logging.warning('%s. They train on their datasets, slower.', why)
  if p is None:
    sizes = num_examples(client_data) if arrays is None else arrays.num_examples
    p = sizes / sizes.sum()
  if isinstance(availability, str):
    models = availability_lib.MODELS
    if availability not in models:
      raise ValueError(
        f'availability must be one of {", ".join(models)} or a model, but it '
        f'is {availability!r}.'
      )
    availability = models[availability](p, seed)
  cohorts = cohorts_lib.Cohorts(
    p,
    availability,
    clients_per_round,
    policy=policy,
    beta=beta,
    rate_init=rate_init,
    correlation=correlation,
    seed=seed,
  )
  of_server: dict[str, Any] = {
    'server_optimizer': server_optimizer,
    'beta': beta,
    'correlation': cohorts.correlation,
    'aggregator': aggregator,
  }
  if arrays is None:
    process = process_lib.build_f3ast(
      model,
      p,
      cohorts.initial_rates,
      client_optimizer=client_optimizer,
      **of_server,
    )
    return Simulation(
      process, cohorts, lambda cohort, _: participants(client_data, cohort)
    )
  most_clients = min(cohorts.constraint.maximum, p.size)
  shards_of = shards_lib.ClientShards(
    arrays.clients.train,
    shard_training.resident(arrays.clients.train),
    batch_size=arrays.clients.batch_size,
    # An aggregator has to see each client's update, so that each is a shard.
    num_shards=most_clients
    if aggregator is not None
    else num_shards or config_lib.num_cores(),
    seed=seed,
    is_shuffled=arrays.clients.is_shuffled,
    filled_up_to=shards_lib.capacity(
      arrays.num_examples,
      arrays.clients.batch_size,
      1,
      most_clients if aggregator is None else 1,
    )
    if arrays.is_for_xla
    else None,
  )

  def bring(cohort: selection.Cohort, round_num: int) -> list[Any]:
    shards = shards_of(cohort, round_num)
    if aggregator is None:
      return shards
    return [s for s in shards if s.clients[0, 0] != shards_lib.NOBODY]

  training = shard_training.build(
    arrays.model,
    client_optimizer,
    p.size,
    arrays.layout,
    arrays.clients.batch_size,
    arrays.is_for_xla,
  )
  process = process_lib.compose(
    training, p, cohorts.initial_rates, **of_server
  )
  return Simulation(process, cohorts, bring)


class _Arrays(NamedTuple):
  """Model and clients that train on arrays.

  Attributes:
    model: The model.
    clients: The clients.
    layout: The layout of their examples.
    is_for_xla: Whether training is compiled with XLA.
  """

  model: tff.learning.models.FunctionalModel
  clients: in_memory_lib.Clients
  layout: shard_training.Layout
  is_for_xla: bool

  @property
  def num_examples(self) -> np.ndarray:
    return np.array([len(examples['y']) for examples in self.clients.train])


def _arrays(
  model: client_work.Model,
  client_data: tff.simulation.datasets.ClientData,
) -> _Arrays:
  """Returns model and clients in the form in which they train faster."""
  functional = in_memory_lib.functional(model)
  clients = in_memory_lib.read(client_data)
  layout = shard_training.layout_of(clients.train[0])
  functional = in_memory_lib.for_batches_that_are_filled_up(functional, layout)
  return _Arrays(
    functional,
    clients,
    layout,
    in_memory_lib.is_for_xla(functional, layout),
  )
