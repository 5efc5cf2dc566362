"""Compares runs on Ray clusters of one, two and three nodes with one process.

  python -m tests.cluster_equal --data_dir=DIR

Nine methods on Synthetic and on Shakespeare with the compact model. All result
files must be equal, byte for byte. The exit code is 1 if one is not.
"""

from collections.abc import Sequence
import os
import pathlib
import secrets
import sys
import tempfile

from absl import app
from absl import flags
import tqdm

from tests import trials

_TASKS = flags.DEFINE_list('tasks', ['synthetic', 'shakespeare'], 'Which.')
_METHODS = flags.DEFINE_list(
  'methods',
  [
    'fedavg',
    'f3ast',
    'fedadam',
    'f3ast_adam',
    'power_of_choice',
    # These keep numbers of clients, numbers and losses, and vectors.
    'f3ast_fedau',
    'ca_fed',
    'scaffold',
    'mifa',
  ],
  'Which.',
)
_NUM_ROUNDS = flags.DEFINE_integer('num_rounds', 20, 'Of each run.')
_DATA_DIR = flags.DEFINE_string(
  'data_dir', None, "Where the real data are; by default TFF's own cache."
)

_MAX_NODES = 3


def _run(folder: pathlib.Path, task: str, *more: str) -> dict[str, bytes]:
  """Returns the files of a run."""
  if task == 'shakespeare':
    more = *more, '--model=compact'
    if _DATA_DIR.value:
      more = *more, f'--data_dir={_DATA_DIR.value}'
  process = trials.start(
    folder,
    f'--rounds={_NUM_ROUNDS.value}',
    # More than the smaller clusters have workers.
    f'--parallel_clients={_MAX_NODES}',
    *more,
    program=f'experiments.{task}',
    log=None,
  )
  if process.wait() != 0:
    sys.exit(f'error: the run in {folder} failed')
  config = (folder / 'config.json').read_bytes()
  return {**trials.contents(folder), 'config.json': config}


def main(argv: Sequence[str]) -> None:
  """Runs and compares."""
  del argv
  os.environ |= {
    'RAY_AUTH_MODE': 'token',
    'RAY_AUTH_TOKEN': secrets.token_hex(32),
    'RAY_USAGE_STATS_ENABLED': '0',
  }
  from ray import cluster_utils

  pairs = [(task, m) for task in _TASKS.value for m in _METHODS.value]
  num_equal = 0
  with tempfile.TemporaryDirectory() as name:
    root = pathlib.Path(name)
    expected = {
      pair: _run(root / '-'.join(pair), pair[0], f'--algorithm={pair[1]}')
      for pair in tqdm.tqdm(pairs, 'one process', disable=None)
    }
    cluster = cluster_utils.Cluster(True, head_node_args={'num_cpus': 0})
    os.environ['RAY_ADDRESS'] = cluster.address
    for num_nodes in range(1, _MAX_NODES + 1):
      cluster.add_node(num_cpus=1)
      for task, method in tqdm.tqdm(pairs, f'{num_nodes} nodes', disable=None):
        folder = root / f'{task}-{method}-{num_nodes}'
        flags_ = f'--algorithm={method}', '--cluster=auto'
        found = _run(folder, task, *flags_)
        is_equal = found == expected[task, method]
        num_equal += is_equal
        print(
          f'{task}, {method}, {num_nodes} nodes: '
          f'{"equal" if is_equal else "NOT EQUAL"}',
          flush=True,
        )
    cluster.shutdown()
  num_runs = _MAX_NODES * len(pairs)
  print(f'{num_equal} of {num_runs} runs equal the one in one process')
  if num_equal < num_runs:
    sys.exit(1)


if __name__ == '__main__':
  app.run(main)
