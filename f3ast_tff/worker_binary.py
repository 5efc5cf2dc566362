"""TFF's worker program: where it is and how to start it.

Standard library only, so that a machine that only lends its cores answers at
once. The worker of TFF 0.87 listens on all network interfaces and asks for no
password; `worker` can hide it from the network, TFF cannot.
"""

import contextlib
import importlib.util
import os
import pathlib
import socket
import subprocess
import sys
import time
from typing import Optional

_START_SECONDS = 60


class WorkerError(RuntimeError):
  """The TFF worker could not start, or is gone."""


class WorkerStartError(WorkerError):
  """The TFF worker could not start; trying again would not help."""


def path() -> str:
  """Returns where the program is."""
  spec = importlib.util.find_spec('tensorflow_federated')
  if spec is None or not spec.submodule_search_locations:
    raise WorkerStartError(
      'TensorFlow Federated is not installed; run "make setup" and use '
      '.venv/bin/python.'
    )
  folder = pathlib.Path(list(spec.submodule_search_locations)[0])
  program = folder / 'data' / 'worker_binary'
  if not program.is_file():
    raise WorkerStartError(
      f'TFF has no worker at {program}; install tensorflow-federated 0.87.0 '
      'for Linux x86_64 again, e.g. with make setup.'
    )
  return str(program)


def start(
  port: int,
  verbose: bool = False,
  threads: Optional[int] = None,
  parallel: Optional[int] = None,
) -> subprocess.Popen:
  """Starts the program; it ends with the thread that called this.

  Args:
    port: Where it shall listen.
    verbose: Whether its log goes to standard error.
    threads: How many threads one TensorFlow operation may use; None for as many
      as there are cores.
    parallel: How many participants are computed at a time; None leaves it to
      TensorFlow.

  Returns:
    The process, which listens.
  """
  environment = dict(os.environ)
  environment.setdefault('TF_CPP_MIN_LOG_LEVEL', '0' if verbose else '3')
  # TensorFlow turns oneDNN on by itself only on some CPUs; on others it halves
  # the time of convolutions too.
  environment.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')
  # Without a bound, glibc keeps an arena per thread and memory creeps up.
  environment.setdefault('MALLOC_ARENA_MAX', '2')
  if threads is not None:
    environment['TF_NUM_INTRAOP_THREADS'] = str(threads)
  if parallel is not None:
    environment.setdefault('TF_NUM_INTEROP_THREADS', str(parallel))
  launcher = pathlib.Path(__file__).with_name('die_with_parent.py')
  process = subprocess.Popen(
    [
      sys.executable,
      '-E',
      '-S',
      str(launcher),
      str(os.getpid()),
      path(),
      f'--port={port}',
    ],
    env=environment,
    stdin=subprocess.DEVNULL,
    stdout=subprocess.DEVNULL,
    stderr=None if verbose else subprocess.DEVNULL,
    start_new_session=True,  # Ctrl-C is for the caller, which then ends it.
  )
  for _ in range(_START_SECONDS * 20):
    if process.poll() is not None:  # If the port answers, it is another's.
      break
    with contextlib.suppress(OSError):
      socket.create_connection(('localhost', port), timeout=1).close()
      return process
    time.sleep(0.05)
  process.kill()
  raise WorkerStartError(
    f'The TFF worker did not start (exit code {process.wait()}); run with '
    '--verbosity=1 to see what it says.'
  )
