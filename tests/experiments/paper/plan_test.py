"""Tests of `plan`."""

import os
import sys

import pytest

from experiments.paper import cell as cells_lib
from experiments.paper import design
from experiments.paper import frames
from experiments.paper import plan
from experiments.paper import results
from tests import fake_results


def _cell(method, seed=0, variant='', **rest):
  key = design.Key('paper', 'synthetic', 'scarce', method, variant, seed)
  return cells_lib.Cell(key, 4, **rest)


def test_estimates_come_from_results_where_there_are_some():
  known = frames.values([
    fake_results.result(_cell('f3ast').key),  # Half a second a round.
  ])
  seconds = plan.seconds_known(known)
  assert plan.estimate(_cell('f3ast'), seconds) == pytest.approx(10 + 2)
  assert plan.estimate(_cell('fedavg'), seconds) == pytest.approx(10 + 2)
  no_results = plan.seconds_known(frames.values([]))
  assert no_results == {}
  assert plan.estimate(_cell('f3ast'), no_results) == pytest.approx(
    10 + 4 * plan._SECONDS_PER_ROUND[('paper', 'synthetic')]
  )


def test_text(tmp_path):
  places = cells_lib.Places(tmp_path / 'runs', tmp_path / 'results')
  done = fake_results.result(_cell('f3ast').key, weights=0.81234, rounds=4)
  results.write(places.results, done)
  cells = [
    _cell('f3ast'),
    _cell('fedavg'),
    _cell('fedavg', variant='matched', match=_cell('f3ast').key),
    _cell('fedavg', 1, variant='matched', match=_cell('f3ast', 1).key),
  ]
  lines = plan.text(cells, places, 2).splitlines()
  assert lines[0] == 'paper/synthetic/scarce-f3ast-seed=0: finished'
  assert lines[1] == f'  {cells[0].command}'
  assert lines[2] == 'paper/synthetic/scarce-fedavg-seed=0: 12 s to run'
  assert '--server_learning_rate=0.8123 --rounds=4 --seed=0' in lines[5]
  assert lines[6].endswith('to run, after paper/synthetic/scarce-f3ast-seed=1')
  assert lines[-1].startswith('4 cells, 3 to run: about 36 s of work, 18 s')


@pytest.mark.parametrize(
  # Twice 10 + 500 x 9 seconds on two cores.
  'num_cores, jobs, span',
  [(2, 2, '2.5 h'), (4, 2, '75 min'), (16, 1, '2.5 h'), (1, 2, '2.5 h')],
)
def test_large_models_take_two_cores(
  num_cores, jobs, span, tmp_path, monkeypatch
):
  monkeypatch.setattr(os, 'sched_getaffinity', lambda _: set(range(num_cores)))
  places = cells_lib.Places(tmp_path / 'runs', tmp_path / 'results')
  keys = [
    design.Key('paper', 'shakespeare', 'scarce', method)
    for method in ('f3ast', 'fedavg')
  ]
  cells = [cells_lib.Cell(key, 500) for key in keys]
  last = plan.text(cells, places, jobs).splitlines()[-1]
  assert f'about 2.5 h of work, {span} with --jobs={jobs}' in last


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
