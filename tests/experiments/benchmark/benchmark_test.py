"""Tests of `experiments.benchmark`: with a stub, and once at a tiny size."""

import pathlib
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.benchmark import __main__ as benchmark
from f3ast_tff import methods as methods_lib
from tests import programs
from tests import stub_training

_SMALL = ('--methods=fedavg,f3ast', '--avail=always,scarce', '--rounds=3')


@pytest.fixture
def call(tmp_path, capsys):
  """Runs the program in this process; runs only pretend to train."""

  def call_(*arguments, fail=()):
    start = stub_training.Stub(tmp_path, fail=fail)
    return stub_training.call(benchmark, arguments, tmp_path, capsys, start)

  return call_


def test_more_methods_and_models_are_added_to_what_is_there(tmp_path, call):
  done = call(*_SMALL, '--seeds=0..1')
  assert done.returncode == 0, done.stderr
  assert done.stderr.count('started  ') == 8
  (folder,) = (tmp_path / 'runs').iterdir()
  assert folder.name.startswith('benchmark-synthetic-')
  assert str(folder / 'benchmark.html') in done.stdout
  assert 'Of 2 comparisons with f3ast, 0 are significantly' in done.stdout
  # The stub records neither clients, nor weights, nor memory.
  assert done.stdout.count('not recorded') == 2 * 2 * 2
  assert 'The runs did not record their memory.' in done.stdout
  done = call(
    '--methods=fedadam,fedavg,f3ast', '--avail=always', '--avail=scarce:0.5',
    '--rounds=3', '--seeds=0..1', '--reference=fedavg',
  )
  assert done.returncode == 0, done.stderr
  assert done.stderr.count('started  ') == 2 + 6
  assert [path.name for path in (tmp_path / 'runs').iterdir()] == [folder.name]
  table = pd.read_csv(folder / 'table.csv')
  assert table['avail'].unique().tolist() == ['always', 'scarce:0.5']
  assert table['method'].tolist() == ['fedadam', 'fedavg', 'f3ast'] * 2
  differences = pd.read_csv(folder / 'differences.csv')
  assert set(differences['other']) == {'fedavg'} and len(differences) == 4
  curves = pd.read_csv(folder / 'curves.csv')
  assert len(curves) == 12 * 3  # Runs and rounds.
  for name in ('accuracy', 'curves'):
    assert (folder / f'{name}.png').read_bytes().startswith(b'\x89PNG')
  assert len(pd.read_csv(folder / 'pairs.csv')) == 2 * 3


def test_a_run_that_fails_is_left_out_and_tried_again(tmp_path, call):
  flags = *_SMALL, '--seeds=0..1', '--output_dir=here'
  done = call(*flags, fail=['fedavg'])
  assert done.returncode == 1
  assert '4 runs did not finish and are left out' in done.stdout
  page = (tmp_path / 'here' / 'benchmark.html').read_text()
  assert '4 runs did not finish' in page and 'All pairs' not in page
  done = call(*flags)
  assert done.returncode == 0 and done.stderr.count('started  ') == 4
  assert 'nothing was run' in call(*flags).stdout


def test_by_default_all_methods_and_seven_models(call):
  lines = call('--dry_run').stdout.splitlines()
  number = 7 * len(methods_lib.ALGORITHMS) * 5
  assert lines[-1].startswith(f'{number} of {number} to run')
  assert '--avail=arrivals' in lines[-2] and '--seed=4' in lines[-2]
  assert '--on_divergence=continue' in lines[-2]


@pytest.mark.parametrize(
  'arguments, message',
  [
    (('--methods=fedavg,fedmagic',), 'flag --algorithm=fedmagic'),
    (('--avail=always,never',), "it is 'never'"),
    (('--beta=.1,.2',), '--beta is the same for all runs'),
    (('--algorithm=f3ast',), "Unknown command line flag 'algorithm'"),
    (('--methods=fedavg', '--reference=f3ast'), 'one of the methods, fedavg,'),
    (('--task=moon',), '--task=moon'),
    (('--seeds=0..4', '--seeds=2'), '--seed has 2 twice'),
    (('--add=absent.py',), 'cannot be read (No such file'),
    (('--cluster=moon',), 'local:N'),
  ],
)
def test_usage_errors_are_one_sentence(tmp_path, call, arguments, message):
  done = call(*arguments)
  assert (done.returncode, done.stdout) == (2, '')
  assert done.stderr.startswith('error: ') and done.stderr.count('\n') == 1
  assert message in done.stderr
  assert not list(tmp_path.iterdir())


def test_help_teaches(call):
  printed = call('--help').stdout
  assert '--add=examples/my_method.py' in printed
  names = [
    line.split(':')[0].strip(' -')
    for line in printed.splitlines()
    if line.startswith('  --')
  ]
  assert len(names) == len(set(names))
  assert {'methods', 'avail', 'reference', 'jobs', 'add', 'beta'} <= set(names)
  assert not {'algorithm', 'seed', '[no]resume'} & set(names)
  assert all(len(line) <= 80 for line in printed.splitlines())


def _last_half_bias(folder):
  """Returns the bias of a run's weights, from its files."""
  rounds = pd.read_csv(folder / 'rounds.csv', dtype=str).fillna('')
  clients = pd.read_csv(folder / 'clients.csv')
  share = pd.Series(0.0, index=clients['client'])
  for row in rounds[rounds['round'].astype(int) > len(rounds) / 2].itertuples():
    for client, weight in zip(row.clients.split(), row.weights.split()):
      share[int(client)] += float(weight)
  return (share / share.sum() - clients['p']).abs().sum() / 2


@pytest.mark.slow
def test_the_numbers_are_those_of_the_runs(tmp_path):
  methods, avails, seeds = ('f3ast', 'half_corrected'), ('always', 'uneven'), 2
  own = pathlib.Path(__file__).parents[3] / 'examples' / 'my_method.py'
  flags = [
    f'--add={own}',
    f'--methods={",".join(methods)}',
    f'--avail={",".join(avails)}',
    '--seeds=0..1',
    '--rounds=6',
    '--eval_every=1',
    '--num_clients=12',
    '--clients_per_round=3',
    '--output_dir=real',
    '--jobs=2',
  ]
  printed = programs.succeed(tmp_path, 'experiments.benchmark', *flags)
  assert 'Of 2 comparisons with f3ast' in printed
  folder = tmp_path / 'real'
  accuracy, bias, examples = {}, {}, {}
  for avail in avails:
    for method in methods:
      for seed in range(seeds):
        run = folder / f'runs/avail={avail}-algorithm={method}-seed={seed}'
        tests = pd.read_csv(run / 'metrics.csv')
        # The last third of the rounds counts.
        late = tests.loc[tests['round'] > 4, 'accuracy']
        accuracy[avail, method, seed] = late.mean()
        bias[avail, method, seed] = _last_half_bias(run)
        held = pd.read_csv(run / 'clients.csv').set_index('client')['examples']
        chosen = (run / 'rounds.csv').read_text().splitlines()[1:]
        examples[avail, method, seed] = np.mean([
          sum(held[int(k)] for k in line.split(',')[-2].split())
          for line in chosen
        ])
        rounds = pd.read_csv(run / 'rounds.csv', dtype={'weights': str})
        sums = [
          sum(map(float, str(text).split()))
          for text in rounds['weights'].fillna('')
        ]
        np.testing.assert_allclose(rounds['sum_of_weights'], sums, rtol=1e-4)
  runs = pd.read_csv(folder / 'runs.csv').set_index(['avail', 'method', 'seed'])
  assert len(runs) == 8
  for place in accuracy:
    assert runs['accuracy'][place] == pytest.approx(accuracy[place], rel=1e-4)
    assert runs['misplaced'][place] == pytest.approx(bias[place], rel=1e-4)
    assert runs['examples_per_round'][place] == pytest.approx(
      examples[place], rel=1e-4
    )
    assert runs['peak_memory_mb'][place] > 50
  table = pd.read_csv(folder / 'table.csv').set_index(['avail', 'method'])
  pairs = pd.read_csv(folder / 'pairs.csv').set_index('avail')
  p_values = []
  for avail in avails:
    of_method = {
      method: np.array([accuracy[avail, method, seed] for seed in range(seeds)])
      for method in methods
    }
    for method in methods:
      row = table.loc[(avail, method)]
      found = of_method[method]
      assert row['accuracy_mean'] == pytest.approx(found.mean(), rel=1e-4)
      assert row['accuracy_std'] == pytest.approx(found.std(ddof=1), rel=1e-4)
    better = max(methods, key=lambda each: of_method[each].mean())
    assert table['rank'][avail, better] in (1, 1.5)
    p_values.append(stats.ttest_rel(*of_method.values()).pvalue)
  np.testing.assert_allclose(pairs['p'], p_values, rtol=1e-4)
  p_values.sort()
  adjusted = [min(2 * p_values[0], p_values[1]), p_values[1]]
  np.testing.assert_allclose(sorted(pairs['p_adjusted']), adjusted, rtol=1e-4)
  page = (folder / 'benchmark.html').read_text()
  assert 'half_corrected' in page and 'src="data:image/svg+xml' in page
  assert 'src="http' not in page and 'href="http' not in page
  # The file belongs to the runs of its method: another one is refused.
  changed = tmp_path / 'my_method.py'
  changed.write_text(own.read_text() + '# Changed.\n')
  flags[0] = f'--add={changed}'
  error = programs.one_error(tmp_path, 'experiments.benchmark', *flags)
  assert 'half_corrected' in error and 'add_sha256' in error


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
