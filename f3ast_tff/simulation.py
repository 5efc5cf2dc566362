"""F3AST for a `tff.learning` model and a `ClientData`, in one call.

`build` counts the clients' examples, makes the cohorts and the learning
process, and sees to it that both step the rates alike. What comes back fits the
loops that TFF users have: `process` is a `LearningProcess`, and `participants`
maps a round to what `process.next` takes, as the `training_selection_fn` of
`tff.simulation.run_training_process` does.
"""

from collections.abc import Callable
from typing import NamedTuple, Optional, Union

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import availability as availability_lib
from f3ast_tff import cohorts as cohorts_lib
from f3ast_tff import communication
from f3ast_tff import local_training
from f3ast_tff import process as process_lib
from f3ast_tff import selection


class Simulation(NamedTuple):
  """A federated training, ready to run.

  Attributes:
    process: The learning process; its state is a `process.ServerState`.
    cohorts: Who takes part in which round.
    participants: Maps a round t = 1, 2, ... to what `process.next` takes.
  """

  process: tff.learning.templates.LearningProcess
  cohorts: cohorts_lib.Cohorts
  participants: Callable[[int], list[local_training.Participant]]


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
) -> list[local_training.Participant]:
  """Returns what the members of a cohort bring to a round.

  Args:
    client_data: Clients whose datasets are batched; client k is the k-th of
      `client_data.client_ids`, from 0.
    cohort: Who takes part, with which weights.

  Returns:
    What `process.next` takes.
  """
  return [
    local_training.Participant(
      client_data.create_tf_dataset_for_client(client_data.client_ids[k]),
      np.int32(k),
      np.float32(weight),
    )
    for k, weight in zip(*cohort)
  ]


def build(
  model: local_training.Model,
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
) -> Simulation:
  """Builds a federated training under an availability model.

  Args:
    model: A no-argument function that returns a
      `tff.learning.models.VariableModel`, or a `FunctionalModel`.
    client_data: Clients whose datasets are batched.
    availability: Who is available: a model, or the name of one of the paper's.
    clients_per_round: How many may take part: K, or what gives K_t.
    client_optimizer: The optimizer of local training.
    server_optimizer: As in `process.build_f3ast`.
    aggregator: As in `process.build_f3ast`.
    policy: How to select: `f3ast`, `proportional` (as FedAvg does), `uniform`,
      or a function of your own.
    beta: The step of the rates.
    rate_init: r(0), see `rates.initial`.
    correlation: The form of H; `auto` takes the one that fits the availability
      model.
    p: Each client's share of the data; None to count the examples, which reads
      all data once.
    seed: Decides who is available if that is given by name, and what is drawn
      in the selection.

  Returns:
    The training.
  """
  if p is None:
    sizes = num_examples(client_data)
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
  process = process_lib.build_f3ast(
    model,
    p,
    cohorts.initial_rates,
    client_optimizer=client_optimizer,
    server_optimizer=server_optimizer,
    beta=beta,
    correlation=cohorts.correlation,
    aggregator=aggregator,
  )
  return Simulation(
    process, cohorts, lambda t: participants(client_data, cohorts(t))
  )
