"""Tests of `cluster`, with runs that only pretend to train."""

import os
import pathlib
import subprocess
import sys

import pytest

from experiments.grid import cell as grid_cell
from experiments.grid import cluster as cluster_lib
from experiments.grid import runner
from experiments.paper import cell as cells_lib
from experiments.paper import design
from tests import cluster_grid as program

_KEY = design.Key('paper', 'synthetic', 'scarce', 'f3ast')


def _order(places, marker, revision=None):
  revision = runner.revision() if revision is None else revision
  cell = program.PretendedCell(_KEY, 3)
  return cluster_lib._Order(cell, places, marker, revision, 1)


@pytest.fixture
def places(tmp_path):
  return cells_lib.Places(tmp_path / 'runs', tmp_path / 'results', True)


def test_a_node_that_sees_the_runs_runs_there(places):
  places.runs.mkdir()
  (places.runs / 'marker').touch()
  order = _order(places, places.runs / 'marker')
  *done, ended = cluster_lib.run_cell(order)
  assert ended == (0, {})
  assert grid_cell.is_whole(places.folder(order.cell), 3)
  assert done == sorted(done) and set(done) <= {0, 1, 2, 3}


def test_a_node_that_does_not_sends_the_files(places):
  order = _order(places, pathlib.Path('/nowhere/marker'))
  *_, ended = cluster_lib.run_cell(order)
  assert ended.exit_code == 0 and not places.runs.exists()
  assert set(ended.files) == {
    '', 'config.json', 'metrics.csv', 'model.npz', 'rounds.csv', 'starts',
    'timing.csv',
  }

  class Cluster:  # As if it had been started by one.
    def submit(self, order):
      del order

    def give_back(self, order):
      assert order.num_cores == 1

  job = cluster_lib._RemoteJob(Cluster(), order)
  assert job._end(ended) == 0
  assert grid_cell.is_whole(places.folder(order.cell), 3)
  assert places.log(order.cell).read_text() == ''


def test_a_node_with_other_code_is_named(places):
  (ended,) = cluster_lib.run_cell(_order(places, places.runs, 'f' * 40))
  assert ended.exit_code == 2
  message = ended.files[''].decode()
  assert f'and the grid {"f" * 40}; give all nodes the same.' in message
  assert message.startswith(os.uname().nodename)


def test_tasks_have_cores_of_their_own():
  all_cores = os.sched_getaffinity(0)
  with cluster_lib._own_cores(1) as first:
    assert len(first) == 1
    with cluster_lib._own_cores(1) as second:
      assert second == all_cores if len(all_cores) == 1 else second != first
    with cluster_lib._own_cores(len(all_cores)) as too_many:
      assert too_many == all_cores
  with cluster_lib._own_cores(1) as again:
    assert again == first


@pytest.mark.slow
def test_a_grid_that_loses_a_node_has_the_same_results():
  done = subprocess.run(
    [
      sys.executable, '-m', 'tests.cluster_grid', '--stub', '--num_cells=4'
    ],
    capture_output=True,
    text=True,
    timeout=300,
  )
  assert done.returncode == 0, done.stdout + done.stderr
  assert '4 of 4 result files equal the reference' in done.stdout
  assert 'killed a node after 1 cells' in done.stdout
  # One that ran there was started again.
  assert 'lost     paper/synthetic/' in done.stderr


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
