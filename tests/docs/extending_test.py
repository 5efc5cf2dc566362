"""Runs the examples of docs/extending.md."""

import dataclasses
import pathlib
import re
import sys

import numpy as np
import pandas as pd
import pytest

from f3ast_tff import availability
from f3ast_tff import methods
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import selector as selector_lib
from tests import command_lines

_ROOT = pathlib.Path(__file__).parents[2]
_PAGE = (_ROOT / 'docs' / 'extending.md').read_text()
# A line that says how to call the file, then the file.
_EXAMPLES = dict(
  re.findall(r'`(\w+)\.py`:\n\n```python\n(.*?)```', _PAGE, re.DOTALL)
)
_STEPS = {'sgd': config_lib.LearningRates(0.01, 1.0)}


def _load(name):
  """Runs an example as a module."""
  namespace = {'__name__': name}
  exec(compile(_EXAMPLES[name], f'{name}.py', 'exec'), namespace)
  return namespace


def _program(folder, name, *flags, source=None, trains=False):
  """Runs an example as a program, and returns what it prints."""
  path = folder / f'{name}.py'
  path.write_text(source or _EXAMPLES[name])
  ended = command_lines.run(
    str(path), *flags, tensorflow=trains, folder=folder
  )
  return ended.returncode, ended.stdout + ended.stderr


def _simulate(**settings):
  """Returns 48 rounds without training, r before each, and p."""
  config = config_lib.Config(clients_per_round='3', **settings).resolve(_STEPS)
  num_examples = np.arange(10, 30)
  selector = selector_lib.build(config, num_examples, num_examples)
  steps = list(selector.simulate(48))
  before = [selector.initial_rates, *(step.rates for step in steps)]
  return list(zip(steps, before)), selector.p


def test_there_are_four_examples_and_they_are_short():
  assert list(_EXAMPLES) == ['shifts', 'lowest_rate', 'blobs', 'best']
  for example in _EXAMPLES.values():
    lines = example.splitlines()
    assert len(lines) < 40 and max(map(len, lines)) <= 80


def test_a_model_of_ones_own_decides_who_is_available():
  start = _load('shifts')['shifts'](np.full(20, 0.05), 0).start
  try:
    steps, _ = _simulate(avail='shifts:6')
  finally:
    del availability.MODELS['shifts']
  for step, _ in steps:
    hour = (step.round_num - start) % 24
    assert not step.available[hour >= 6].any()
    assert step.available[step.cohort.clients].all()
  # 20 clients, 12 hours in two days, charged with probability 0.9.
  times = np.sum([step.available for step, _ in steps])
  assert times == pytest.approx(0.9 * 12 * 20, abs=30)


def test_a_policy_of_ones_own_decides_who_takes_part():
  _load('lowest_rate')
  try:
    steps, p = _simulate(selection='lowest_rate', avail='scarce')
  finally:
    del methods.POLICIES['lowest_rate']
  for (_, available, cohort, _), r in steps:
    selected = np.isin(np.arange(20), cohort.clients)
    assert selected.sum() == min(3, available.sum())
    if selected.any() and (available & ~selected).any():
      assert r[selected].max() <= r[available & ~selected].min() * (1 + 1e-8)
    r_then = 0.999 * r[selected] + 0.001
    np.testing.assert_allclose(cohort.weights, p[selected] / r_then)


def test_a_method_of_ones_own_keeps_numbers(monkeypatch):
  for name in ('METHODS', 'ALGORITHMS'):
    monkeypatch.setattr(methods, name, dict(getattr(methods, name)))
  (example,) = re.findall(r'```python\n([^`]*careful.*?)```', _PAGE, re.DOTALL)
  exec(example, {})
  assert methods.ALGORITHMS['careful'][:3] == ('f3ast', 'sgd', 'careful')
  p, seen = np.full(5, 0.2), set()
  plain, changed = (
    methods.build_selector(p, 'scarce', 2, method=name).simulate(30)
    for name in ('none', 'careful')
  )
  for one, other in zip(plain, changed):
    clients = one.cohort.clients.tolist()
    factors = [1 if k in seen else 0.5 for k in clients]
    np.testing.assert_allclose(
      other.cohort.weights, factors * one.cohort.weights
    )
    seen |= set(clients)
  assert len(seen) == 5


@pytest.mark.parametrize(
  'name, flag', [('shifts', 'avail'), ('lowest_rate', 'selection')]
)
def test_as_a_program_it_offers_the_new_name(name, flag, tmp_path):
  code, text = _program(tmp_path, name, f'--{flag}={name}', '--beta=2')
  assert code == 2 and 'beta must be in (0, 1]' in text, text
  code, text = _program(tmp_path, name, f'--{flag}=other')
  assert code == 2 and re.search(rf'one of.*{name}', text), text


@pytest.mark.parametrize('name', list(_EXAMPLES))
def test_as_a_program_its_help_lists_all_flags(name, tmp_path):
  code, text = _program(tmp_path, name, '--help')
  listed = re.findall(r'^  --(?:\[no\])?(\w+)', text, re.MULTILINE)
  expected = {field.name for field in dataclasses.fields(config_lib.Config)}
  expected |= {'output_dir', 'resume', 'on_divergence', 'cluster', 'tracker'}
  expected |= {'add'}
  if name != 'blobs':  # They run the experiment on Synthetic.
    expected |= {'alpha', 'num_clients'}
  assert code == 0 and sorted(listed) == sorted(expected)
  assert text.startswith(_EXAMPLES[name].split('"""')[1])
  assert f'{name}.py [--FLAG=VALUE ...]' in text


# An example, what is written for what in it, flags, the exit code and sentence.
_WRONG = [
  (
    'lowest_rate', r'return selection\.Cohort\(.*\)', 'return clients',
    '--selection=lowest_rate', 2,
    'The policy lowest_rate must return a selection.Cohort, but in round 1 it '
    'returned an array of shape (10,) and type int64.',
  ),
  (
    'shifts', r'return rng\.random\(self\.num_clients\)',
    'return rng.random(3)[:, None]', '--avail=shifts', 2,
    'What the availability model Shifts returns in round 1 must be an array of '
    '100 booleans, one for each client, but it is an array of shape (3, 100) '
    'and type bool.',
  ),
  (
    'blobs', r'    test\.append', '    x[:5] /= k != 7\n    test.append',
    '--avail=always', 1,
    'The run stops in round 2 (the test loss is nan); the test examples of '
    'client 7 hold values that are not finite: correct them or leave them out, '
    'and begin again. No state had been saved before; --resume '
    '--on_divergence=continue trains on all the same.',
  ),
  (
    'best', r'return \[Best.*', 'return Best()', '--num_clients=10', 2,
    'The function release_managers must return a list of '
    'tff.program.ReleaseManagers, but it is a value of type Best.',
  ),
]


@pytest.mark.slow
@pytest.mark.parametrize(
  'name, right, wrong, flag, code, sentence',
  _WRONG,
  ids=[row[0] for row in _WRONG],
)
def test_what_is_wrong_in_a_file_of_ones_own_is_named(
  name, right, wrong, flag, code, sentence, tmp_path
):
  source, changes = re.subn(right, wrong, _EXAMPLES[name])
  assert changes == 1
  ended, text = _program(
    tmp_path, name, flag, '--rounds=2', '--output_dir=run', source=source,
    trains=True,
  )
  assert ended == code and 'Traceback' not in text, text
  assert text.splitlines()[-1] == f'error: {sentence}'


def test_a_data_set_of_ones_own_is_trained_on(tmp_path):
  code, text = _program(
    tmp_path, 'blobs', '--avail=scarce', '--clients_per_round=3', '--rounds=8',
    '--eval_every=4', '--output_dir=run', trains=True,
  )
  assert code == 0 and 'f3ast on Blobs, scarce' in text, text
  accuracy = pd.read_csv(tmp_path / 'run' / 'metrics.csv')['accuracy']
  assert len(accuracy) == 2 and accuracy.iloc[-1] > 0.6
  clients = pd.read_csv(tmp_path / 'run' / 'clients.csv')
  assert len(clients) == 30 and clients['examples'].between(15, 94).all()


@pytest.mark.slow
def test_a_release_manager_of_ones_own_is_given_the_metrics(tmp_path):
  code, text = _program(
    tmp_path, 'best', '--num_clients=10', '--rounds=7', '--eval_every=2',
    '--output_dir=run', trains=True,
  )
  assert code == 0, text
  metrics = pd.read_csv(tmp_path / 'run' / 'metrics.csv')
  best = metrics.loc[metrics['accuracy'].idxmax()]
  assert (tmp_path / 'run' / 'best.txt').read_text() == (
    f'{best["accuracy"]:.4f} in round {best["round"]:.0f}\n'
  )
  table = pd.read_csv(tmp_path / 'run' / 'all.csv')
  rounds = pd.read_csv(tmp_path / 'run' / 'rounds.csv')
  assert table['key'].tolist() == rounds['round'].tolist() == list(range(1, 8))
  for name in rounds.columns.drop('round'):
    assert table[f'round/{name}'].tolist() == rounds[name].tolist()
  tests = table.dropna(subset='test/accuracy')
  assert tests['key'].tolist() == metrics['round'].tolist() == [2, 4, 6, 7]
  assert tests['test/accuracy'].tolist() == metrics['accuracy'].tolist()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
