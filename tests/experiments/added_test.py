"""Tests of --add: methods of the user's own."""

import ast
import hashlib
import json
import pathlib
import re
import sys

import numpy as np
import pandas as pd
import pytest

from experiments import added
from f3ast_tff import methods
from f3ast_tff import selection
from f3ast_tff.runs import config as config_lib
from tests import programs

_ROOT = pathlib.Path(__file__).parents[2]
_EXAMPLE = _ROOT / 'examples' / 'my_method.py'
_POLICY = """
from f3ast_tff import methods
methods.register('{name}', methods.POLICIES['uniform'])
"""


@pytest.fixture
def registry():
  """What tests register is gone after them."""
  registries = methods.POLICIES, methods.METHODS, methods.ALGORITHMS
  before = [dict(each) for each in registries]
  yield
  for each, old in zip(registries, before):
    each.clear()
    each.update(old)
  added._execute.cache_clear()


def test_a_file_registers_methods_once(tmp_path, registry):
  path = tmp_path / 'own.py'
  path.write_text(_POLICY.format(name='own'))
  found = added.load(path)
  assert found.file == 'own.py' and found.names == ('own',)
  assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
  assert added.load(path) == found  # And no error that its name is taken.
  assert methods.ALGORITHMS['own'][:3] == ('own', 'sgd', 'none')
  config = config_lib.Config(algorithm='own')
  assert config.resolve(
    {'sgd': config_lib.LearningRates(0.1, 1.0)}
  ).selection == 'own'


def test_a_preset_of_what_there_is(tmp_path, registry):
  methods.register('uniform_adam', 'uniform', 'adam')
  assert methods.ALGORITHMS['uniform_adam'][:3] == ('uniform', 'adam', 'none')
  with pytest.raises(ValueError, match='policy'):
    methods.register('other', 'unifrom')
  with pytest.raises(ValueError, match='letters, digits and _'):
    methods.register('a,b', 'uniform')


def test_a_call_that_fails_adds_nothing(registry):
  policy, own = methods.POLICIES['uniform'], selection.Method()
  for mistake, message in (
    ({'method': 'scafold'}, 'scaffold'),
    ({'server_optimizer': 'lion', 'method': own}, "but it is 'lion'"),
    ({'policy': None}, 'policy must be one of .* but it is None'),
    ({'policy': ['uniform']}, 'but it is a list of 1'),
    ({'policy': 'scaffold'}, "'scaffold' is an algorithm"),
    ({'method': 3}, 'method must be one of .* but it is 3'),
    ({'method': None}, 'but it is None'),
    ({'method': selection.Method}, 'but it is the class Method'),
    ({'rate_init': 'zero', 'method': own}, 'rate_init must be one of kp, p'),
    ({'rate_step': 'slow', 'method': own}, "annealed:T0 .* but it is 'slow'"),
    ({'sum_cap': -1, 'method': own}, 'sum_cap must be .* but it is -1'),
    ({'sum_cap': 1, 'method': 'mifa'}, 'sum_cap must be 0 with mifa'),
  ):
    before = dict(methods.METHODS)
    with pytest.raises(ValueError, match=message):
      methods.register('own', **{'policy': policy, **mistake})
    assert methods.METHODS == before
    assert 'own' not in {**methods.POLICIES, **methods.ALGORITHMS}
  methods.register('own', policy, 'adam', own)
  assert methods.ALGORITHMS['own'][:3] == ('own', 'adam', 'own')


def test_all_of_an_algorithm_can_be_registered(registry):
  methods.register(
    'fixed', 'fixed_policy', rate_init='p', rate_step='annealed:5', sum_cap=2
  )
  p = np.array([0.5, 0.3, 0.2])
  selector = methods.build_selector(p, 'always', 1, algorithm='fixed')
  assert selector.rate_step == 'annealed:5' and selector.sum_cap == 2
  np.testing.assert_array_equal(selector.initial_rates, p)
  config = config_lib.Config(algorithm='fixed').resolve(
    {'sgd': config_lib.LearningRates(0.1, 1.0)}
  )
  assert config.selection == 'fixed_policy' and config.rate_init == 'p'
  assert config.rate_step == 'annealed:5' and config.sum_cap == 2


@pytest.mark.parametrize(
  'text, message',
  [
    ('x = 1\n', 'registers no method; call methods.register'),
    ('def f(:\n', 'in line 1 (SyntaxError: '),
    ('\nimport no_such_module\n', 'in line 2 (ModuleNotFoundError: No module'),
    (_POLICY.format(name='f3ast'), 'There is a method f3ast already'),
    (_POLICY.format(name='uniform'), 'There is a method uniform already'),
    (
      "from f3ast_tff import methods\nmethods.register('a', 'uniform', 'lion')",
      "must be one of sgd, momentum, adam, yogi, adagrad, but it is 'lion'",
    ),
    ('raise SystemExit(3)\n', 'in line 1 (SystemExit: 3)'),
    ('x = "\\ud800"\nx.encode()', '(UnicodeEncodeError'),
  ],
)
def test_wrong_files_are_one_sentence(tmp_path, registry, text, message):
  path = tmp_path / 'own.py'
  path.write_text(text)
  with pytest.raises(ValueError) as error:
    added.load(path)
  assert message in str(error.value) and '\n' not in str(error.value)


def test_errors_of_the_program(tmp_path):
  run = tmp_path, 'experiments.synthetic'
  assert 'cannot be read (No such file' in programs.one_error(
    *run, '--add=absent.py'
  )
  assert 'cannot be read (Is a directory' in programs.one_error(*run, '--add=.')
  (tmp_path / 'own.py').write_text('x = 1\n')
  assert 'registers no method' in programs.one_error(*run, '--add=own.py')
  assert not (tmp_path / 'runs').exists()


def test_runs_have_the_file_where_any_part_of_them_is_of_it(tmp_path):
  (tmp_path / 'own.py').write_text(
    'from f3ast_tff import methods, selection\n'
    "methods.register('own', methods.POLICIES['uniform'], 'sgd', "
    'selection.Method())\n'
  )
  printed = programs.succeed(
    tmp_path,
    'experiments.sweep',
    '--task=synthetic',
    '--add=own.py',
    '--algorithm=own,fedavg',
    '--selection=own,uniform',
    '--method=own,none',
    '--dry_run',
  )
  commands = [line for line in printed.splitlines() if ' -m ' in line]
  assert len(commands) == 8
  for command in commands:
    assert ('--add=' in command) == ('=own' in command.replace('=own.py', ''))


def test_the_example_is_short_and_sensible(registry):
  lines = _EXAMPLE.read_text().splitlines()
  assert len(lines) <= 60 and max(map(len, lines)) <= 80
  (name,) = added.load(_EXAMPLE).names
  p = np.array([0.4, 0.3, 0.2, 0.1])
  selector = methods.build_selector(p, 'uneven', 2, policy=name, seed=1)
  for step in selector.simulate(50):
    clients, weights = step.cohort
    assert step.available[clients].all()
    assert weights.sum() == pytest.approx(float(clients.size > 0))


def test_the_page_has_the_example_without_comments():
  page = (_ROOT / 'docs' / 'benchmark.md').read_text()
  (text,) = re.findall(r'```python\n(.*?)```', page, re.DOTALL)

  def code(source):
    """Returns the code without docstrings and types."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
      if isinstance(node, (ast.Module, ast.FunctionDef)):
        if ast.get_docstring(node):
          del node.body[0]
      if isinstance(node, ast.FunctionDef):
        node.returns = None
      if isinstance(node, ast.arg):
        node.annotation = None
    return ast.unparse(tree)

  assert code(text) == code(_EXAMPLE.read_text())


@pytest.mark.slow
def test_a_run_of_the_example_resumes_with_the_same_file_only(tmp_path):
  own = tmp_path / 'own.py'
  own.write_text(_EXAMPLE.read_text())
  flags = [
    '--add=own.py',
    '--algorithm=half_corrected',
    '--num_clients=9',
    '--clients_per_round=3',
    '--output_dir=run',
  ]
  printed = programs.succeed(
    tmp_path, 'experiments.synthetic', *flags, '--rounds=2'
  )
  assert printed.count('half_corrected on Synthetic(1,1)') == 2
  config = json.loads((tmp_path / 'run' / 'config.json').read_text())
  digest = hashlib.sha256(own.read_bytes()).hexdigest()
  assert config['settings']['add_sha256'] == digest
  programs.succeed(
    tmp_path, 'experiments.synthetic', *flags, '--rounds=3', '--resume'
  )
  rounds = pd.read_csv(tmp_path / 'run' / 'rounds.csv')
  assert rounds['round'].tolist() == [1, 2, 3]
  # Programs without the file can still read the run. They do not execute it,
  # though the run's settings name it.
  before = own.read_bytes()
  own.write_text("raise SystemExit('It was executed.')")
  assert 'half_corrected' in programs.succeed(
    tmp_path, 'experiments.compare', 'run', '--output=curves'
  )
  own.write_bytes(before + b'\n')
  error = programs.one_error(
    tmp_path, 'experiments.synthetic', *flags, '--rounds=3', '--resume'
  )
  assert 'holds another run (add_sha256 is' in error


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
