"""The mistakes that users make, and what each is answered with.

One table for the library, one for models and policies of the user's own: what
is done, and the words that the sentence must have.
"""

import dataclasses
import re
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import f3ast_tff
from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import methods
from f3ast_tff import selection
from f3ast_tff import vectors
from f3ast_tff.datasets import federated
from f3ast_tff.runs import releases
from f3ast_tff.runs import task as task_lib
from tests import linear

pytestmark = pytest.mark.usefixtures('in_process')

_N = len(linear.SIZES)
_KERAS = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,))])


def _own_step(step):
  return selection.Method(vectors=vectors.Vectors(step=step))


def _selector(p=linear.P, available='always', clients_per_round=2, **changes):
  return f3ast_tff.build_selector(p, available, clients_per_round, **changes)


def _train(fields=('x', 'y')):
  return [dict(zip(fields, linear.examples(k))) for k in range(_N)]


def _unbatched():
  return tff.simulation.datasets.TestClientData(dict(zip('abcd', _train())))


def _clients(in_memory=True):
  return f3ast_tff.read_clients(linear.client_data(), in_memory)


def _build(clients=None, selector=None, model=None, **changes):
  arguments = {'client_optimizer': linear.SGD(0.1), 'num_shards': 2, **changes}
  return f3ast_tff.build_training(
    linear.functional() if model is None else model,
    _clients() if clients is None else clients,
    _selector() if selector is None else selector,
    **arguments,
  )


def _model_for(x, y):
  """Returns a `model_fn` for batches of other shapes or types."""

  def model_fn():
    return tff.learning.models.from_keras_model(
      tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=x.shape[1:])]),
      loss=tf.keras.losses.MeanSquaredError(),
      input_spec={'x': x, 'y': y},
    )

  return model_fn


_X, _Y = tf.TensorSpec([None, 3]), tf.TensorSpec([None, 1])
_WIDE = _model_for(tf.TensorSpec([None, 7]), _Y)
_WHOLE = _model_for(_X, tf.TensorSpec([None, 1], tf.int32))


def _next(state=None, round_num=1, in_memory=True):
  training = linear.build(in_memory)
  state = training.initialize() if state is None else state
  return training.next(state, round_num)


def _datasets():
  data = linear.client_data()
  return [data.create_tf_dataset_for_client(name) for name in 'ab']


def _process_next(clients):
  training = linear.build()
  return training.process.next(training.initialize(), clients)


def _state_of_fedavg():
  process = tff.learning.algorithms.build_weighted_fed_avg(
    linear.functional(), linear.SGD(0.1)
  )
  return process.initialize()


def _state_of_three():
  return linear.build().initialize()._replace(rates=np.ones(3))


_OPTIMIZER = r'optimizer must be .* of TFF.*build_sgdm\(0.1\), but it is'

_LIBRARY = {
  # p and the selector.
  'p for fewer clients': (
    lambda: _build(selector=_selector(np.full(3, 1 / 3))),
    'for 3 clients.*there are 4.*clients.p',
  ),
  'p for more clients, on datasets': (
    lambda: _build(_clients(False), _selector(np.full(5, 1 / 5))),
    'for 5 clients.*there are 4.*clients.p',
  ),
  'a selector with another p': (
    lambda: dataclasses.replace(_selector(), p=np.full(3, 1 / 3)),
    'Independent has 4 clients, but p has 3',
  ),
  'a selector with other rates': (
    lambda: dataclasses.replace(_selector(), initial_rates=np.ones(3)),
    r'initial_rates must hold.*all 4 clients.*shape \(3,\)',
  ),
  'p with NaN': (
    lambda: _selector([0.5, 0.5, np.nan, 0]), 'finite.*client 2 is nan'
  ),
  'a negative p': (
    lambda: _selector([0.5, 0.6, -0.1, 0]), '>= 0.*client 2 is -0.1'
  ),
  'counts for p': (
    lambda: _selector(np.array(linear.SIZES)), 'sums to 27; divide it'
  ),
  'p in two dimensions': (lambda: _selector([linear.P]), r'shape \(1, 4\)'),
  'texts for p': (lambda: _selector(['a', 'b']), 'p must hold.*a list of 2'),
  'the clients for p': (
    lambda: _selector(_clients()), 'p must hold.*ClientDatasets'
  ),
  'beta = 0': (lambda: _selector(beta=0), r'beta must be in \(0, 1\].*is 0'),
  'beta as text': (lambda: _selector(beta='small'), "the text 'small'"),
  'a negative seed': (lambda: _selector(seed=-1), 'seed must be.*is -1'),
  'a seed as text': (lambda: _selector(seed='x'), "seed must be.*'x'"),
  'no candidates': (
    lambda: _selector(num_candidates=0), 'num_candidates must be.*is 0'
  ),
  # How many, who is available, whom to select.
  'K as a word': (
    lambda: _selector(clients_per_round='ten'), "'ten'.*uniform:5,15"
  ),
  'K as a fraction': (
    lambda: _selector(clients_per_round=2.5), 'clients_per_round must.*is 2.5'
  ),
  'K as a function': (
    lambda: _selector(clients_per_round=lambda t: 2),
    'clients_per_round must.*the function <lambda>, which has no mean',
  ),
  'a negative K': (
    lambda: _selector(clients_per_round=-1), 'whole number.*is -1'
  ),
  'a misspelt model': (
    lambda: _selector(available='Home-Devices'),
    "is 'Home-Devices'; did you mean 'home_devices'",
  ),
  'no model': (lambda: _selector(available=None), 'availability must.*is None'),
  'a mask for a model': (
    lambda: _selector(available=np.ones(4, bool)),
    r'availability must.*num_clients.*an array of shape \(4,\)',
  ),
  'a class for a model': (
    lambda: _selector(available=availability.Markov), 'the class Markov'
  ),
  'a model of other clients': (
    lambda: _selector(available=availability.always(3)), '3 clients.*p has 4'
  ),
  'a misspelt policy': (
    lambda: _selector(policy='f3st'), "did you mean 'f3ast'"
  ),
  'an algorithm for a policy': (
    lambda: _selector(policy='scaffold'), "takes algorithm='scaffold'"
  ),
  'an algorithm with another server optimizer': (
    lambda: _selector(policy='fedadam'),
    "build_training the server_optimizer adam,.*policy='proportional'\\.",
  ),
  'a misspelt algorithm': (
    lambda: _selector(algorithm='scafold'), "did you mean 'scaffold'"
  ),
  'no algorithm': (lambda: _selector(algorithm=None), 'algorithm must be'),
  'a number for the step of the rates': (
    lambda: _selector(rate_step=5), 'annealed:T0 .* but it is 5'
  ),
  'a number for a method': (
    lambda: _selector(method=3), 'or a selection.Method, but it is 3'
  ),
  'a class for a method': (
    lambda: _selector(method=selection.Method), 'the class Method'
  ),
  'one factor': (
    lambda: _selector(factors=0.5), 'one for each round, but it is 0.5'
  ),
  'a negative factor': (
    lambda: _selector(factors=[1, -1]), 'but that of round 2 is -1'
  ),
  'factors of two lengths': (
    lambda: _selector(factors=[[1], [1, 2]]), 'one for each round, but it is a'
  ),
  'a step of one argument': (
    lambda: _selector(method=_own_step(lambda total: (total, total))),
    r'step of vectors.Vectors must take three tensors, \(server, model sum',
  ),
  'a step that returns one tensor': (
    lambda: _selector(method=_own_step(lambda server, one, two: one)),
    'step of vectors.Vectors must return two tensors',
  ),
  'kept that is a number': (
    lambda: _selector(algorithm='fedau').select(2, linear.P, kept=5),
    'kept must hold arrays by name',
  ),
  'factors for a step that is no sum': (
    lambda: _selector(factors=[1, 1], algorithm='mifa'),
    'factors is for methods whose step is a sum of weighted updates',
  ),
  'factors for too few rounds': (
    lambda: _selector(factors=[1, 1]).select(3, linear.P),
    'factors has 2 rounds, but this is round 3',
  ),
  'a number for delivery': (
    lambda: _selector(delivery=0.9), 'delivery.Delivery or None.*is 0.9'
  ),
  'a text for quotas': (
    lambda: _selector(quotas='2'), "groups.Quotas or None.*the text '2'"
  ),
  'a module for a policy': (
    lambda: _selector(policy=methods.f3ast), 'the module f3ast_tff.methods'
  ),
  # Rounds and rates.
  'round 0': (lambda: _selector().select(0, linear.P), 'count from 1.*is 0'),
  'a round as text': (
    lambda: _selector().select('1', linear.P), "count from 1.*the text '1'"
  ),
  'a round as a fraction': (lambda: _next(round_num=1.5), 'count from 1.*1.5'),
  'rates of other clients': (
    lambda: _selector().select(1, linear.P[:3]), r'r must hold.*shape \(3,\)'
  ),
  # The model.
  'a model, not a function': (
    lambda: _build(model=linear.keras()), 'do not call it'
  ),
  'a model of Keras': (
    lambda: _build(model=_KERAS), 'Sequential; give the function'
  ),
  'a model that takes arguments': (
    lambda: _build(model=lambda seed: linear.keras()), 'which takes arguments'
  ),
  'a text for a model': (
    lambda: _build(model='cnn'), "model must be a FunctionalModel.*'cnn'"
  ),
  'a function that returns a model of Keras': (
    lambda: _build(model=lambda: _KERAS),
    'must return a VariableModel.*returned a value of type Sequential',
  ),
  'the same on datasets': (
    lambda: _build(_clients(False), model=lambda: None), 'it returned None'
  ),
  'another input_spec': (
    lambda: _build(model=_WIDE),
    r'shape \(None, 7\).*clients has float32 of shape \(None, 3\)',
  ),
  'another input_spec on datasets': (
    lambda: _build(_clients(False), model=_WIDE),
    r'shape \(None, 7\).*clients has float32 of shape \(None, 3\)',
  ),
  'another type in input_spec': (
    lambda: _build(model=_WHOLE), r'int32 of shape.*but.*float32 of shape'
  ),
  # Optimizers, aggregators, shards.
  'an optimizer of Keras': (
    lambda: _build(client_optimizer=tf.keras.optimizers.SGD(0.1)),
    f'client_{_OPTIMIZER} a value of type SGD',
  ),
  'the class of one': (
    lambda: _build(client_optimizer=tf.keras.optimizers.SGD),
    f'client_{_OPTIMIZER} the class SGD',
  ),
  'the name of one': (
    lambda: _build(client_optimizer='sgd'),
    f"client_{_OPTIMIZER} the text 'sgd'",
  ),
  'what builds one': (
    lambda: _build(client_optimizer=tff.learning.optimizers.build_sgdm),
    f'client_{_OPTIMIZER} the function build_sgdm',
  ),
  'an optimizer of Keras at the server': (
    lambda: _build(server_optimizer=tf.keras.optimizers.Adam(0.1)),
    f'server_{_OPTIMIZER} a value of type Adam',
  ),
  'the name of an aggregator': (
    lambda: _build(aggregator='mean'), "aggregator must.*the text 'mean'"
  ),
  'no shards': (lambda: _build(num_shards=0), 'num_shards must be.*is 0'),
  # Clients.
  'datasets without batches': (
    lambda: f3ast_tff.read_clients(_unbatched()),
    r'of batches.*\(3,\), \(1,\).*examples.batch\(20\)',
  ),
  'the same that stay datasets': (
    lambda: f3ast_tff.read_clients(_unbatched(), in_memory=False),
    r'of batches.*examples.batch\(20\)',
  ),
  'a list of datasets': (
    lambda: f3ast_tff.read_clients(_datasets()), 'ClientData.*a list of 2'
  ),
  'a ClientData that is not read': (
    lambda: _build(linear.client_data()), r'read_clients\(client_data\), but'
  ),
  'clients and selector exchanged': (
    lambda: _build(_selector(), _clients()), 'clients must be.*Selector'
  ),
  'p for the selector': (
    lambda: _build(selector=linear.P), r'selector must come from.*shape \(4,\)'
  ),
  'arrays without batches': (
    lambda: f3ast_tff.ClientArrays(_train(), 0), 'batch_size must.*is 0'
  ),
  'arrays without y': (
    lambda: f3ast_tff.ClientArrays(_train(('x', 'label')), 4),
    'fields x and y, but they have x, label',
  ),
  'pairs for arrays': (
    lambda: f3ast_tff.ClientArrays([linear.examples(0)], 4),
    'client 0 are a tuple of 2',
  ),
  'lists for arrays': (
    lambda: f3ast_tff.ClientArrays([{'x': [[1.0]], 'y': [1]}], 4),
    "client 0 are.*'x': 'a list of 1'",
  ),
  'arrays of unlike shapes': (
    lambda: f3ast_tff.ClientArrays(
      [*_train(), {'x': np.ones((2, 7)), 'y': np.ones((2, 1))}], 4
    ),
    r"'x' must have shape \(3,\).*client 4 it has \(7,\)",
  ),
  'no clients': (lambda: f3ast_tff.ClientArrays([], 4), 'N >= 1 clients'),
  'clients without examples': (
    lambda: f3ast_tff.ClientArrays(
      [{'x': np.ones((0, 3)), 'y': np.ones((0, 1))}] * 2, 4
    ).p,
    'None of the 2 clients has examples',
  ),
  # Rounds of a training.
  'datasets for the round': (
    lambda: _next(round_num=_datasets()),
    r'its number t = 1, 2.*a list of 2; training.next finds the data',
  ),
  'the same of a training on datasets': (
    lambda: _next(round_num=_datasets(), in_memory=False),
    r'a list of 2.*training.process.next\(state, training.inputs',
  ),
  'datasets for the process': (
    lambda: _process_next(_datasets()),
    r'fields examples.*BatchDataset.*training.inputs\(cohort, t\)',
  ),
  'a round for the process': (
    lambda: _process_next(1), 'values of clients must be a list.*are 1'
  ),
  'state and metrics for the state': (
    lambda: _next(_next()), 'The state must.*LearningProcessOutput'
  ),
  'a state of another algorithm': (
    lambda: _next(_state_of_fedavg()),
    r'The state must.*training.initialize\(\).*LearningAlgorithmState',
  ),
  'a state of other clients': (
    lambda: _next(_state_of_three()), 'for 4 clients.*of 3 clients'
  ),
  'a process for Rounds': (
    lambda: f3ast_tff.Rounds(linear.build().process), 'LearningProcess'
  ),
  'threads as text': (
    lambda: f3ast_tff.set_in_process('2'), "num_threads must.*the text '2'"
  ),
}


@dataclasses.dataclass(frozen=True)
class _Own:
  """An availability model of the user's that returns a given value."""

  mask: object
  num_clients: int = _N
  positively_correlated: bool = False

  def probabilities(self, round_num):
    del round_num
    return np.ones(self.num_clients)

  def __call__(self, round_num):
    return self.mask


@dataclasses.dataclass(frozen=True)
class _OwnK:
  """A constraint of the user's that returns a given value."""

  k: object
  mean: float = 2.0
  maximum: int = 2

  def __call__(self, round_num):
    return self.k


def _select(available='always', k=2, policy='f3ast', **changes):
  """Runs round 7 of a selector."""
  return _selector(
    available=available, clients_per_round=k, policy=policy, **changes
  ).select(7, linear.P)


def _mask(mask):
  return lambda: _select(_Own(mask))


def _cohort(clients, weights, available='always', k=2):
  """Returns what selects by a policy that returns a given cohort."""
  return _returned(selection.Cohort(clients, weights), available, k)


def _returned(cohort, available='always', k=2):
  def own_policy(situation, rng):
    del situation, rng
    return cohort

  return lambda: _select(available, k, own_policy)


def _losses(losses):
  """Returns what selects by losses that a function of the user's gives."""

  @selection.needs_losses
  def by_losses(situation, rng):
    del rng
    losses = situation.losses_of(np.arange(_N))
    return selection.with_equal_weights(np.argsort(losses)[:1])

  selector = _selector(policy=by_losses)
  return lambda: selector.select(7, linear.P, lambda clients: losses)


class _NoProbabilities:
  """A model that lacks a member."""

  num_clients = _N
  positively_correlated = False

  def __call__(self, round_num):
    return np.ones(_N, bool)


def _with_model(name, make):
  """Returns what builds a selector with a registered function's model."""

  def build():
    with pytest.MonkeyPatch.context() as patch:
      patch.setitem(availability.MODELS, name, make)
      return _select(name)

  return build


def _dataset(**changes):
  fields = {
    'name': 'Blobs',
    'train': _train(),
    'test': _train()[0],
    'test_owner': np.zeros(linear.SIZES[0], int),
  }
  return federated.FederatedDataset(**{**fields, **changes})


def _build_task(task):
  def build_task(config):
    del config
    return task

  return lambda: task_lib.checked(build_task(None), build_task)


def _managers(managers):
  return lambda: releases.checked(managers, _managers)


_THREE_OF_FOUR = _Own(np.arange(_N) < 3)
_TWO, _HALVES = np.array([0, 2]), np.array([0.5, 0.5])
_OWN_POLICY = 'The policy own_policy must return'

_OWN = {
  # Availability models.
  'a mask of other clients': (
    _mask(np.ones(3, bool)),
    r'model _Own returns in round 7.*4 booleans.*\(3,\) and type bool',
  ),
  'a mask of numbers': (_mask(np.ones(_N)), '_Own.*booleans.*type float64'),
  'a mask that is a list': (_mask([True] * _N), '_Own.*a list of 4'),
  'a mask in two dimensions': (
    _mask(np.ones((1, _N), bool)), r'_Own.*\(1, 4\)'
  ),
  'no mask': (_mask(None), '_Own.*is None'),
  'a mask that was observed, of numbers': (
    lambda: _selector().select_among(np.ones(_N), 7, linear.P),
    'available must be an array of 4 booleans.*float64',
  ),
  'a model of other clients than p': (
    lambda: _select(_Own(np.ones(3, bool), 3)), '_Own has 3.*p has 4'
  ),
  'a model that lacks a member': (
    lambda: _select(_NoProbabilities()),
    '_NoProbabilities, which has no probabilities',
  ),
  'a function that returns no model': (
    _with_model('shifts', lambda p, seed: None),
    r"MODELS\['shifts'\] must return.*is None",
  ),
  # Constraints.
  'a negative K_t': (
    lambda: _select(k=_OwnK(-1)),
    '_OwnK must return a whole number >= 0.*round 7 is -1',
  ),
  'a fraction for K_t': (lambda: _select(k=_OwnK(2.5)), '_OwnK.*is 2.5'),
  'a constraint without a mean': (
    lambda: _select(k=communication.Schedule), 'the class Schedule'
  ),
  # Cohorts.
  'no cohort': (
    _returned(None), f'{_OWN_POLICY} a selection.Cohort.*round 7 it returned N'
  ),
  'indices for a cohort': (_returned(_TWO), rf'{_OWN_POLICY} a.*shape \(2,\)'),
  'a pair for a cohort': (
    _returned((_TWO, _HALVES)), f'{_OWN_POLICY} a.*a tuple of 2'
  ),
  'a list of clients': (_cohort([0, 2], _HALVES), 'indices.*a list of 2'),
  'clients as fractions': (
    _cohort(np.array([0.0, 2.0]), _HALVES), 'whole numbers.*type float64'
  ),
  'a mask for clients': (
    _cohort(np.ones(2, bool), _HALVES), 'whole numbers.*type bool'
  ),
  'nobody as fractions': (
    _cohort(np.array([]), np.array([])), 'whole numbers.*type float64'
  ),
  'a client beyond the last': (
    _cohort(np.array([0, 4]), _HALVES), 'from 0 to 3.*one is 4'
  ),
  'a negative client': (
    _cohort(np.array([-1, 2]), _HALVES), 'from 0 to 3.*one is -1'
  ),
  'a client twice': (
    _cohort(np.array([2, 2]), _HALVES), 'once.*client 2 is.*2 times'
  ),
  'a client twice, apart': (
    _cohort(np.array([3, 1, 3], np.uint8), np.ones(3), k=3), 'client 3 is'
  ),
  'a client that is not available': (
    _cohort(np.array([0, 3]), _HALVES, _THREE_OF_FOUR),
    f'{_OWN_POLICY} available clients only.*client 3 is not available',
  ),
  'more than K_t': (
    _cohort(np.arange(3), np.ones(3)), 'at most K_t = 2.*it returned 3'
  ),
  'fewer weights than clients': (
    _cohort(_TWO, np.ones(1)), r'one weight.*for 2 clients.*shape \(1,\)'
  ),
  'weights that are a list': (_cohort(_TWO, [0.5, 0.5]), 'a list of 2'),
  'weights with NaN': (
    _cohort(_TWO, np.array([0.5, np.nan])), 'finite.*client 2 is nan'
  ),
  'infinite weights': (
    _cohort(_TWO, np.array([np.inf, 1])), 'finite.*client 0 is inf'
  ),
  # Losses.
  'losses of other clients': (
    _losses(np.ones(3)), r'losses_of must return a number.*4 clients.*\(3,\)'
  ),
  'one loss for all': (_losses(0.5), 'losses_of.*returned 0.5'),
  'losses that are no numbers': (
    _losses(np.array(['a'] * _N)), 'losses_of.*type <U1'
  ),
  # Experiments.
  'no task': (
    _build_task(None), 'build_task must return a task.Task, but it is None'
  ),
  'a task without a data set': (
    _build_task(task_lib.Task(_train(), None)),
    'a dataset from federated.FederatedDataset.*a list of 4',
  ),
  'a task with a model of TFF': (
    lambda: _build_task(task_lib.Task(_dataset(), linear.functional()))(),
    'a model from functional.build.*FunctionalModel',
  ),
  'no release managers': (
    _managers(None), '_managers must return a list of tff.*, but it is None'
  ),
  'one release manager': (
    _managers(tff.program.LoggingReleaseManager()),
    'must return a list.*it is a value of type LoggingReleaseManager',
  ),
  'a release manager that is none': (
    _managers([tff.program.LoggingReleaseManager(), print]),
    'ReleaseManagers, but it is a list of 2 with .* in it',
  ),
  'a data set of pairs': (
    lambda: _dataset(train=[linear.examples(0)]),
    'Blobs must have.*client 0.*a tuple of 2',
  ),
  'fewer owners than test examples': (
    lambda: _dataset(test_owner=np.zeros(2, int)),
    r'Blobs.*each of its 7 test examples.*shape \(2,\)',
  ),
}

_ALL = {**_LIBRARY, **_OWN}


def test_no_mistake_is_in_both_tables():
  assert len(_ALL) == len(_LIBRARY) + len(_OWN)


@pytest.mark.parametrize('mistake', _ALL)
def test_a_mistake_is_answered_in_one_sentence(mistake):
  do, words = _ALL[mistake]
  with pytest.raises((ValueError, TypeError), match=words) as caught:
    do()
  sentence = str(caught.value)
  assert re.fullmatch(r'[^\n]{20,400}[.?]', sentence), sentence
  assert not re.search(r'\. [A-Z]', sentence), sentence  # There is only one.


def test_what_is_no_mistake_is_taken():
  managers = [tff.program.LoggingReleaseManager()]
  assert releases.checked(managers, _managers) is managers
  assert releases.checked((), _managers) == ()
  for k in (2, np.int64(2), '2', 'uniform:1,2', _OwnK(2)):
    assert _select(k=k).cohort.clients.size in (1, 2)
  texts = [_selector(clients_per_round='uniform:1,3', seed=s) for s in (4, 5)]
  drawn = [[s.constraint(t) for t in range(1, 30)] for s in texts]
  assert drawn[0] != drawn[1]  # By the seed.
  assert drawn[0] == [
    communication.Uniform(1, 3, seed=4)(t) for t in range(1, 30)
  ]
  # Clients need not be ascending, and rates may be a list.
  unsorted = _cohort(np.array([3, 0]), _HALVES)().cohort
  assert unsorted.clients.tolist() == [3, 0]
  assert _selector().select(1, list(linear.P)).cohort.clients.size == 2
  nobody = _cohort(np.array([], int), np.array([]))().cohort
  assert nobody.clients.size == 0
  # The released code takes clients that are not available, and says so.
  takes_all = selection.takes_unavailable(
    lambda situation, rng: selection.Cohort(np.array([3]), np.ones(1))
  )
  assert _select(_THREE_OF_FOUR, policy=takes_all).cohort.clients == [3]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
