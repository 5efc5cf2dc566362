"""How a benchmark and the processes that it times talk.

Each contender is a process of its own, so that it has its own memory, threads
and, for FedJAX, its own packages. It reads a line with the numbers of the
cohorts to train with and answers with a line with the seconds of each round.
Waiting costs nothing, so many can be ready at a time and take turns.

This module has to run wherever a contender runs: it needs NumPy alone.
"""

from collections.abc import Callable, Mapping, Sequence
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any, NamedTuple, Optional

import numpy as np


class Work(NamedTuple):
  """What all contenders of a task train on.

  Attributes:
    task: The name of the task.
    batch_size: The number of examples in a batch.
    cohorts: The clients of each round, [rounds, clients].
    examples: By client the examples `x` and `y`, after augmentation, of those
      who are in a cohort.
  """

  task: str
  batch_size: int
  cohorts: np.ndarray
  examples: dict[int, Mapping[str, np.ndarray]]


def save(work: Work, path: str) -> None:
  """Writes the work for contenders."""
  clients = sorted(work.examples)
  parts = [work.examples[k] for k in clients]
  np.savez(
    path,
    task=work.task,
    batch_size=work.batch_size,
    cohorts=work.cohorts,
    clients=clients,
    sizes=[len(part['y']) for part in parts],
    x=np.concatenate([part['x'] for part in parts]),
    y=np.concatenate([part['y'] for part in parts]),
  )


def load(path: str) -> Work:
  """Reads what `save` wrote."""
  with np.load(path, allow_pickle=False) as file:
    ends = np.cumsum(file['sizes'])[:-1]
    parts = zip(np.split(file['x'], ends), np.split(file['y'], ends))
    return Work(
      task=str(file['task']),
      batch_size=int(file['batch_size']),
      cohorts=file['cohorts'],
      examples={
        int(k): {'x': x, 'y': y} for k, (x, y) in zip(file['clients'], parts)
      },
    )


def peak_megabytes(pid: Optional[int] = None) -> int:
  """Returns the most memory that a process has had; by default this one."""
  if pid is None:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
  with open(f'/proc/{pid}/status') as status:
    line = next(line for line in status if line.startswith('VmHWM'))
  return int(line.split()[1]) // 1000


def serve(
  run_round: Callable[[np.ndarray], None],
  cohorts: np.ndarray,
  worker_pid: Optional[int] = None,
) -> None:
  """Runs the rounds that are asked for on standard input, until it ends.

  Args:
    run_round: Runs a round with the given clients.
    cohorts: The clients of each round.
    worker_pid: The process that does the work, if it is another.
  """
  # Libraries write to standard output too; the answers go where it was.
  answers = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
  os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
  for line in sys.stdin:
    seconds = []
    for number in json.loads(line):
      began = time.perf_counter()
      run_round(cohorts[number])
      seconds.append(time.perf_counter() - began)
    megabytes = {'driver': peak_megabytes()}
    if worker_pid is not None:
      megabytes['worker'] = peak_megabytes(worker_pid)
    print(json.dumps([seconds, megabytes]), file=answers, flush=True)


class Answer(NamedTuple):
  """What a contender says.

  Attributes:
    seconds: The seconds of each round.
    megabytes: The peaks of memory so far, of `driver` and `worker`.
  """

  seconds: list[float]
  megabytes: dict[str, int]


class TimedProcess:
  """A contender that runs."""

  def __init__(self, command: Sequence[str], log: Any, folder: str = '.'):
    self._process = subprocess.Popen(
      command,
      cwd=folder,
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=log,
      text=True,
    )

  def ask(self, cohorts: Sequence[int]) -> None:
    """Asks for rounds with the given cohorts."""
    assert self._process.stdin is not None
    self._process.stdin.write(json.dumps([int(c) for c in cohorts]) + '\n')
    self._process.stdin.flush()

  def answer(self) -> Optional[Answer]:
    """Waits for an answer; None if the process has ended instead."""
    assert self._process.stdout is not None
    line = self._process.stdout.readline()
    return Answer(*json.loads(line)) if line else None

  def stop(self) -> None:
    """Ends the process; one that is busy is killed."""
    assert self._process.stdin is not None
    self._process.stdin.close()
    try:
      self._process.wait(5)
    except subprocess.TimeoutExpired:
      self._process.kill()
      self._process.wait()

  def kill(self) -> None:
    """Kills the process, so that who waits for its answer gets None."""
    self._process.kill()
