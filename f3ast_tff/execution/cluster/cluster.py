"""Trains clients on a Ray cluster.

Every node has a worker, an actor that holds the data and the compiled work of
clients. A round sends it the model and who is in each shard, and brings back a
partial sum for each shard. The sums are those that threads of this process
would have made (`executor.Threads`), so it does not matter which worker makes
which, nor whether one that died is replaced by another.
"""

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import functools
import math
import os
import time
from typing import Any

from absl import logging
import tensorflow as tf

from f3ast_tff.execution import executor
from f3ast_tff.execution import functions
from f3ast_tff.execution.cluster import connection
from f3ast_tff.execution.cluster import members
from f3ast_tff.execution.cluster import worker as worker_lib

# A worker that does not answer for so long is taken for dead.
SILENCE_SECONDS = 30.0
# How long a round waits for a worker when there is none.
_PATIENCE_SECONDS = 300.0
_MOST_STARTS = 3  # How often a worker is started at one place.


class Cluster:
  """The workers of a cluster."""

  def __init__(self, where: str, threads_per_shard: int = 1):
    """Connects to a cluster.

    Args:
      where: As for `connection.check`.
      threads_per_shard: How many cores a shard is trained with.
    """
    self._num_local = connection.check(where)
    self._ray = connection.connect(where)
    self._own_node = connection.own_node(self._ray)
    self._threads_per_shard = threads_per_shard
    self._works: dict[str, executor.Work] = {}
    self._job: Any = None
    self._versions: Mapping[str, str] = {}
    self._data: Callable[[], Any] = lambda: None
    self._workers: dict[members.Place, members.WorkerHandle] = {}
    self._starts: collections.Counter = collections.Counter()
    self._refreshed = -math.inf
    self._last_loss = 'none of its nodes has a CPU for it'

  def runner(
    self, name: str, work: executor.Work, num_partials: int
  ) -> executor.Runner:
    """Returns what runs one of the works; to be called before `open`."""
    self._works[name] = work
    return _Runner(self, name, num_partials)

  def open(
    self,
    fill: Callable[[Any], Mapping[str, Callable[[Any], Any]]],
    load: Callable[[], Any],
    data: Callable[[], Any],
    versions: Callable[[], Mapping[str, str]],
  ) -> None:
    """Starts workers, and returns when one is ready.

    Args:
      fill: As in `worker.Job`.
      load: As in `worker.Job`.
      data: Returns what `load` does, for workers that cannot.
      versions: As in `worker.Job`.
    """
    self._versions = versions()
    self._job = self._ray.put(
      worker_lib.Job(self._works, fill, load, versions)
    )
    self._data = functools.cache(lambda: self._ray.put(data()))
    self._wait_for_a_worker()

  @property
  def capacity(self) -> int:
    """How many shards can be trained at a time, now."""
    return sum(w.num_threads for w in self._workers.values() if w.is_open)

  @property
  def size(self) -> int:
    """How many shards can be trained at a time when all workers are ready."""
    return sum(map(self._num_threads, (cpus for _, _, cpus in self._places())))

  def _num_threads(self, num_cpus: int) -> int:
    return max(1, num_cpus // self._threads_per_shard)

  def close(self) -> None:
    """Ends the workers, and the cluster if it was started here."""
    self._ray.shutdown()

  def _places(self) -> Iterator[tuple[members.Place, str, int]]:
    """Yields where workers can be, with a name and the number of CPUs."""
    for node in connection.nodes(self._ray):
      name = f'{node["NodeManagerHostname"]} ({node["NodeID"][:8]})'
      if self._num_local is not None:
        for number in range(self._num_local):
          place = members.Place(node['NodeID'], number)
          yield place, f'worker {number + 1}', 1
      else:
        num_cpus = int(node['Resources']['CPU'])
        yield members.Place(node['NodeID'], 0), name, num_cpus

  def _has(self, place: members.Place) -> bool:
    return any(place == here for here, _, _ in self._places())

  def refresh(self) -> None:
    """Takes up workers that are ready, and starts some at new places."""
    self._refreshed = time.monotonic()
    places = list(self._places())
    for place, name, num_cpus in places:
      if place not in self._workers and self._starts[place] < _MOST_STARTS:
        self._workers[place] = self._start(place, name, num_cpus)
    here = {place for place, _, _ in places}
    for place, worker in list(self._workers.items()):
      if place not in here and not worker.running:
        self._lose(place, 'its node is gone')
      elif not worker.is_open:
        self._look_if_open(place, worker)

  def _start(
    self, place: members.Place, name: str, num_cpus: int
  ) -> members.WorkerHandle:
    from ray.util import scheduling_strategies

    self._starts[place] += 1
    environ = {
      variable: value
      for variable, value in os.environ.items()
      if variable.startswith('TF_')
    }
    num_threads = self._num_threads(num_cpus)
    actor = self._ray.remote(worker_lib.Worker).options(
      num_cpus=num_cpus,
      max_concurrency=num_threads + 1,  # One to answer.
      scheduling_strategy=scheduling_strategies.NodeAffinitySchedulingStrategy(
        place.node, soft=False
      ),
    ).remote(environ, num_threads)
    opening = actor.open.remote(self._job)
    return members.WorkerHandle(actor, name, num_threads, opening)

  def _look_if_open(
    self, place: members.Place, worker: members.WorkerHandle
  ) -> None:
    """Takes up a worker if it is ready by now."""
    ready, _ = self._ray.wait([worker.opening], timeout=0)
    if not ready:
      return
    with self._losing(place, is_open=False):
      opened = self._ray.get(worker.opening)
      worker.opening = None
      if opened is None:  # It has taken the data.
        return
      differences = [
        f'{package} {there} instead of {self._versions.get(package)}'
        for package, there in opened.versions.items()
        if there != self._versions.get(package)
      ]
      if differences:
        self._starts[place] = _MOST_STARTS
        self._lose(place, f'it has {", ".join(differences)}')
        return
      if opened.cpu != worker_lib.cpu():
        logging.warning(
          '%s has another kind of CPU (%s instead of %s), so that last bits '
          'may differ.',
          worker.name,
          opened.cpu,
          worker_lib.cpu(),
        )
      logging.info('%s is process %d.', worker.name, opened.process)
      if opened.why_no_data is not None:
        logging.info('%s: %s', worker.name, opened.why_no_data)
        worker.opening = worker.actor.take.remote(self._data())

  @contextlib.contextmanager
  def _losing(self, place: members.Place, is_open: bool) -> Iterator[None]:
    """Takes errors of Ray for the end of a worker."""
    errors = self._ray.exceptions
    try:
      yield
    except errors.RayTaskError as error:
      if not is_open:
        self._starts[place] = _MOST_STARTS  # It would do so again.
        self._lose(place, str(error.cause))
        return
      name = self._workers[place].name
      raise connection.ClusterError(f'{name} fails: {error.cause}') from error
    except (errors.RayError, TimeoutError) as error:
      lines = [line.strip() for line in str(error).splitlines()]
      self._lose(place, next(filter(None, lines), type(error).__name__))

  def _lose(self, place: members.Place, why: str) -> list[int]:
    """Does without a worker; returns the shards that it was training."""
    worker = self._workers.pop(place)
    self._last_loss = f'{worker.name}: {why.rstrip(".")}'
    # Where a node has died, a worker may be started before Ray knows. It was
    # never of use, and the loss of the one before it has been logged.
    is_logged = worker.opening is not None and not self._has(place)
    logging.log(
      logging.INFO if is_logged else logging.WARNING,
      '%s is lost (%s); %s.',
      worker.name,
      why.rstrip('.'),
      'others train its clients' if self._workers else 'no other one is left',
    )
    with contextlib.suppress(Exception):  # It may be dead already.
      self._ray.kill(worker.actor)
    return list(worker.running.values())

  def _wait_for_a_worker(self) -> None:
    """Returns when a worker is ready."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not self.capacity:
      self.refresh()
      if not self._workers or time.monotonic() > deadline:
        raise connection.ClusterError(
          f'No node of the Ray cluster can train ({self._last_loss}).'
        )
      time.sleep(0.05)

  def start(
    self, name: str, broadcast: functions.Leaves, parts: Sequence[Any]
  ) -> Callable[[], list[functions.Leaves]]:
    """Starts the work of clients; see `executor.Runner`."""
    connection.check_own_node(self._own_node)
    if time.monotonic() > self._refreshed + 1.0:
      self.refresh()
    model = [leaf.numpy() for leaf in broadcast]
    round_ = members.RunningRound(
      name,
      parts,
      self._ray.put(model),
      collections.deque(range(len(parts))),
      {},
    )
    self._deal(round_)
    return functools.partial(self._wait, round_)

  def _deal(self, round_: members.RunningRound) -> None:
    """Gives shards to workers that have a thread for them."""
    while round_.waiting:
      ready = [w for w in self._workers.values() if w.is_open]
      worker = min(ready, key=lambda w: w.load, default=None)
      if worker is None or worker.load >= 1:
        return
      shard = round_.waiting.popleft()
      sum_ = worker.actor.add.remote(
        round_.name, round_.parts[shard], round_.broadcast
      )
      worker.running[sum_] = shard

  def _wait(self, round_: members.RunningRound) -> list[functions.Leaves]:
    """Returns the partial sums of a round, in the order of its parts."""
    while len(round_.sums) < len(round_.parts):
      if not self.capacity:
        self._wait_for_a_worker()
      self._deal(round_)
      running = [sum_ for w in self._workers.values() for sum_ in w.running]
      done: Sequence[Any] = ()
      if running:
        done, _ = self._ray.wait(running, num_returns=1, timeout=1.0)
      for place, worker in list(self._workers.items()):
        for sum_ in done:
          if sum_ in worker.running and place in self._workers:
            self._take(round_, place, worker, sum_)
      if not done:
        self.refresh()
        self._look_after(round_)
    for sum_ in round_.sums.values():
      if isinstance(sum_, worker_lib.Failure):
        raise tf.errors.UnknownError(None, None, sum_.message)
    return [round_.sums[shard] for shard in range(len(round_.parts))]

  def _take(
    self,
    round_: members.RunningRound,
    place: members.Place,
    worker: members.WorkerHandle,
    sum_: Any,
  ) -> None:
    """Takes a partial sum that is there."""
    shards = list(worker.running.values())
    with self._losing(place, is_open=True):
      # It may be on a node that has just died.
      value = self._ray.get(sum_, timeout=SILENCE_SECONDS)
      round_.sums[worker.running.pop(sum_)] = value
      return
    round_.waiting.extend(shards)

  def _look_after(self, round_: members.RunningRound) -> None:
    """Pings workers that train."""
    now = time.monotonic()
    for place, worker in list(self._workers.items()):
      if not worker.running:
        continue
      if worker.ping is None:
        worker.ping, worker.pinged = worker.actor.ping.remote(), now
      elif self._ray.wait([worker.ping], timeout=0)[0]:
        worker.ping = None  # An error of it is one of the shards', too.
      elif now > worker.pinged + SILENCE_SECONDS:
        why = f'it has not answered for {SILENCE_SECONDS:.0f} s'
        round_.waiting.extend(self._lose(place, why))


class _Runner:
  """One of the works of a cluster; see `executor.Runner`."""

  def __init__(self, cluster: Cluster, name: str, num_partials: int):
    self._cluster, self._name = cluster, name
    self._num_partials = num_partials

  def load(self, clients: Sequence[Any]) -> Sequence[Any]:
    """Deals parts out to the partial sums; workers fill them."""
    number = self._num_partials
    return [clients[place::number] for place in range(number)]

  def start(
    self, broadcast: functions.Leaves, clients: Sequence[Any]
  ) -> Callable[[], list[functions.Leaves]]:
    """Starts the work of clients."""
    return self._cluster.start(self._name, broadcast, clients)
