"""Tests of `benchmarks.round_time` and of how it talks to contenders."""

import pathlib
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest

from benchmarks import round_time
from benchmarks import round_time_chart
from benchmarks import timed_process

_RESULTS = pathlib.Path(__file__).parents[2] / 'results' / 'benchmarks'

# A contender that takes no time to speak of and talks a lot.
_SCRIPT = textwrap.dedent("""
  import sys
  from benchmarks import timed_process
  work = timed_process.load(sys.argv[1])
  def run_round(cohort):
    print('said by a library', list(cohort))
    assert list(work.examples[int(cohort[0])]['y']) == [int(cohort[0])] * 2
  timed_process.serve(run_round, work.cohorts)
""")


def _work():
  cohorts = np.array([[3, 1], [1, 2], [2, 3]])
  examples = {
    k: {'x': np.full((2, 4), k, np.float32), 'y': np.full(2, k, np.int32)}
    for k in (1, 2, 3)
  }
  return timed_process.Work('synthetic', 20, cohorts, examples)


def test_work_goes_to_a_file_and_back(tmp_path):
  timed_process.save(_work(), str(tmp_path / 'work.npz'))
  work = timed_process.load(str(tmp_path / 'work.npz'))
  assert work.task == 'synthetic' and work.batch_size == 20
  np.testing.assert_array_equal(work.cohorts, _work().cohorts)
  assert list(work.examples) == [1, 2, 3]
  for k, examples in work.examples.items():
    np.testing.assert_array_equal(examples['x'], _work().examples[k]['x'])


def test_a_contender_answers_for_each_round_and_ends(tmp_path):
  path = str(tmp_path / 'work.npz')
  timed_process.save(_work(), path)
  with open(tmp_path / 'log', 'w') as log:
    one = timed_process.TimedProcess([sys.executable, '-c', _SCRIPT, path], log)
    one.ask([0, 2])
    answer = one.answer()
    one.stop()
    assert one.answer() is None
  assert len(answer.seconds) == 2 and min(answer.seconds) > 0
  assert answer.megabytes['driver'] > 1
  assert (tmp_path / 'log').read_text().count('said by a library') == 2


def test_a_contender_that_fails_gives_no_answer(tmp_path):
  with open(tmp_path / 'log', 'w') as log:
    one = timed_process.TimedProcess([sys.executable, '-c', 'print(', 'x'], log)
    assert one.answer() is None
    one.kill()


def test_ratios_are_of_rounds_with_the_same_clients():
  # In the second block all is three times as slow; the ratio is 5 throughout.
  rows = [
    {
      'contender': name,
      'block': block,
      'cohort': cohort,
      'seconds': factor * (1 + cohort) * (1 + 2 * block) / 1000,
      'driver_mb': 10 * factor + block,
    }
    for block in (0, 1)
    for name, factor in (('fedavg', 1), ('stock', 5))
    for cohort in (0, 1, 2)
  ]
  table = round_time.summarize(
    pd.DataFrame([{'contender': 'fedjax'}, *rows]), 'fedavg'
  ).set_index('contender')
  assert table.loc['stock', 'times_ours'] == pytest.approx(5)
  # 1, 2, 3, 3, 6, 9 milliseconds.
  assert table.loc['fedavg', 'median_ms'] == pytest.approx(3)
  assert table.loc['stock', 'median_ms'] == pytest.approx(15)
  assert table.loc['stock', 'driver_mb'] == 51
  assert np.isnan(table.loc['fedjax', 'median_ms'])


def test_every_cohort_of_synthetic_is_warm_and_others_are_new():
  warm, blocks = round_time.plan('synthetic', 2)
  assert len(blocks) == 2 and set(blocks[0]) == set(warm)
  warm, blocks = round_time.plan('cifar100', 3)
  assert (warm, blocks) == ([0], [[1], [2], [3]])


def test_the_chart_shows_who_gave_no_result(tmp_path):
  table = pd.DataFrame([
    {'contender': 'fedavg', 'quartile_1_ms': 9, 'median_ms': 10,
     'quartile_3_ms': 12, 'times_ours': 1.0},
    {'contender': 'fedjax'},
  ])
  table.insert(0, 'task', 'shakespeare')
  table.insert(1, 'examples', 400)
  round_time_chart.draw(table, tmp_path / 'chart')
  assert (tmp_path / 'chart.png').stat().st_size > 1000
  assert (tmp_path / 'chart.svg').stat().st_size > 1000


def test_the_chart_of_the_results(tmp_path):
  # Saving it checks its layout.
  round_time_chart.draw(
    pd.read_csv(_RESULTS / 'round_time.csv'), tmp_path / 'chart'
  )
  assert (tmp_path / 'chart.png').stat().st_size > 1000


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
