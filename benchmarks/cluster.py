"""What a round costs on a Ray cluster, against this process on the same cores.

  python -m benchmarks.cluster --data_dir=DIR

Both run the same rounds, by turns, two shards at a time: here two threads, on
the cluster two workers of this machine (`local:2`). They end with the same
model, to the last bit, or the program fails. Besides it counts what goes
through Ray: the model once for each node, who is in each shard, and the sums.

On two cores of one machine this shows what Ray adds to a round, and not how
much faster many machines are.

The task `population` has 100,000 clients, of whom 1,000 take part in a round.
"""

from collections.abc import Callable, Sequence
import functools
import statistics
import sys
import time
from typing import Any, NamedTuple

from absl import app
from absl import flags
import numpy as np
import pandas as pd
import psutil

from benchmarks import machine
from benchmarks import tasks
from experiments import cli
from f3ast_tff import randomness
from f3ast_tff.datasets import federated
from f3ast_tff.runs import config as config_lib

_TASKS = flags.DEFINE_list(
  'tasks', ['synthetic', 'population', 'shakespeare', 'cifar100'], 'Which.'
)
_ROUNDS = flags.DEFINE_integer(
  'rounds', 0, 'Rounds to time, after one that is not; 0 for what fits a task.'
)
_DATA_DIR = flags.DEFINE_string(
  'data_dir', '', "Where the real data are; by default TFF's own cache."
)
_OUTPUT = flags.DEFINE_string(
  'output', 'results/benchmarks/cluster', 'Files to write, without ending.'
)

_NUM_SHARDS = 2
_FITTING_ROUNDS = {'synthetic': 200, 'population': 20}
_POPULATION = 100_000


def population(num_clients: int = _POPULATION) -> federated.FederatedDataset:
  """Returns many small clients; their data are like those of Synthetic."""
  rng = randomness.generator(0, 'population')
  scale = np.arange(1, 61) ** -0.6
  sizes = rng.lognormal(2.0, 1.0, num_clients).astype(int) + 10
  train = []
  for size in sizes:
    weights = rng.standard_normal((60, 10), np.float32)
    mean = rng.standard_normal(60) + rng.standard_normal()
    x = mean + scale * rng.standard_normal((size, 60))
    x = x.astype(np.float32)
    y = np.argmax(x @ weights, axis=1).astype(np.int32)
    train.append({'x': x, 'y': y})
  test = {name: train[0][name][:5] for name in ('x', 'y')}
  return federated.FederatedDataset('population', train, test, np.zeros(5, int))


class _Traffic(NamedTuple):
  """Bytes of a round.

  Attributes:
    model: What clients are sent, once for each node.
    parts: Who is in which shard.
    sums: What comes back.
  """

  model: int
  parts: int
  sums: int


class _Counted:
  """A cluster whose traffic is counted."""

  def __init__(self, cluster: Any):
    self._cluster = cluster
    self.traffic: list[_Traffic] = []

  def runner(self, name: str, work: Any, num_partials: int) -> Any:
    """Returns what runs one of the works."""
    self._runner = self._cluster.runner(name, work, num_partials)
    return self

  def load(self, clients: Sequence[Any]) -> Sequence[Any]:
    """Returns the parts as they are."""
    return self._runner.load(clients)

  def start(
    self, broadcast: Sequence[Any], clients: Sequence[Any]
  ) -> Callable[[], Any]:
    """Starts the work of clients."""
    wait = self._runner.start(broadcast, clients)

    def counted() -> Any:
      from ray import cloudpickle  # As Ray sends them.

      sums = wait()
      self.traffic.append(
        _Traffic(
          sum(leaf.numpy().nbytes for leaf in broadcast),
          sum(len(cloudpickle.dumps(part)) for part in clients),
          sum(leaf.nbytes for sum_ in sums for leaf in sum_),
        )
      )
      return sums

    return counted


def _memory(process: psutil.Process) -> int:
  return process.memory_info().rss // 1_000_000


def _measure(task_name: str) -> dict[str, Any]:
  """Returns a row of the table."""
  from f3ast_tff.execution import rounds as rounds_lib
  from f3ast_tff.execution.cluster import cluster as cluster_lib
  from f3ast_tff.runs import run_directory
  from f3ast_tff.runs import task as task_lib

  many = task_name == 'population'
  config = config_lib.Config(
    algorithm='f3ast',
    avail='home_devices',
    batch_size=tasks.BATCH_SIZES.get(task_name, 20),
    clients_per_round='1000' if many else '10',
    parallel_clients=_NUM_SHARDS,
    rounds=10**6,
  ).resolve({'sgd': config_lib.LearningRates(0.01, server=1.0)})
  if many:
    task = task_lib.Task(population(), tasks.model('synthetic'))
  else:
    load = functools.partial(tasks.dataset, task_name, _DATA_DIR.value)
    task = task_lib.Task(load(), tasks.model(task_name), load)
  cluster = cluster_lib.Cluster(f'local:{_NUM_SHARDS}')
  training = task_lib.build(config, task)
  counted = _Counted(cluster)
  there = rounds_lib.Rounds(training, runner_of=counted.runner)
  began = time.perf_counter()
  cluster.open(
    functools.partial(task_lib.fillers, training.makers),
    functools.partial(
      task_lib.load_again, task.load, federated.fingerprint(task.dataset)
    ),
    functools.partial(task_lib.client_examples, task.dataset),
    run_directory.versions,
  )
  while cluster.capacity < _NUM_SHARDS:
    cluster.refresh()
    time.sleep(0.1)
  start_seconds = time.perf_counter() - began
  driver_memory = _memory(psutil.Process())
  here = rounds_lib.Rounds(training)
  seconds: dict[str, list[float]] = {'here': [], 'there': []}
  selected = []
  num_rounds = _ROUNDS.value or _FITTING_ROUNDS.get(task_name, 3)
  for t in range(1, num_rounds + 2):
    for name, rounds in (('here', here), ('there', there)):
      began = time.perf_counter()
      done = rounds.run(t)
      seconds[name].append(time.perf_counter() - began)
    selected.append(done.cohort.clients.size)
  for ours, theirs in zip(
    _leaves(here.state), _leaves(there.state), strict=True
  ):
    np.testing.assert_array_equal(ours, theirs)
  workers = [
    _memory(process)
    for process in psutil.Process().children(recursive=True)
    if process.name().startswith('ray::Worker')
  ]
  traffic = counted.traffic[-1]
  cluster.close()
  ratios = [b / a for a, b in zip(*(s[1:] for s in seconds.values()))]
  total = traffic.model + traffic.parts + traffic.sums
  return {
    'task': task_name,
    'clients': len(task.dataset.train),
    'selected': round(statistics.mean(selected)),
    'rounds': num_rounds,
    'in-process ms': 1000 * statistics.median(seconds['here'][1:]),
    'cluster ms': 1000 * statistics.median(seconds['there'][1:]),
    'ratio': statistics.median(ratios),
    **{f'{name} bytes': value for name, value in traffic._asdict().items()},
    'bytes a client': round(total / selected[-1]),
    'start s': start_seconds,
    'driver MB': driver_memory,
    'largest worker MB': max(workers, default=0),
  }


def _leaves(state: Any) -> list[Any]:
  weights = state.global_model_weights
  return [*weights.trainable, state.rates]


def main(argv: Sequence[str]) -> None:
  """Prints and writes the table."""
  del argv
  cli.before_tensorflow(threads=1)
  rows = []
  for task in _TASKS.value:
    rows.append(_measure(task))
    print(pd.DataFrame(rows[-1:]).T.to_string(header=False), flush=True)
  output = cli.here(_OUTPUT.value)
  table = pd.DataFrame(rows)
  table.to_csv(f'{output}.csv', index=False, float_format='%.3g')
  flags_given = [a for a in sys.argv[1:] if not a.startswith('--data_dir')]
  machine.write(
    output.with_name(f'{output.name}-machine.json'),
    ['benchmarks.cluster', *flags_given],
  )


if __name__ == '__main__':
  app.run(main, flags_parser=cli.parse_flags)
