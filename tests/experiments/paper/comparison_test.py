"""Tests of `comparison`."""

import json
import sys

import pandas as pd
import pytest

from experiments.paper import comparison


def _run(folder, algorithm, seed, accuracy, weights, **settings):
  """Writes the files of a run: 200 rounds, tested every 50."""
  folder.mkdir()
  settings |= {'algorithm': algorithm, 'seed': seed}
  (folder / 'config.json').write_text(json.dumps({'settings': settings}))
  tested = [50, 100, 150, 200]
  columns = {'round': tested, 'accuracy': accuracy}
  for name in ('loss', 'user_accuracy', 'user_loss'):
    columns[name] = [1.0] * 4
  columns['sum_of_weights'] = [9.0] * 4  # One round's; must not be used.
  pd.DataFrame(columns).to_csv(folder / 'metrics.csv', index=False)
  pd.DataFrame({
    'round': range(1, 201),
    'sum_of_weights': [weights] * 200,
  }).to_csv(folder / 'rounds.csv', index=False)
  return folder


@pytest.fixture
def metrics(tmp_path):
  return comparison.load([
    _run(tmp_path / 'a', 'fedavg', 0, [0, 0, 0.4, 0.6], 1.0),
    _run(tmp_path / 'b', 'fedavg', 1, [0, 0, 0.6, 0.8], 1.0),
    _run(tmp_path / 'c', 'f3ast', 0, [0, 0, 0.9, 0.9], 0.5),
  ])


def test_table_by_hand(metrics):
  table = comparison.table(metrics)
  assert table.index.tolist() == ['fedavg', 'f3ast']
  # Last 66 rounds: .5 and .7, mean .6, sample sd .1414.
  assert table.loc['fedavg', ('accuracy', 'mean')] == pytest.approx(0.6)
  assert table.loc['fedavg', ('accuracy', 'std')] == pytest.approx(0.02**0.5)
  assert table.loc['f3ast', ('sum_of_weights', 'mean')] == pytest.approx(0.5)
  assert table['seeds'].tolist() == [2, 1]


def test_markdown(metrics):
  lines = comparison.markdown(comparison.table(metrics)).splitlines()
  assert lines[0].startswith('| method')
  assert '0.600 ± 0.141' in lines[2] and lines[2].rstrip(' |').endswith('2')
  assert '0.900' in lines[3] and '±' not in lines[3]  # One seed, no sd.
  assert len({len(line) for line in lines}) == 1


def test_differences_are_paired_by_seed(tmp_path):
  metrics = comparison.load([
    _run(tmp_path / 'a', 'fedavg', 0, [0, 0, 0.4, 0.6], 1.0),
    _run(tmp_path / 'b', 'fedavg', 1, [0, 0, 0.7, 0.7], 1.0),
    _run(tmp_path / 'c', 'f3ast', 0, [0, 0, 0.6, 0.6], 1.0),
    _run(tmp_path / 'd', 'f3ast', 1, [0, 0, 0.6, 0.6], 1.0),
    _run(tmp_path / 'e', 'f3ast', 2, [0, 0, 0.1, 0.1], 1.0),  # Has no pair.
  ])
  # .6 - .5 = .1 and .6 - .7 = -.1: mean 0, sample sd .1414.
  assert comparison.differences(metrics) == [
    'F3AST - FedAvg, test accuracy by seed: +0.000 ± 0.141 (2 seeds)'
  ]


def test_runs_under_other_conditions_are_not_taken_for_a_pair(tmp_path):
  runs = [
    _run(tmp_path / 'a', 'fedavg', 0, [0, 0, 0.5, 0.5], 1.0, avail='always'),
    _run(tmp_path / 'b', 'f3ast', 0, [0, 0, 0.7, 0.7], 1.0, avail='scarce'),
  ]
  metrics = comparison.load(runs)
  assert comparison.differences(metrics) == []
  text = comparison.markdown(comparison.table(metrics))
  assert '| FedAvg, avail=always |' in text
  assert '| F3AST, avail=scarce  |' in text
  runs.append(
    _run(
      tmp_path / 'c', 'fedavg', 0, [0, 0, 0.6, 0.6], 1.0,
      avail='scarce', beta=9.0,  # A method's own setting may differ.
    )
  )
  (line,) = comparison.differences(comparison.load(runs))
  assert line == (
    'F3AST - FedAvg, avail=scarce, test accuracy by seed: +0.100 (one seed)'
  )


def test_what_makes_up_a_method_is_not_named_again(tmp_path):
  plain = {
    'method': 'none', 'rate_step': 'constant', 'sum_cap': 0.0, 'weight_cap': 0.0
  }
  of = {
    'fedavg': plain,
    'f3ast': plain,
    'scaffold': {**plain, 'method': 'scaffold'},
    'f3ast_safe': {**plain, 'rate_step': 'annealed:10', 'sum_cap': 1.0},
  }
  accuracy = [0, 0, 0.5, 0.5]
  runs = [
    _run(tmp_path / name, name, 0, accuracy, 1.0, **settings)
    for name, settings in of.items()
  ]
  table = comparison.table(comparison.load(runs))
  assert set(table.index) == set(of)
  # The same name, but not alike.
  changed = {**plain, 'sum_cap': 2.0, 'weight_cap': 3.0}
  runs.append(_run(tmp_path / 'e', 'f3ast', 0, accuracy, 1.0, **changed))
  labels = set(comparison.table(comparison.load(runs)).index)
  assert labels - set(of) == {'f3ast-sum_cap=2-weight_cap=3'}


def test_options_that_older_runs_do_not_name_were_off(tmp_path):
  runs = [
    _run(tmp_path / 'a', 'fedavg', 0, [0, 0, 0.5, 0.7], 1.0),
    _run(tmp_path / 'b', 'fedavg', 0, [0, 0, 0.6, 0.8], 1.0, local_steps=5),
  ]
  table = comparison.table(comparison.load(runs))
  assert list(table.index) == ['fedavg', 'fedavg, local_steps=5']
  runs[1] = _run(
    tmp_path / 'c', 'f3ast', 0, [0, 0, 0.6, 0.8], 1.0, local_steps=0
  )
  table = comparison.table(comparison.load(runs))
  assert list(table.index) == ['fedavg', 'f3ast']


def test_a_shorter_run_is_not_left_out(tmp_path):
  short = _run(tmp_path / 'a', 'fedavg', 0, [0, 0.2, 0.5, 0.7], 1.0, rounds=150)
  for name in ('metrics', 'rounds'):
    table = pd.read_csv(short / f'{name}.csv')
    table[table['round'] <= 150].to_csv(short / f'{name}.csv', index=False)
  metrics = comparison.load(
    [short, _run(tmp_path / 'b', 'f3ast', 0, [0, 0, 0, 0.9], 1.0, rounds=200)]
  )
  table = comparison.table(metrics)
  # The last 50 of 150 and the last 66 of 200 rounds: one test and two.
  assert table.loc['fedavg, rounds=150', ('accuracy', 'mean')] == 0.5
  assert table.loc['f3ast, rounds=200', ('accuracy', 'mean')] == 0.45


def test_a_run_that_diverged_is_not_averaged_away(tmp_path):
  nan = float('nan')
  metrics = comparison.load([
    _run(tmp_path / 'a', 'fedavg', 0, [0, 0, 0.5, 0.5], 1.0),
    _run(tmp_path / 'b', 'fedavg', 1, [0, 0, nan, 0.7], 1.0),
    _run(tmp_path / 'c', 'f3ast', 0, [0, 0, 0.5, 0.5], 1.0),
    _run(tmp_path / 'd', 'f3ast', 1, [0, 0, 0.5, 0.5], 1.0),
  ])
  lines = comparison.markdown(comparison.table(metrics)).splitlines()
  assert 'diverged' in lines[2] and 'diverged' not in lines[3]
  (difference,) = comparison.differences(metrics)
  assert difference.endswith('a run diverged')


def test_sample_data_are_no_result(tmp_path):
  folder = _run(tmp_path / 'a', 'fedavg', 0, [0, 0, 1, 1], 1.0)
  settings = {'algorithm': 'fedavg', 'seed': 0, 'data_source': 'sample'}
  (folder / 'config.json').write_text(json.dumps({'settings': settings}))
  with pytest.raises(ValueError, match='sample data'):
    comparison.load([folder])


def test_many_long_names_fit_and_differ(tmp_path):
  constraints = '10', '30', 'uniform:5,15', 'markov:10,2,0.1,0.3'
  settings = {
    'rounds': 200, 'avail': 'home_devices', 'server_learning_rate': 0.31623
  }
  runs = [
    _run(
      tmp_path / f'{algorithm}-{number}',
      algorithm,
      0,
      [0.1, 0.5, 0.6, 0.7],
      1.0,
      **{**settings, 'clients_per_round': constraint, 'beta': 1 / (2 + number)},
    )
    for number, constraint in enumerate(constraints)
    for algorithm in ('f3ast', 'fedavg')
  ]
  metrics = comparison.load(runs)
  # Saving checks that the legend does not leave the picture.
  comparison.draw(metrics, 'title', tmp_path / 'picture')
  looks = comparison._styles(metrics['label']).values()
  assert len({look[1:] for look in looks}) == len(runs)  # All differ.


def test_draw_writes_both_formats(metrics, tmp_path):
  comparison.draw(metrics, 'title', tmp_path / 'alpha-0.5')
  assert (tmp_path / 'alpha-0.5.png').stat().st_size > 5000
  assert '<svg' in (tmp_path / 'alpha-0.5.svg').read_text()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
