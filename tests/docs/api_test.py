"""Tests of what the package offers to others, and of docs/api.md on it."""

import importlib
import inspect
import pathlib
import re
import subprocess
import sys
import typing

import numpy as np
import pytest
import tensorflow_federated as tff

import f3ast_tff
from f3ast_tff.datasets import synthetic

_PAGE = pathlib.Path(__file__).parents[2] / 'docs' / 'api.md'
_LIGHT = ('availability', 'communication', 'rates', 'selection', 'cohorts')


def _run(program):
  return subprocess.run(
    [sys.executable, '-c', program],
    capture_output=True,
    text=True,
    check=True,
    timeout=60,
  ).stdout.split()


def _examples():
  return re.findall(r'```python\n(.*?)```', _PAGE.read_text(), re.DOTALL)


def _lines(example):
  """Returns the lines of code: no blank ones, no comments alone."""
  lines = [line.strip() for line in example.splitlines()]
  return [line for line in lines if line and not line.startswith('#')]


def _listed():
  """Returns the names that the page lists, by module."""
  rows = re.findall(
    r'^\| `f3ast_tff\.(\w+)` \| (.*) \|$', _PAGE.read_text(), re.MULTILINE
  )
  return {module: re.findall(r'`(\w+)`', names) for module, names in rows}


def test_importing_is_light_and_numpy_parts_need_no_tensorflow():
  heavy = "[m for m in ('numpy', 'tensorflow', 'pandas') if m in sys.modules]"
  assert _run(f'import sys, f3ast_tff; print(*{heavy})') == []
  touch = '; '.join(f'f3ast_tff.{module}' for module in _LIGHT)
  assert _run(f'import sys, f3ast_tff; {touch}; print(*{heavy})') == ['numpy']


def test_the_public_names_are_those_of_the_page():
  assert set(f3ast_tff.__all__) == {'__version__', *_listed()}
  assert set(f3ast_tff.__all__) <= set(dir(f3ast_tff))
  for name in _listed():
    assert getattr(f3ast_tff, name) is importlib.import_module(
      f'f3ast_tff.{name}'
    )
  with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
    _ = f3ast_tff.nothing


def _functions():
  for module, names in _listed().items():
    for name in names:
      value = getattr(getattr(f3ast_tff, module), name)
      if inspect.isclass(value):
        yield f'{module}.{name}', value
        for key, method in vars(value).items():
          if inspect.isfunction(method) and not key.startswith('_'):
            yield f'{module}.{name}.{key}', method
      elif inspect.isfunction(value):
        yield f'{module}.{name}', value


def test_public_names_are_documented_and_typed():
  found = dict(_functions())
  assert len(found) > 30
  for name, value in found.items():
    assert value.__doc__ and value.__doc__.strip(), name
    if inspect.isfunction(value):
      value = inspect.unwrap(value)
      hints = typing.get_type_hints(value)
      wanted = {p for p in inspect.signature(value).parameters if p != 'self'}
      assert wanted | {'return'} <= set(hints), name
  package = pathlib.Path(f3ast_tff.__file__).parent
  assert (package / 'py.typed').exists()


def test_examples_are_at_most_15_lines():
  examples = _examples()
  assert len(examples) == 5
  assert all(len(_lines(example)) <= 15 for example in examples)


def test_the_example_that_trains():
  data = synthetic.load(num_clients=12, seed=3)
  client_data = tff.simulation.datasets.TestClientData({
    f'{k:02}': (examples['x'][:60], examples['y'][:60])
    for k, examples in enumerate(data.train)
  })

  x, y = (
    np.concatenate([examples[field][:60] for examples in data.train])
    for field in ('x', 'y')
  )
  batched = client_data.preprocess(lambda examples: examples.batch(20))
  names = {'client_data': client_data, 'batched': batched, 'x': x, 'y': y}
  example, of_keras = _examples()[:2]
  before, after = of_keras.split('# After training:')
  exec(before, names)
  assert example.count('range(1, 101)') == 1
  exec(example.replace('range(1, 101)', 'range(1, 31)'), names)
  exec(after, names)
  kernel, bias = names['model_weights'].trainable
  accuracy = np.mean((x @ kernel + bias).argmax(axis=1) == y)
  assert accuracy > 2 * np.bincount(y).max() / y.size  # Of the best constant.
  assert names['accuracy'] == pytest.approx(accuracy, abs=0.01)
  assert names['state'].rates.shape == (12,)


def test_the_example_that_only_simulates_availability(capsys):
  exec(_examples()[2], {})
  rows = [line.split() for line in capsys.readouterr().out.splitlines()]
  assert [int(row[0]) for row in rows] == list(range(1, 25))
  # There are more by day than by night.
  assert int(rows[5][1]) > int(rows[17][1])


@pytest.mark.parametrize('index', [3, 4])
def test_the_examples_that_only_select(index):
  # Updates pull the model to each client's own optimum. Once the rates have
  # settled, it goes to the mean of these by p, whoever is there how often.
  optima = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0] * 3)
  p = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0] * 3)
  p /= p.sum()
  rng = np.random.default_rng(0)
  names = {
    'p': p,
    'model': 0.0,
    'train': lambda model, k: 0.05 * (optima[k] - model),
    'who_is_there': lambda t: rng.random(p.size) < 0.8,
  }
  exec(_examples()[index].replace('101', '2501'), names)
  assert names['model'] == pytest.approx(p @ optima, abs=0.3)
  assert abs(optima.mean() - p @ optima) > 0.8  # The test can tell.


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
