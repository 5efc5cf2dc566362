"""Runs the examples of the README and of docs/library.md."""

import asyncio
import importlib
import inspect
import pathlib
import re
import sys
import typing

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import f3ast_tff
from f3ast_tff.datasets import synthetic

_ROOT = pathlib.Path(__file__).parents[2]
_PAGE = _ROOT / 'docs' / 'library.md'


def _examples(page):
  return re.findall(r'```python\n(.*?)```', page.read_text(), re.DOTALL)


def _listed():
  """Returns the public names that the page lists."""
  return re.findall(
    r'^\| `f3ast_tff\.(\w+)` \|', _PAGE.read_text(), re.MULTILINE
  )


def test_the_public_names_are_those_of_the_page():
  assert set(f3ast_tff.__all__) == {'__version__', *_listed()}
  assert set(f3ast_tff.__all__) <= set(dir(f3ast_tff))
  assert len(_listed()) <= 18
  with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
    _ = f3ast_tff.nothing


def test_public_names_are_documented_and_typed():
  for name in _listed():
    value = getattr(f3ast_tff, name)
    assert value.__doc__ and value.__doc__.strip(), name
    functions = [value] if inspect.isfunction(value) else []
    if inspect.isclass(value):
      functions = [
        inspect.unwrap(member)
        for key, member in vars(value).items()
        if inspect.isfunction(member) and not key.startswith('_')
      ]
    for function in functions:
      hints = typing.get_type_hints(inspect.unwrap(function))
      parameters = set(inspect.signature(function).parameters) - {'self'}
      assert parameters | {'return'} <= set(hints), (name, function.__name__)
  assert (_ROOT / 'f3ast_tff' / 'py.typed').exists()


@pytest.fixture(scope='module')
def user():
  """What a user has: a model and clients."""
  data = synthetic.load(num_clients=12, seed=3)
  client_data = tff.simulation.datasets.TestClientData({
    f'{k:02}': (examples['x'][:60], examples['y'][:60])
    for k, examples in enumerate(data.train)
  })

  def model_fn():
    return tff.learning.models.from_keras_model(
      tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=(60,))]),
      loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      input_spec=(
        tf.TensorSpec([None, 60], tf.float32),
        tf.TensorSpec([None], tf.int32),
      ),
      metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
    )

  return {'client_data': client_data, 'model_fn': model_fn}


@pytest.fixture
def keeps_context(monkeypatch):
  """Lets examples set TFF's context without an effect on other tests."""
  context = importlib.import_module('f3ast_tff.execution.context')
  monkeypatch.setattr(context, 'set_in_process', lambda: None)


@pytest.mark.parametrize(
  'page', [_ROOT / 'README.md', _PAGE], ids=lambda page: page.name
)
def test_the_example_that_trains(
  page, user, in_process, keeps_context, tmp_path, monkeypatch
):
  names = dict(user)
  example = _examples(page)[0]
  assert len([line for line in example.splitlines() if line.strip()]) <= 20
  assert example.count('range(1, 101)') == 1
  exec(example.replace('range(1, 101)', 'range(1, 31)'), names)
  assert names['state'].rates.shape == (12,)
  kernel, bias = names['state'].global_model_weights.trainable
  x, y = (
    np.concatenate([e[field] for e in names['clients'].arrays.train])
    for field in 'xy'
  )
  accuracy = np.mean((x @ kernel + bias).argmax(axis=1) == y)
  assert accuracy > 1.5 * np.bincount(y).max() / y.size  # The best constant.
  if page == _PAGE:  # The next examples continue with it.
    monkeypatch.chdir(tmp_path)
    _test_and_save(_examples(page)[1], names, accuracy)
    next_example = _examples(page)[2].replace('101', '6')
    exec(next_example, names)
    state = names['training'].initialize()
    for t in range(1, 6):
      state = names['training'].next(state, t).state
    np.testing.assert_allclose(names['state'].rates, state.rates, rtol=1e-12)
    _track(_examples(page)[3].replace('101', '6'), names)
    np.testing.assert_allclose(names['state'].rates, state.rates, rtol=1e-12)


def _test_and_save(example, names, accuracy):
  """Runs the example, and goes on with both states."""
  saved, training = names['state'], names['training']
  names = {**names, 'test_data': names['client_data']}
  exec(example, names)
  assert names['tested']['sparse_categorical_accuracy'] == pytest.approx(
    accuracy, abs=1e-6
  )
  assert names['t'] == 100 and names['state'] is not saved
  weights = [
    training.next(state, 101).state.global_model_weights.trainable
    for state in (names['state'], saved)
  ]
  np.testing.assert_array_equal(weights[0][0], weights[1][0])


def _track(example, names):
  """Runs the example with release managers, then one of the user's own."""
  exec(example, names)
  table = pd.read_csv('runs/mine/rounds.csv')
  assert table['key'].tolist() == [1, 2, 3, 4, 5]
  assert list(pathlib.Path('runs/mine').glob('events*'))
  released = {}

  class Own(tff.program.ReleaseManager):

    async def release(self, value, key):
      released[key] = value

  names['manager'] = Own()
  names['state'] = asyncio.run(names['train'](names['training'].initialize()))
  assert list(released) == [1, 2, 3, 4, 5]
  sums = [value['sum_of_weights'] for value in released.values()]
  np.testing.assert_allclose(table['sum_of_weights'], sums, rtol=1e-6)


def test_the_example_that_only_simulates_availability(capsys):
  exec(_examples(_PAGE)[4], {})
  rows = [line.split() for line in capsys.readouterr().out.splitlines()]
  assert [int(row[0]) for row in rows] == list(range(1, 25))
  # More are available by day than by night.
  assert int(rows[5][1]) > int(rows[17][1])


def test_the_example_that_only_selects():
  # Updates pull the model to each client's own optimum. Once the rates have
  # settled, it goes to the mean of these by p, however often each is available.
  optima = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0] * 3)
  p = optima / optima.sum()
  names = {
    'p': p,
    'model': 0.0,
    'train': lambda model, k: 0.05 * (optima[k] - model),
  }
  exec(_examples(_PAGE)[5].replace('101', '2501'), names)
  assert names['model'] == pytest.approx(p @ optima, abs=0.3)
  assert abs(optima.mean() - p @ optima) > 0.8  # The test can tell.
  # The same with a mask that was observed.
  selector, r = names['selector'], names['r']
  available = selector.availability(7)
  cohort = selector.select_among(available, 7, r)
  np.testing.assert_array_equal(
    cohort.clients, selector.select(7, r).cohort.clients
  )


@pytest.mark.parametrize('step', ['constant', 'corrected', 'annealed:10'])
@pytest.mark.parametrize('method', ['none', 'fedau'])
def test_the_loop_outside_is_right_for_every_step_and_what_is_kept(
  step, method
):
  p = np.arange(1, 19) / 171
  names = {'p': p, 'model': 0.0, 'train': lambda model, k: p[k]}
  loop = _examples(_PAGE)[5].replace(
    'clients_per_round=10', f'3, rate_step={step!r}, method={method!r}'
  )
  exec(loop, names)
  found = list(names['selector'].simulate(100))
  np.testing.assert_array_equal(names['r'], found[-1].rates)
  weighted = [p[each.cohort.clients] @ each.cohort.weights for each in found]
  assert names['model'] == pytest.approx(sum(weighted))


def test_the_example_with_a_target_and_quotas():
  p = np.arange(1, 21) / 210
  kinds = ['phone'] * 4 + ['tablet'] * 8 + ['laptop'] * 8
  names = {'p': p, 'kinds': kinds}
  exec(_examples(_PAGE)[6], names)
  selector = names['selector']
  np.testing.assert_allclose(selector.p, 0.05)
  np.testing.assert_allclose(selector.availability.q, p[0] / p)
  for step in selector.simulate(40):
    counts = [kinds[k] for k in step.cohort.clients]
    there = [kinds[k] for k in np.flatnonzero(step.available)]
    assert counts.count('phone') >= min(2, there.count('phone'))
    assert counts.count('tablet') <= 5 and counts.count('laptop') <= 5


def test_all_examples_run_here_or_in_tests_of_other_pages():
  counts = {
    page.name: len(_examples(page))
    for page in (_ROOT / 'docs').glob('*.md')
    if page.name != 'tutorial.md'  # It runs as a script.
  }
  assert {name: n for name, n in counts.items() if n} == {
    'availability.md': 2, 'library.md': 7, 'extending.md': 5, 'benchmark.md': 1
  }
  assert len(_examples(_ROOT / 'README.md')) == 1


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
