"""Runs a grid on a Ray cluster that loses a node, and compares the results.

  python -m tests.cluster_grid --num_cells=20

The cells run here first, then on a cluster of two nodes on this machine, one
of which is killed with all its processes when some cells have finished. The
result files must be the same but for the time that runs took. The exit code is
1 if they are not.
"""

from collections.abc import Sequence
import dataclasses
import json
import os
import pathlib
import secrets
import sys
import tempfile
import textwrap
import threading
import time

from absl import app
from absl import flags

from experiments.grid import cluster as cluster_lib
from experiments.grid import runner
from experiments.paper import all_cells
from experiments.paper import cell as cells_lib

_NUM_CELLS = flags.DEFINE_integer('num_cells', 20, 'How many.', lower_bound=3)
_NUM_ROUNDS = flags.DEFINE_integer('num_rounds', 20, 'Of each.', lower_bound=1)
_STUB = flags.DEFINE_bool(
  'stub', False, 'Whether runs only pretend to train, which is quick.'
)

# Takes part of a second for a round, and continues where it was.
_PROGRAM = textwrap.dedent("""
  import json, os, pathlib, sys, time
  sys.stdout.reconfigure(line_buffering=True)
  settings, revision = json.loads(sys.argv[1])
  folder = pathlib.Path(sys.argv[2].partition('=')[2])
  folder.mkdir(parents=True, exist_ok=True)
  with open(folder / 'starts', 'a') as file:
    file.write(f'{os.environ.get("RAY_RAYLET_PID")}\\n')
  config = {'settings': settings, 'versions': {}, 'revision': revision}
  (folder / 'config.json').write_text(json.dumps(config))
  files = {
    'rounds.csv': dict(round=0, k=10, selected=10, empty=0, left_out=0,
                       sum_of_weights=0.8),
    'metrics.csv': dict(round=0, accuracy=0.5, loss=1, user_accuracy=0.5,
                        user_loss=1, sum_of_weights=1),
    'timing.csv': dict(round=0, train_seconds=0.5),
  }
  for name, row in files.items():
    if not (folder / name).exists():
      (folder / name).write_text(','.join(row) + '\\n')
  done = len((folder / 'rounds.csv').read_text().splitlines()) - 1
  for t in range(done + 1, settings['rounds'] + 1):
    time.sleep(0.1)  # Long enough to be killed on a busy machine.
    for name, row in files.items():
      values = {**row, 'round': t}.values()
      with open(folder / name, 'a') as file:
        file.write(','.join(map(str, values)) + '\\n')
  (folder / 'model.npz').touch()
""")


@dataclasses.dataclass(frozen=True)
class PretendedCell(cells_lib.Cell):
  """A cell whose run only writes files."""

  @property
  def arguments(self) -> list[str]:
    """What comes after `python`."""
    settings = {'server_learning_rate': 1.0, **self.settings}
    return ['-S', '-c', _PROGRAM, json.dumps([settings, 'a' * 40])]


def _contents(places: cells_lib.Places) -> dict[str, dict]:
  """Returns what result files hold, but for the time."""
  return {
    path.name: {**json.loads(path.read_text()), 'wall_seconds': 0}
    for path in places.results.rglob('*.json')
  }


def _busy(places: cells_lib.Places) -> set[int]:
  """Returns the raylets that run a pretended cell now."""
  return {
    int(starts.read_text().split()[-1])
    for starts in places.runs.rglob('starts')
    if not (starts.parent / 'model.npz').exists()
  }


def _kill_a_node(cluster, nodes, places, num_before) -> None:
  """Kills a node when so many cells have finished and it runs another one."""
  import ray

  while len(list(places.results.rglob('*.json'))) < num_before:
    time.sleep(0.1)
  # Ray connects the driver to any node of this machine, which must not die.
  own = ray.get_runtime_context().get_node_id()
  others = [node for node in nodes if node.node_id != own]
  if _STUB.value:
    raylets = {
      node.all_processes['raylet'][0].process.pid: node for node in others
    }
    while not (busy := raylets.keys() & _busy(places)):
      time.sleep(0.02)
    node = raylets[min(busy)]
  else:
    time.sleep(0.5)  # The next cells have begun.
    node = others[0]
  cluster.remove_node(node, allow_graceful=False)
  print(f'killed a node after {num_before} cells', flush=True)


def main(argv: Sequence[str]) -> None:
  """Runs both grids and compares them."""
  del argv
  os.environ |= {
    'RAY_AUTH_MODE': 'token',
    'RAY_AUTH_TOKEN': secrets.token_hex(32),
    'RAY_USAGE_STATS_ENABLED': '0',
  }
  from ray import cluster_utils

  cells = all_cells.main_grid(_NUM_ROUNDS.value)[: _NUM_CELLS.value]
  if _STUB.value:
    cells = [PretendedCell(cell.key, cell.rounds) for cell in cells]
  with tempfile.TemporaryDirectory() as folder:
    here, there = (
      cells_lib.Places(root / 'runs', root / 'results', True)
      for root in (pathlib.Path(folder) / 'here', pathlib.Path(folder) / 'ray')
    )
    began = time.monotonic()
    outcome = runner.run(cells, here, len(os.sched_getaffinity(0)))
    assert outcome == ([], []), outcome
    print(f'{len(cells)} cells here in {time.monotonic() - began:.0f} s')
    cluster = cluster_utils.Cluster(True, head_node_args={'num_cpus': 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    os.environ['RAY_ADDRESS'] = cluster.address
    machines = cluster_lib.Cluster('auto')
    began = time.monotonic()
    threading.Thread(
      target=_kill_a_node,
      args=(cluster, nodes, there, len(cells) // 4),
      daemon=True,
    ).start()
    outcome = runner.run(cells, there, machines)
    print(f'{len(cells)} cells there in {time.monotonic() - began:.0f} s')
    machines.close()
    cluster.shutdown()
    assert outcome == ([], []), outcome
    expected, found = map(_contents, (here, there))
  num_equal = sum(found.get(name) == expected[name] for name in expected)
  print(f'{num_equal} of {len(cells)} result files equal the reference')
  if num_equal < len(cells) or len(found) != len(cells):
    sys.exit(1)


if __name__ == '__main__':
  app.run(main)
