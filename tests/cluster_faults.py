"""Disturbs runs on a Ray cluster, and compares what they leave.

  python -m tests.cluster_faults --trials=20

A run in one process that nobody disturbs is the reference. In each trial the
same run trains on a cluster of three nodes of this machine, and at a random
round something happens to it:

  worker     A worker is killed.
  node       All processes of a node are killed; later another one joins.
  driver     The driver is killed and resumed, with the cluster or without.
  join       A node joins.
  stop       A worker is stopped, so that it lives and does not answer.
  stop node  What connects a node to the others, Ray's raylet, is stopped.
  gone       All nodes are killed; the run is resumed without the cluster.

The files must equal those of the reference, bit for bit; a worker that is lost
must be told in one line; and a node that joins must be used. The exit code is 1
if something is otherwise.
"""

import collections
from collections.abc import Iterator, Sequence
import contextlib
import logging
import os
import pathlib
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, NamedTuple, Optional

# Before Ray is imported: nobody else can talk to what is started here.
os.environ.update(
  RAY_AUTH_MODE='token',
  RAY_AUTH_TOKEN=secrets.token_hex(32),
  RAY_USAGE_STATS_ENABLED='0',
)

from absl import app
from absl import flags
import psutil

from f3ast_tff.execution.cluster import cleanup
from tests import trials

_TRIALS = flags.DEFINE_integer('trials', 20, 'How many.', lower_bound=1)
_NUM_ROUNDS = flags.DEFINE_integer(
  'num_rounds', 800, 'Rounds of a run.', lower_bound=100
)
_CHANCE = flags.DEFINE_integer('chance', 0, 'Decides what happens when.')
_KEEP = flags.DEFINE_string(
  'keep', None, 'A new folder for all runs; by default they are thrown away.'
)
_KINDS = flags.DEFINE_list('kinds', None, 'What happens; by default all.')

_NUM_NODES = 3
_PATIENCE = 300.0  # Seconds that anything may take before a trial has failed.
_GONE_SECONDS = 15.0  # Within which a driver says that its cluster is gone.


class Problem(Exception):
  """What is wrong in a trial."""


class Node:
  """A node of the cluster."""

  def __init__(self, node: Any):
    self.ray_node = node
    self.name = f'({node.node_id[:8]})'

  def processes(self) -> list[psutil.Process]:
    """Returns all of its processes, and those that they have started."""
    found = []
    for kind in self.ray_node.all_processes.values():
      for info in kind:
        with contextlib.suppress(psutil.NoSuchProcess):
          process = psutil.Process(info.process.pid)
          found += [process, *process.children(recursive=True)]
    return found

  def raylet(self) -> psutil.Process:
    (info,) = self.ray_node.all_processes['raylet']
    return psutil.Process(info.process.pid)


class Cluster:
  """A Ray cluster on this machine: a head that does not train, and nodes."""

  def __init__(self) -> None:
    self._cluster: Any = None
    self._num_started = 0
    self.nodes: list[Node] = []

  @property
  def address(self) -> str:
    return self._cluster.address

  def have(self, number: int) -> None:
    """Starts or ends nodes, so that there are so many."""
    from ray import cluster_utils

    logging.getLogger('ray').setLevel(logging.ERROR)
    if self._cluster is None:
      self._cluster = cluster_utils.Cluster(
        initialize_head=True,
        head_node_args={'num_cpus': 0, 'include_dashboard': False},
      )
    while len(self.nodes) > number:
      self.kill(self.nodes[-1])
    while len(self.nodes) < number:
      self.add()

  def add(self) -> Node:
    # Drivers connect to a node with the address that Ray has written down. With
    # an address for each node, and that of the head there, none of the nodes
    # that are killed is the driver's own.
    head = self._cluster.head_node
    written = pathlib.Path(head.get_session_dir_path(), 'node_ip_address.json')
    address_of_head = written.read_bytes()
    self._num_started += 1
    node = self._cluster.add_node(
      num_cpus=1, node_ip_address=f'127.0.1.{self._num_started}'
    )
    written.write_bytes(address_of_head)
    self.nodes.append(Node(node))
    return self.nodes[-1]

  def kill(self, node: Node) -> None:
    """Kills all processes of a node."""
    self.nodes.remove(node)
    _kill(node.processes())
    self._cluster.remove_node(node.ray_node, allow_graceful=False)

  def kill_all(self) -> None:
    """Kills all processes of all nodes, the head included."""
    if self._cluster is None:
      return
    head = Node(self._cluster.head_node)
    _kill([p for node in [head, *self.nodes] for p in node.processes()])
    for node in [*self.nodes, head]:
      self._cluster.remove_node(node.ray_node, allow_graceful=False)
    self._cluster, self.nodes = None, []


def _kill(processes: Sequence[psutil.Process]) -> None:
  for process in processes:
    with contextlib.suppress(psutil.NoSuchProcess):
      process.kill()


class Driver:
  """A driver that runs."""

  def __init__(
    self,
    folder: pathlib.Path,
    cluster: Optional[Cluster],
    resume: bool = False,
    program: str = 'experiments.synthetic',
  ):
    self.folder = folder
    self._log = folder.with_suffix(f'.{time.monotonic_ns()}.log')
    arguments = [
      '--algorithm=f3ast',
      f'--rounds={_NUM_ROUNDS.value}',
      '--parallel_clients=3',
      '--checkpoint_every=5',
      '--verbosity=0',  # It tells the processes of workers.
    ]
    environ = dict(os.environ)
    if cluster is not None:
      arguments.append('--cluster=auto')
      environ['RAY_ADDRESS'] = cluster.address
    if resume:
      arguments.append('--resume')
    with self._log.open('wb') as log:
      self._process = trials.start(
        folder, *arguments, program=program, log=log, env=environ
      )

  @property
  def log(self) -> str:
    """What it has printed."""
    return self._log.read_text()

  @property
  def rounds(self) -> int:
    """How many rounds have been recorded."""
    return trials.num_rounds(self.folder)

  @property
  def workers(self) -> dict[str, psutil.Process]:
    """The workers that have been ready at some time and live, by node."""
    found = {}
    for name, pid in re.findall(r'(\(\w+\)) is process (\d+)\.', self.log):
      with contextlib.suppress(psutil.NoSuchProcess):
        found[name] = psutil.Process(int(pid))
    return found

  @property
  def losses(self) -> list[str]:
    return re.findall(r'^W.*\] (.* is lost \(.*)', self.log, re.MULTILINE)

  def wait_until(
    self, is_so: Callable[[], bool], what: str, seconds: float = _PATIENCE
  ) -> None:
    """Returns when something is so, while it still runs."""
    deadline = time.monotonic() + seconds
    while not is_so():
      code = self._process.poll()
      if code is not None:
        last = trials.last_line(self.log)
        raise Problem(f'exit code {code} before {what}: {last}')
      if time.monotonic() > deadline:
        raise Problem(f'not after {seconds:.0f} s: {what}')
      time.sleep(0.002)

  def wait_for_round(self, number: int) -> None:
    self.wait_until(lambda: self.rounds >= number, f'round {number}')

  def finish(self, seconds: float = _PATIENCE) -> int:
    """Waits for its end and returns the exit code."""
    try:
      return self._process.wait(seconds)
    except subprocess.TimeoutExpired:
      raise Problem(f'it still runs after {seconds:.0f} s') from None

  def succeed(self) -> None:
    """Waits for an end without an error."""
    code = self.finish()
    if code != 0:
      raise Problem(f'exit code {code}: {trials.last_line(self.log)}')

  def kill(self) -> None:
    self._process.kill()
    self._process.wait()

  def noise(self) -> list[str]:
    """Returns what Ray has printed; the run itself says what matters."""
    return [
      line
      for line in self.log.splitlines()
      if re.search(r'\bray|\bgcs|core_worker|\*\*\*|Traceback', line, re.I)
      and not re.match(r'error: |[IW]\d{4} .* cluster\.py', line)
    ]


class Trial:
  """One run that is disturbed.

  Attributes:
    cluster: Where it trains.
    folder: Where its files go.
    chance: Decides what happens when.
    drivers: All of its drivers.
    told: What happened, for its line.
    pause: How many seconds passed until the run went on.
  """

  def __init__(
    self, cluster: Cluster, folder: pathlib.Path, chance: random.Random
  ):
    self.cluster, self.folder, self.chance = cluster, folder, chance
    self.drivers: list[Driver] = []
    self.told = ''
    self.pause = 0.0

  def start(
    self,
    on_cluster: bool = True,
    resume: bool = False,
    program: str = 'experiments.synthetic',
  ) -> Driver:
    """Starts a driver."""
    cluster = self.cluster if on_cluster else None
    driver = Driver(self.folder, cluster, resume, program)
    self.drivers.append(driver)
    return driver

  def start_with_all_workers(self, **options: Any) -> Driver:
    """Starts a driver and returns at a random round that all train in."""
    driver = self.start(**options)
    driver.wait_until(
      lambda: len(driver.workers) == len(self.cluster.nodes), 'all workers'
    )
    self.wait_for_random_round(driver)
    return driver

  def wait_for_random_round(self, driver: Driver) -> None:
    more = self.chance.randint(2, _NUM_ROUNDS.value // 5)
    driver.wait_for_round(driver.rounds + more)
    if driver.rounds > _NUM_ROUNDS.value // 2:
      raise Problem('the run was too fast for a fault in its first half')

  @contextlib.contextmanager
  def fault(self, driver: Driver, what: str) -> Iterator[None]:
    """Measures how long a run pauses when something is done to it."""
    rounds = driver.rounds
    self.told = f'{what} after round {rounds}'
    began = time.monotonic()
    yield
    # One more than the round that may have been through already.
    driver.wait_for_round(rounds + 2)
    self.pause = time.monotonic() - began

  def lose(self, driver: Driver) -> None:
    """Waits until the run has told of a loss."""
    driver.wait_until(lambda: bool(driver.losses), 'a loss is told')

  def join(self, driver: Driver) -> None:
    """Lets a node join, and checks that it is used."""
    rounds = driver.rounds
    node = self.cluster.add()
    driver.wait_until(lambda: node.name in driver.workers, 'a node joins')
    told = f'node {node.name} joins after round {rounds}, ready'
    self.told += f'{told} after round {driver.rounds}'
    workers = driver.workers
    others = [w for name, w in workers.items() if name != node.name]
    driver.wait_for_round(driver.rounds + 2)
    before = _cpu_seconds(workers[node.name]), max(map(_cpu_seconds, others))
    driver.wait_for_round(driver.rounds + 40)
    after = _cpu_seconds(workers[node.name]), max(map(_cpu_seconds, others))
    its, theirs = (b - a for a, b in zip(before, after))
    if its < theirs / 4:
      raise Problem(
        f'the node that joined worked {its:.2f} s, another {theirs:.2f} s'
      )


def _cpu_seconds(process: psutil.Process) -> float:
  times = process.cpu_times()
  return times.user + times.system


def _kill_worker(trial: Trial) -> None:
  driver = trial.start_with_all_workers()
  name, process = trial.chance.choice(sorted(driver.workers.items()))
  with trial.fault(driver, f'worker {name} killed'):
    process.kill()
  trial.lose(driver)
  driver.succeed()


def _kill_node(trial: Trial) -> None:
  driver = trial.start_with_all_workers()
  node = trial.chance.choice(trial.cluster.nodes)
  with trial.fault(driver, f'node {node.name} killed'):
    trial.cluster.kill(node)
  trial.lose(driver)
  trial.told += ', '
  trial.join(driver)
  driver.succeed()


def _kill_driver(trial: Trial) -> None:
  driver = trial.start()
  trial.wait_for_random_round(driver)
  rounds = driver.rounds
  driver.kill()
  on_cluster = trial.chance.random() < 0.5
  where = 'on' if on_cluster else 'without'
  trial.told = f'driver killed after round {rounds}, resumed {where} a cluster'
  trial.start(on_cluster, resume=True).succeed()


def _join(trial: Trial) -> None:
  trial.cluster.have(_NUM_NODES - 1)
  driver = trial.start()
  driver.wait_for_round(trial.chance.randint(5, 15))
  trial.join(driver)
  driver.succeed()


def _stop_worker(trial: Trial) -> None:
  driver = trial.start_with_all_workers(program='tests.short_timeout_driver')
  name, process = trial.chance.choice(sorted(driver.workers.items()))
  try:
    with trial.fault(driver, f'worker {name} stopped'):
      process.suspend()
    trial.lose(driver)
    driver.succeed()
  finally:
    _kill([process])


def _stop_node(trial: Trial) -> None:
  driver = trial.start_with_all_workers()
  node = trial.chance.choice(trial.cluster.nodes)
  try:
    with trial.fault(driver, f'node {node.name} stopped'):
      node.raylet().suspend()
    trial.lose(driver)
    driver.succeed()
  finally:
    trial.cluster.kill(node)


def _kill_all(trial: Trial) -> None:
  driver = trial.start()
  trial.wait_for_random_round(driver)
  rounds = driver.rounds
  began = time.monotonic()
  trial.cluster.kill_all()
  code = driver.finish(60)
  trial.pause = time.monotonic() - began
  trial.told = f'cluster killed after round {rounds}'
  errors = re.findall('^error: .*', driver.log, re.MULTILINE)
  if code != 1 or len(errors) != 1 or '--resume' not in errors[0]:
    raise Problem(f'exit code {code}, {errors}')
  if trial.pause > _GONE_SECONDS:
    raise Problem(f'the driver ended after {trial.pause:.0f} s')
  trial.start(on_cluster=False, resume=True).succeed()


_KIND_OF_FAULT: dict[str, tuple[Callable[[Trial], None], int]] = {
  # How many workers are lost, as the user reads it.
  'worker': (_kill_worker, 1),
  'node': (_kill_node, 1),
  'driver': (_kill_driver, 0),
  'join': (_join, 0),
  'stop': (_stop_worker, 1),
  'stop node': (_stop_node, 1),
  'gone': (_kill_all, 0),
}


class Outcome(NamedTuple):
  """How a trial ended.

  Attributes:
    told: What happened.
    seconds: How long it took.
    pause: How many seconds passed until the run went on, or ended if all nodes
      were killed.
    problem: What is wrong; empty if all is as it should be.
  """

  told: str
  seconds: float
  pause: float
  problem: str


def _check(
  trial: Trial, num_lost: int, reference: dict[str, bytes]
) -> None:
  """Checks what a trial has left."""
  difference = trials.difference(trial.folder, reference)
  if difference:
    raise Problem(difference)
  losses = [loss for driver in trial.drivers for loss in driver.losses]
  if len(losses) != num_lost:
    raise Problem(f'{len(losses)} lost instead of {num_lost}: {losses}')
  noise = [line for driver in trial.drivers for line in driver.noise()]
  if noise:
    raise Problem(f'{len(noise)} lines of noise, such as {noise[0]!r}')


def run_trial(
  kind: str,
  cluster: Cluster,
  folder: pathlib.Path,
  reference: dict[str, bytes],
  chance: random.Random,
) -> Outcome:
  """Disturbs a run and compares what it leaves."""
  cluster.have(_NUM_NODES)
  trial = Trial(cluster, folder, chance)
  disturb, num_lost = _KIND_OF_FAULT[kind]
  began = time.monotonic()
  problem = ''
  try:
    disturb(trial)
    _check(trial, num_lost, reference)
  except (Problem, OSError, psutil.Error) as error:
    problem = str(error)
  finally:
    for driver in trial.drivers:
      driver.kill()
  seconds = time.monotonic() - began
  return Outcome(trial.told, seconds, trial.pause, problem)


def _reference(folder: pathlib.Path) -> dict[str, bytes]:
  driver = Driver(folder / 'reference', None)
  try:
    driver.succeed()
  except Problem as error:
    sys.exit(f'error: the reference failed: {error}')
  finally:
    driver.kill()
  return trials.contents(driver.folder)


def _kinds(number: int, chance: random.Random) -> list[str]:
  """Returns so many kinds, each as often as the others, in random order."""
  known = _KINDS.value or list(_KIND_OF_FAULT)
  kinds: list[str] = []
  while len(kinds) < number:
    kinds += chance.sample(known, len(known))
  return kinds[:number]


def run_trials(folder: pathlib.Path, cluster: Cluster) -> int:
  """Runs all trials and prints how they went; returns how many failed."""
  reference = _reference(folder)
  outcomes: dict[str, list[Outcome]] = collections.defaultdict(list)
  kinds = _kinds(_TRIALS.value, random.Random(_CHANCE.value))
  for number, kind in enumerate(kinds):
    chance = random.Random(f'{_CHANCE.value} {number}')
    run_folder = folder / f'trial{number}'
    outcome = run_trial(kind, cluster, run_folder, reference, chance)
    outcomes[kind].append(outcome)
    print(
      f'trial {number} ({kind}): {outcome.told}; pause {outcome.pause:.1f} s '
      f'of {outcome.seconds:.0f} s; '
      f'{outcome.problem or "equal"}',
      flush=True,
    )
    if not outcome.problem and _KEEP.value is None:
      shutil.rmtree(run_folder)
  print('  kind       trials  equal  seconds  longest pause')
  for kind in (k for k in _KIND_OF_FAULT if k in outcomes):
    some = outcomes[kind]
    print(
      f'  {kind:<9}  {len(some):>6}  {sum(not o.problem for o in some):>5}  '
      f'{sum(o.seconds for o in some) / len(some):>7.0f}  '
      f'{max(o.pause for o in some):>11.1f} s'
    )
  return trials.report([o.problem for some in outcomes.values() for o in some])


def main(argv: Sequence[str]) -> None:
  """Runs the trials."""
  del argv
  unknown = set(_KINDS.value or ()) - set(_KIND_OF_FAULT)
  if unknown:
    sys.exit(f'error: kinds are {", ".join(_KIND_OF_FAULT)}, not {unknown}.')
  # Short, because sockets are below it.
  of_ray = tempfile.mkdtemp(prefix='f3ast-')
  os.environ['RAY_TMPDIR'] = of_ray
  cluster, watch = Cluster(), cleanup.start(of_ray)
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
  try:
    trials.main(lambda folder: run_trials(folder, cluster), _KEEP.value)
  finally:
    cluster.kill_all()
    watch.communicate()  # It ends what is left.


if __name__ == '__main__':
  app.run(main)
