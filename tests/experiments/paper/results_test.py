"""Tests of `results`."""

import json
import sys

import pandas as pd
import pytest

from experiments.paper import design
from experiments.paper import results
from f3ast_tff.runs import run_directory
from tests import fake_results

_KEY = design.Key('paper', 'synthetic', 'scarce', 'f3ast', 'alpha=0.5', 2)


def _run(folder, revision='a' * 40, **settings):
  """Writes the files of a run: 200 rounds, tested every 50."""
  folder.mkdir()
  config = {
    'settings': {
      'algorithm': 'f3ast',
      'avail': 'scarce',
      'seed': 2,
      'rounds': 200,
      'server_learning_rate': 1.0,
      **settings,
    },
    'versions': {'python': '3'},
    'revision': revision,
  }
  (folder / 'config.json').write_text(json.dumps(config))
  rest = {name: [1.0] * 4 for name in ('loss', 'user_accuracy', 'user_loss')}
  pd.DataFrame({
    'round': [50, 100, 150, 200],
    'accuracy': [0, 0, 0.4, 0.6],
    **rest,
    'sum_of_weights': [9.0] * 4,  # One round's; must not be used.
  }).to_csv(folder / 'metrics.csv', index=False)
  pd.DataFrame({
    'round': range(1, 201),
    'k': 10,
    'selected': [10] * 195 + [3, 3, 3, 0, 0],
    'empty': [0] * 198 + [1] * 2,
    'left_out': [0] * 199 + [1],
    'sum_of_weights': [2.0] * 100 + [1.0] * 100,
  }).to_csv(folder / 'rounds.csv', index=False)
  pd.DataFrame({
    'round': range(1, 201),
    'train_seconds': 0.1,
    'eval_seconds': 0.05,
    'driver_mb': 1000,
  }).to_csv(folder / 'timing.csv', index=False)
  (folder / 'model.npz').touch()
  return folder


def test_from_run_to_file_and_back(tmp_path):
  folder = _run(tmp_path / 'run')
  result = results.from_run(folder, _KEY, 'python -m x')
  assert result['wall_seconds'] == pytest.approx(30)
  assert result['mean_sum_of_weights'] == 1.5
  # Means of 66 rounds, a third: 2 up to round 100; of those up to round 150,
  # 16 are 2 and 50 are 1.
  assert result['metrics']['sum_of_weights'] == [2.0, 2.0, 1.24242, 1.0]
  assert result['rounds_with_fewer_than_k'] == 5
  assert (result['empty_rounds'], result['updates_left_out']) == (2, 1)
  results.write(tmp_path / 'results', result)
  path = tmp_path / 'results/paper/synthetic/scarce-f3ast-alpha=0.5-seed=2.json'
  assert path == results.path_of(tmp_path / 'results', _KEY)
  assert path.stat().st_size < 2000
  assert results.read_all(tmp_path / 'results') == [result]


def test_examples_that_were_trained_on(tmp_path):
  folder = _run(tmp_path / 'run', local_epochs=2)
  rounds = pd.read_csv(folder / 'rounds.csv')
  rounds['clients'] = ['0 2'] * 100 + ['1'] * 99 + ['']
  rounds.to_csv(folder / 'rounds.csv', index=False)
  assert 'examples_trained' not in results.from_run(folder, _KEY, 'c')
  clients = pd.DataFrame({'client': [0, 1, 2], 'examples': [3, 10, 4]})
  clients.to_csv(folder / 'clients.csv', index=False)
  result = results.from_run(folder, _KEY, 'c')
  # 7 a round at first, then 10, and nobody in the last; each twice.
  expected = [2 * 350, 2 * 700, 2 * 1200, 2 * 1690]
  assert result['examples_trained'] == expected
  results.write(tmp_path / 'results', result)
  assert results.read_all(tmp_path / 'results') == [result]
  # By steps: two clients, then one, with 3 batches of 5 each.
  config = json.loads((folder / 'config.json').read_text())
  config['settings'] |= {'local_epochs': 1, 'local_steps': 3, 'batch_size': 5}
  (folder / 'config.json').write_text(json.dumps(config))
  by_steps = results.from_run(folder, _KEY, 'c')
  expected = [30 * 50, 30 * 100, 3000 + 15 * 50, 3000 + 15 * 99]
  assert by_steps['examples_trained'] == expected
  clients[:2].to_csv(folder / 'clients.csv', index=False)
  with pytest.raises(run_directory.RunDirectoryError, match='names a client'):
    results.from_run(folder, _KEY, 'c')
  result['examples_trained'] = [1, 2]
  results.write(tmp_path / 'results', result)
  with pytest.raises(results.ResultError, match='examples_trained'):
    results.read_all(tmp_path / 'results')


@pytest.mark.parametrize(
  'revision, settings, reason',
  [
    ('a' * 40, {'data_source': 'sample'}, 'sample data'),
    ('a' * 40 + '+', {}, 'uncommitted changes'),
    ('', {}, 'without a git revision'),
    ('a' * 40, {'data_source': 'tff'}, None),
  ],
)
def test_what_is_refused(tmp_path, revision, settings, reason):
  folder = _run(tmp_path / 'run', revision, **settings)
  result = results.from_run(folder, _KEY, 'c')
  found = results.refusal(result)
  assert found is None if reason is None else reason in found
  # Sample data are never a result.
  is_sample = settings.get('data_source') == 'sample'
  allowed = results.refusal(result, allow_changed_code=True)
  assert (allowed is not None) == is_sample


@pytest.mark.parametrize(
  'change',
  [
    lambda r: r['settings'].update(seed=3),
    lambda r: r['settings'].update(algorithm='fedavg'),
    lambda r: r['metrics']['loss'].pop(),
    lambda r: r['cell'].update(method='fedavg'),
    lambda r: r.pop('metrics'),
  ],
)
def test_a_file_that_is_not_what_its_name_says(tmp_path, change):
  result = fake_results.result(_KEY)
  results.write(tmp_path, result)
  path = results.path_of(tmp_path, _KEY)
  change(result)
  path.write_text(json.dumps(result))
  with pytest.raises(results.ResultError, match='seed=2.json'):
    results.read(path)


def test_results_of_a_dataset_are_alike():
  a = design.Key('paper', 'synthetic', 'scarce', 'f3ast')
  b = design.Key('paper', 'synthetic', 'scarce', 'f3ast', 'beta=1')
  pair = [fake_results.result(a), fake_results.result(b, beta=1.0)]
  results.check_alike(pair, {b: ['beta']})
  with pytest.raises(results.ResultError, match='beta=1.0 .* beta=0.001'):
    results.check_alike(pair, {})


def test_step_sizes_of_a_method_are_alike():
  f3ast = design.Key('paper', 'synthetic', 'scarce', 'f3ast')
  again = design.Key('paper', 'synthetic', 'scarce', 'f3ast', '', 1)
  other = design.Key('paper', 'synthetic', 'scarce', 'fedadam')
  alone = fake_results.result(f3ast, server_learning_rate=1.0)
  results.check_alike(
    [alone, fake_results.result(other, server_learning_rate=0.1)], {}
  )
  changed = fake_results.result(again, server_learning_rate=0.1)
  with pytest.raises(results.ResultError, match='server_learning_rate=0.1'):
    results.check_alike([alone, changed], {})
  results.check_alike([alone, changed], {again: ['server_learning_rate']})


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
