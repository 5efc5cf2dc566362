"""F3AST as a `tff.learning.templates.LearningProcess`.

One round, Algorithm 1 from line 5 on (line 4, who is in S_t, is `selector`):

  broadcast w -> clients train -> one sum over clients -> r(t), ServerOpt

Nothing that depends on a sum over clients is summed over clients again, so that
TFF's compiler can split a round into what clients do and what the server does
then; `execution` runs these parts.
"""

import collections
import types
from typing import Optional

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import rates
from f3ast_tff import selection
from f3ast_tff import vectors as vectors_lib
from f3ast_tff.learning import client_work
from f3ast_tff.learning import server as server_lib
from f3ast_tff.learning import vector_training


def build_process(
  training: client_work.LocalTraining,
  p: np.ndarray,
  initial_rates: np.ndarray,
  *,
  server_optimizer: Optional[tff.learning.optimizers.Optimizer] = None,
  beta: float = 0.001,
  correlation: str = rates.UNCORRELATED,
  aggregator: Optional[server_lib.Aggregator] = None,
  initial_kept: selection.Kept = types.MappingProxyType({}),
  rule: Optional[vectors_lib.Vectors] = None,
  in_files: bool = False,
) -> tff.learning.templates.LearningProcess:
  """Builds the process around a given way of local training.

  The metrics of a round are, under `selection`: `selected` (|S_t|),
  `excluded` (how many of them had no examples, or an update that is not
  finite), `excluded_clients` (1 for each of them, in a vector of all clients),
  `sum_of_weights` and `variance_bound` (H(r(t))); under `client_work` what
  local training measures; under `aggregator` what the aggregator does, if one
  is given.

  Args:
    training: How clients turn the model into contributions.
    p: Each client's share of the data; sums to 1.
    initial_rates: r(0), e.g. from `rates.initial`.
    server_optimizer: Takes Delta for a gradient; SGD with learning rate 1 by
      default, which adds Delta to the model. Adam gives F3AST+Adam.
    beta: The step of the rates.
    correlation: The form of H, `uncorrelated` or `positive`.
    aggregator: Sums the weighted updates; a plain sum by default. Factories
      that clip, compress or add noise fit here. A weighted one is given each
      update with its weight, and its mean is multiplied by the sum of the
      weights. An unweighted one is given weight times update; if it returns a
      mean, as `tff.learning.dp_aggregator` does, the server's learning rate has
      to make up for that.
    initial_kept: What the method keeps of clients before the first round.
    rule: What the method does with vectors, if `training` is of
      `vector_training`; else None. There can be no aggregator then.
    in_files: Whether the state has references to clients' vectors in their
      place; then those that a round changed are in its metrics, as
      `server.CHANGED`.

  Returns:
    A `LearningProcess` with a `server.ServerState`.
  """
  server = server_lib.build(
    training,
    p,
    initial_rates,
    server_optimizer,
    beta,
    correlation,
    aggregator,
    initial_kept,
    rule,
    in_files,
  )
  initialize, server_update, sum_updates = server
  state_type = initialize.type_signature.result.member
  weights_type = state_type.global_model_weights
  is_weighted = server_lib.is_weighted_sum(aggregator)

  @tff.tensorflow.computation(weights_type.trainable, np.float32)
  def without_weight(update, weight):
    return tf.nest.map_structure(
      lambda u: tf.math.divide_no_nan(u, tf.cast(weight, u.dtype)), update
    )

  @tff.federated_computation(
    initialize.type_signature.result,
    tff.types.FederatedType(training.client_type, tff.CLIENTS),
  )
  def next_fn(state, clients):
    sent = state.global_model_weights
    if rule:
      sent = tff.federated_zip(
        vector_training.Received(sent, state.vectors.server)
      )
    client_work_state, contributions, more_metrics = training.contribute(
      state.client_work, tff.federated_broadcast(sent), clients
    )
    # Line 9: Delta = sum over S of p_k / r_k(t) v_k.
    if sum_updates:
      weighted_updates = [contributions.update]
      if is_weighted:
        weight = contributions.tally.weight
        update = tff.federated_map(
          without_weight, (contributions.update, weight)
        )
        weighted_updates = [update, weight]
      aggregated = sum_updates.next(state.aggregator, *weighted_updates)
      update, aggregator_state = aggregated.result, aggregated.state
      tally = tff.federated_sum(contributions.tally)
      more_metrics['aggregator'] = aggregated.measurements
    else:  # One sum for all, because each sum costs milliseconds.
      update, tally = tff.federated_sum(contributions)
      aggregator_state = state.aggregator
    weights, optimizer_state, r, vectors, metrics = server_lib.step(
      server_update, state, update, tally
    )
    new_state = server_lib.ServerState(
      weights,
      r,
      client_work_state,
      aggregator_state,
      optimizer_state,
      state.kept,
      vectors,
    )
    if more_metrics:
      all_metrics = collections.OrderedDict(
        selection=metrics['selection'], client_work=metrics['client_work']
      )
      all_metrics.update(more_metrics)
      metrics = tff.federated_zip(all_metrics)
    return tff.learning.templates.LearningProcessOutput(
      tff.federated_zip(new_state), metrics
    )

  @tff.tensorflow.computation(state_type)
  def get_model_weights(state):
    return state.global_model_weights

  @tff.tensorflow.computation(state_type, weights_type)
  def set_model_weights(state, weights):
    return server_lib.ServerState(
      weights,
      state.rates,
      state.client_work,
      state.aggregator,
      state.optimizer,
      state.kept,
      state.vectors,
    )

  return tff.learning.templates.LearningProcess(
    initialize, next_fn, get_model_weights, set_model_weights
  )
