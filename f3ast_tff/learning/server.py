"""The server of the process: its state, and lines 5 and 10 of Algorithm 1.

The state carries r, and that r is the one source of truth: the selection reads
it from the state, the server's step moves it, the checkpoint saves it.
"""

import collections
import typing
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from f3ast_tff import rates
from f3ast_tff import selection
from f3ast_tff import selector as selector_lib
from f3ast_tff import vector_files
from f3ast_tff import vectors as vectors_lib
from f3ast_tff.learning import client_work
from f3ast_tff.learning import vector_training

Aggregator = Union[
  tff.aggregators.UnweightedAggregationFactory,
  tff.aggregators.WeightedAggregationFactory,
]
AGGREGATORS = typing.get_args(Aggregator)
CHANGED = 'changed_vectors'


class ServerState(NamedTuple):
  """The state of the process.

  Attributes:
    global_model_weights: The model w^t as `tff.learning.models.ModelWeights`.
    rates: r(t), float64 of shape [N].
    client_work: The state of local training; usually empty.
    aggregator: The state of the aggregator; empty for a plain sum.
    optimizer: The state of the server optimizer.
    kept: What the method keeps of clients, float64 arrays by name; empty for
      most. The selection makes the new ones (`selection.Method.next`), and
      `Training.next` puts them here.
    vectors: `MethodVectors` if the method keeps vectors, else empty.
  """

  global_model_weights: Any
  rates: Any
  client_work: Any
  aggregator: Any
  optimizer: Any
  kept: Any = ()
  vectors: Any = ()


class MethodVectors(NamedTuple):
  """The vectors of a method, see `vectors`.

  Attributes:
    server: The server's, as the trainable weights of the model.
    clients: float32 [N, size of the model]; or, if they are in files, the
      references to these (`vector_files`), which who runs the rounds replaces.
  """

  server: Any
  clients: Any


class Server(NamedTuple):
  """What the server does.

  Attributes:
    initialize: The computation of the first state.
    update: The TensorFlow computation of its step: (weights, optimizer's state,
      r(t-1), kept, vectors, update, tally) to (weights, optimizer's state,
      r(t), vectors, metrics).
    sum_updates: The aggregation process, None for a plain sum.
  """

  initialize: tff.framework.ConcreteComputation
  update: tff.framework.ConcreteComputation
  sum_updates: Optional[tff.templates.AggregationProcess]


def is_weighted_sum(aggregator: Optional[Aggregator]) -> bool:
  """Whether an aggregator is given updates and weights apart."""
  return isinstance(aggregator, tff.aggregators.WeightedAggregationFactory)


def _initialize(
  training: client_work.LocalTraining,
  initial_rates: np.ndarray,
  server_optimizer: tff.learning.optimizers.Optimizer,
  sum_updates: Optional[tff.templates.AggregationProcess],
  initial_kept: selection.Kept,
  rule: Optional[vectors_lib.Vectors],
  in_files: bool,
) -> tff.framework.ConcreteComputation:
  """Returns the computation of the first state."""
  weights_type = training.initial_weights.type_signature.result

  @tff.tensorflow.computation
  def initial_kept_fn():
    return collections.OrderedDict(
      (name, tf.constant(value, tf.float64))
      for name, value in initial_kept.items()
    )

  @tff.tensorflow.computation(weights_type)
  def initial_vectors(weights):
    server = tf.nest.map_structure(tf.zeros_like, weights.trainable)
    if in_files:
      references = vector_files.no_references(initial_rates.size)
      return MethodVectors(server, tf.constant(references))
    one = vector_training.flat(weights.trainable)
    rows = tf.repeat(one[tf.newaxis], initial_rates.size, 0)
    return MethodVectors(
      server, rows if rule and rule.begins_with_model else tf.zeros_like(rows)
    )

  @tff.tensorflow.computation
  def initial_rates_fn():
    return tf.constant(initial_rates)

  @tff.tensorflow.computation(weights_type)
  def initial_optimizer_state(weights):
    return server_optimizer.initialize(
      tf.nest.map_structure(tf.TensorSpec.from_tensor, weights.trainable)
    )

  @tff.federated_computation
  def initialize():
    weights = tff.federated_eval(training.initial_weights, tff.SERVER)
    return tff.federated_zip(
      ServerState(
        global_model_weights=weights,
        rates=tff.federated_eval(initial_rates_fn, tff.SERVER),
        client_work=training.initialize(),
        aggregator=(
          sum_updates.initialize()
          if sum_updates
          else tff.federated_value((), tff.SERVER)
        ),
        optimizer=tff.federated_map(initial_optimizer_state, weights),
        kept=(
          tff.federated_eval(initial_kept_fn, tff.SERVER)
          if initial_kept
          else tff.federated_value((), tff.SERVER)
        ),
        vectors=(
          tff.federated_map(initial_vectors, weights)
          if rule
          else tff.federated_value((), tff.SERVER)
        ),
      )
    )

  return initialize


def _server_update(
  training: client_work.LocalTraining,
  state_type: tff.types.StructType,
  server_optimizer: tff.learning.optimizers.Optimizer,
  beta: float,
  numerator: np.ndarray,
  is_weighted: bool,
  rule: Optional[vectors_lib.Vectors],
  in_files: bool,
) -> tff.framework.ConcreteComputation:
  """Returns lines 5 and 10 of Algorithm 1; `step` calls them.

  Args:
    training: What clients do.
    state_type: The type of `ServerState`.
    server_optimizer: ServerOpt.
    beta: The step of the rates.
    numerator: The numerators of the terms of H, for the metrics.
    is_weighted: Whether updates come as their weighted mean, not as a sum.
    rule: What is done with vectors; None if there are none.
    in_files: Whether clients' vectors are in files.
  """
  weights_type = state_type.global_model_weights
  has_step = selector_lib.STEP in tff.structure.name_list(state_type.kept)

  @tff.tensorflow.computation(
    weights_type,
    state_type.optimizer,
    state_type.rates,
    state_type.kept,
    state_type.vectors,
    training.update_type or weights_type.trainable,
    training.tally_type,
  )
  def server_update(
    weights, optimizer_state, r, kept, vectors, update, tally
  ):
    # Line 5: r(t) = (1 - beta) r(t-1) + beta 1_S.
    step = kept[selector_lib.STEP] if has_step else beta
    r = (1 - step) * r + step * tf.cast(tally.participation, tf.float64)
    sums, server = update, ()
    if rule:
      update, server = _delta(rule, vectors.server, sums)
    if is_weighted:  # The update is the weighted mean.
      update = tf.nest.map_structure(
        lambda u: tf.cast(tally.weight, u.dtype) * u, update
      )
    # Line 10: w^{t+1} = ServerOpt(w^t, Delta). When nobody contributed the
    # model and the optimizer's state stay: Adam would move on by its momentum.
    stepped_state, stepped = server_optimizer.next(
      optimizer_state, weights.trainable, update
    )
    # Nor does a sum that overflows count: then all are excluded.
    is_finite = client_work.is_finite((update, server))
    counted = tf.where(is_finite, tally.counted, 0)
    is_step = tf.reduce_any(counted > 0)
    if rule and rule.moves_alone:
      is_step = is_finite
    trainable, optimizer_state = tf.nest.map_structure(
      lambda new, old: tf.where(is_step, new, old),
      (stepped, stepped_state),
      (weights.trainable, optimizer_state),
    )
    if rule:
      server = tf.nest.map_structure(
        lambda new, old: tf.where(is_step, new, old), server, vectors.server
      )
      changed = _changed(rule, sums, trainable, is_step)
      table = vectors.clients
      if not in_files:
        table = tf.tensor_scatter_nd_update(
          table, changed['clients'][:, tf.newaxis], changed['rows']
        )
      vectors = MethodVectors(server, table)
    excluded = tally.participation - counted
    metrics = collections.OrderedDict(
      selection=collections.OrderedDict(
        selected=tf.reduce_sum(tally.participation),
        excluded=tf.reduce_sum(excluded),
        excluded_clients=excluded,
        sum_of_weights=tf.where(is_finite, tally.weight, 0.0),
        variance_bound=tf.reduce_sum(tf.math.multiply_no_nan(1 / r, numerator)),
      ),
      client_work=training.finalize(tally.measurements),
    )
    if rule and in_files:
      metrics[CHANGED] = changed
    weights = tff.learning.models.ModelWeights(trainable, weights.non_trainable)
    return weights, optimizer_state, r, vectors, metrics

  return server_update


def _delta(rule: vectors_lib.Vectors, server: Any, sums: Any) -> Any:
  """Returns -Delta, as an optimizer takes it, and the server's new vector."""
  leaves = map(tf.nest.flatten, (server, sums.model, sums.state))
  deltas, vectors = zip(*(rule.step(*leaf) for leaf in zip(*leaves)))
  return (
    tf.nest.pack_sequence_as(sums.model, [-delta for delta in deltas]),
    tf.nest.pack_sequence_as(server, vectors),
  )


def _changed(
  rule: vectors_lib.Vectors, sums: Any, trainable: Any, is_step: tf.Tensor
) -> collections.OrderedDict[str, tf.Tensor]:
  """Returns the clients whose update counts, and their vectors from now on."""
  is_new = (sums.clients > 0) & is_step
  after = tf.boolean_mask(sums.own, is_new)
  rows = rule.stored(after, vector_training.flat(tf.nest.flatten(trainable)))
  return collections.OrderedDict(
    clients=tf.boolean_mask(sums.clients, is_new) - 1,
    rows=tf.broadcast_to(rows, tf.shape(after)),
  )


def build(
  training: client_work.LocalTraining,
  p: np.ndarray,
  initial_rates: np.ndarray,
  server_optimizer: Optional[tff.learning.optimizers.Optimizer],
  beta: float,
  correlation: str,
  aggregator: Optional[Aggregator],
  initial_kept: selection.Kept,
  rule: Optional[vectors_lib.Vectors],
  in_files: bool,
) -> Server:
  """Returns what the server does; see `process.build_process`."""
  p = np.asarray(p, np.float64)
  initial_rates = np.asarray(initial_rates, np.float64)
  rates.check(p, beta)
  numerator = rates.numerator(p, correlation)
  if initial_rates.shape != p.shape:
    raise ValueError(
      f'initial_rates must hold one rate for each of the {p.size} clients, but '
      f'its shape is {initial_rates.shape}.'
    )
  if not ((initial_rates >= 0) & (initial_rates <= 1)).all():
    raise ValueError('initial_rates must be in [0, 1], but some are not.')
  if server_optimizer is None:
    server_optimizer = tff.learning.optimizers.build_sgdm(1.0)

  weights_type = training.initial_weights.type_signature.result
  is_weighted = is_weighted_sum(aggregator)
  sum_updates = None
  if aggregator is not None:
    weight_type = [tff.types.TensorType(np.float32)] if is_weighted else []
    sum_updates = aggregator.create(weights_type.trainable, *weight_type)
  initialize = _initialize(
    training,
    initial_rates,
    server_optimizer,
    sum_updates,
    initial_kept,
    rule,
    in_files,
  )
  server_update = _server_update(
    training,
    initialize.type_signature.result.member,
    server_optimizer,
    beta,
    numerator,
    is_weighted,
    rule,
    in_files,
  )
  return Server(initialize, server_update, sum_updates)


def step(server_update: Any, state: Any, update: Any, tally: Any) -> Any:
  """Returns what the server's step makes of a state, at the server."""
  return tff.federated_map(
    server_update,
    (
      state.global_model_weights,
      state.optimizer,
      state.rates,
      state.kept,
      state.vectors,
      update,
      tally,
    ),
  )
