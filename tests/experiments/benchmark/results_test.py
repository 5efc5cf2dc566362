"""Tests of `results`: comparisons from a table of runs, and those committed."""

import json
import pathlib
import sys
import types

import pandas as pd
import pytest

from experiments.benchmark import report
from experiments.benchmark import results
from experiments.benchmark import tables
from experiments.grid import runs as runs_lib
from tests import fake_results

_COMMITTED = pathlib.Path(__file__).parents[3] / 'results' / 'methods'
_TASKS = ('synthetic', 'shakespeare', 'cifar100')


def test_what_is_read_needs_no_curves(tmp_path):
  # Differences of .1, .2 and .3: t is .2 / (.1 / sqrt(3)) = 3.464, and with two
  # degrees of freedom p = 1 - t / sqrt(t^2 + 2) = .0742.
  accuracies = {'f3ast': [0.5, 0.5, 0.5], 'other': [0.6, 0.7, 0.8]}
  table = fake_results.benchmark(accuracies)
  table.to_csv(tmp_path / 'runs.csv', index=False)
  found = results.read('synthetic', tmp_path, 'f3ast', 'Task')
  (row,) = found.differences.itertuples()
  assert (row.method, row.other, row.verdict) == ('other', 'f3ast', 'undecided')
  assert row.mean == pytest.approx(0.2) and row.sd == pytest.approx(0.1)
  assert row.p == pytest.approx(0.0742, abs=1e-4)
  shown = report.pictures(found)
  assert set(shown) == {'accuracy.png', 'accuracy.svg'}
  said = report.content(found)
  page = report.page(found, said, shown, {'Elsewhere': 'other.html'})
  assert 'Benchmark: Task' in page and 'id="curves"' not in page
  assert '<a href="other.html">Elsewhere</a>' in page


@pytest.mark.parametrize(
  'task, told',
  [('synthetic', 'mean over the last 3 of 9'), ('cifar100', 'last test')],
)
def test_the_page_says_which_tests_count(tmp_path, task, told):
  table = fake_results.benchmark({'f3ast': [0.5, 0.5], 'other': [0.6, 0.7]})
  table.to_csv(tmp_path / 'runs.csv', index=False)
  found = results.read(task, tmp_path, 'f3ast', 'Task')
  assert told in report.content(found)['made']


@pytest.mark.parametrize('task', _TASKS)
def test_committed_tables_are_those_of_the_committed_runs(task):
  found = results.read(task, _COMMITTED / task, 'f3ast', task)
  for name in ('table', 'differences', 'pairs'):
    ours = getattr(found, name)
    theirs = pd.read_csv(_COMMITTED / task / f'{name}.csv')
    # Runs are written with six digits.
    pd.testing.assert_frame_equal(ours, theirs, check_dtype=False, rtol=1e-4)


def test_committed_runs_are_those_of_the_reproduction():
  """Both programs ran these, at other times and on other CPUs."""
  cells = _COMMITTED.parent / 'cells' / 'paper' / 'synthetic'
  runs = pd.read_csv(_COMMITTED / 'synthetic' / 'runs.csv')
  num_both = 0
  for run in runs.itertuples():
    path = cells / f'{run.avail}-{run.method}-seed={run.seed}.json'
    if not path.exists():  # A method or model of the benchmark only.
      continue
    tests = pd.DataFrame(json.loads(path.read_text())['metrics'])
    late = tests.loc[tests['round'] > 400, 'accuracy'].mean()
    # CPUs round differently, which can change the odd prediction.
    assert run.accuracy == pytest.approx(late, abs=1e-4), path.name
    num_both += 1
  assert num_both == 4 * 5 * 5  # Methods, availability models, seeds.


_RUN = {
  'metrics.csv': """round,accuracy,loss,user_accuracy,user_loss,sum_of_weights
4,0.2,3,0.2,3,1
5,0.5,2,0.3,2,1
6,0.7,1,0.6,1,0
""",
  # Client 1 alone four times, then both, then nobody.
  'rounds.csv': """round,sum_of_weights,clients,weights
1,1,1,1
2,1,1,1
3,1,1,1
4,1,1,1
5,1,0 1,0.5 0.5
6,0,,
""",
  'clients.csv': 'client,examples,p\n0,30,0.75\n1,10,0.25\n',
  'timing.csv': 'round,train_seconds,memory_mb\n1,2,90\n2,4,95\n3,9,80\n',
  'config.json': '{"settings": {}, "revision": "abc"}',
}


@pytest.mark.parametrize(
  # The mean over the last two of six rounds, and the last test.
  'task, accuracy', [('synthetic', 0.6), ('shakespeare', 0.7)]
)
def test_a_row_is_what_the_files_of_a_run_say(tmp_path, task, accuracy):
  for name, text in _RUN.items():
    (tmp_path / name).write_text(text)
  run = runs_lib.Run(
    'name',
    task,
    flags={},
    settings={'seed': 0, 'avail': 'uneven', 'algorithm': 'f3ast', 'rounds': 6},
  )
  places = types.SimpleNamespace(
    folder=lambda run: tmp_path, is_finished=lambda run: True
  )
  found = results.of_runs(task, [run], places, 'f3ast', 'Title', 'command')
  (row,) = found.runs.itertuples()
  assert row.accuracy == pytest.approx(accuracy)
  assert row.examples_per_round == pytest.approx((4 * 10 + 40) / 6)
  assert (row.seconds_per_round, row.peak_memory_mb) == (4, 95)
  assert (row.revision, row.diverged) == ('abc', 0)


def test_a_run_of_an_unknown_revision_is_on_the_page(tmp_path):
  table = fake_results.benchmark({'f3ast': [0.5, 0.5], 'other': [0.6, 0.7]})
  table.assign(revision='').to_csv(tmp_path / 'runs.csv', index=False)
  found = results.read('synthetic', tmp_path, 'f3ast', 'Task')
  pictures = {'accuracy.svg': b''}
  page = report.page(found, report.content(found), pictures, {})
  assert 'revision unknown' in page


@pytest.mark.parametrize(
  'p, text',
  [
    (0.0004, 'p < 0.001'),
    (0.0123, 'p = 0.012'),
    (0.049992, 'p = 0.04999'),
    (0.05, 'p = 0.05'),
    (0.0501, 'p = 0.05'),
    (0.5, 'p = 0.5'),
  ],
)
def test_a_p_value_is_on_the_side_of_its_verdict(tmp_path, p, text):
  table = fake_results.benchmark({'f3ast': [0.5, 0.5], 'other': [0.6, 0.7]})
  table.to_csv(tmp_path / 'runs.csv', index=False)
  found = results.read('synthetic', tmp_path, 'f3ast', 'Task')
  found = found._replace(differences=found.differences.assign(p_adjusted=p))
  (row,) = tables.differences_table(found).rows
  assert row[1].text.endswith(f', {text}')


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
