"""Tests of `runtime` with real processes that end in all the ways there are."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

# Prints the worker's process id, computes once, then ends as it is told.
_DRIVER = """
import os, signal, sys, time
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
import numpy as np
import tensorflow_federated as tff
from f3ast_tff import runtime

@tff.federated_computation(tff.types.FederatedType(np.int32, tff.CLIENTS))
def total(values):
  return tff.federated_sum(values)

with runtime.worker() as worker:
  assert total([1, 2, 3]) == 6
  print(worker.pid, flush=True)
  if sys.argv[1] == 'exception':
    raise RuntimeError('on purpose')
  if sys.argv[1] == 'wait':
    time.sleep(600)
  if sys.argv[1] == 'worker_dies':
    worker.process.kill()
    worker.process.wait()
    try:
      total([1, 2, 3])
    except runtime.WorkerError as error:
      sys.exit(str(error))
"""


def _is_gone(pid, seconds=10):
  deadline = time.monotonic() + seconds
  while time.monotonic() < deadline:
    try:
      if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
        return True
    except psutil.NoSuchProcess:
      return True
    time.sleep(0.05)
  return False


def _drive(how):
  driver = subprocess.Popen(
    [sys.executable, '-c', _DRIVER, how],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    # Tests in the background of a shell inherit that Ctrl-C is ignored.
    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
  )
  worker = int(driver.stdout.readline())
  return driver, worker


@pytest.mark.parametrize(
  'how, exit_code', [('normal', 0), ('exception', 1)]
)
def test_worker_ends_with_the_program(how, exit_code):
  driver, worker = _drive(how)
  # `communicate` returns only when nobody holds the pipe any more, so this is
  # also the test that `program | tee log` ends.
  _, errors = driver.communicate(timeout=60)
  assert driver.returncode == exit_code, errors
  assert _is_gone(worker)
  if how == 'normal':
    assert errors == ''


@pytest.mark.parametrize(
  'how', [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
)
def test_worker_ends_with_a_program_that_is_stopped(how):
  driver, worker = _drive('wait')
  assert psutil.pid_exists(worker)
  os.kill(driver.pid, how)
  driver.communicate(timeout=60)
  assert driver.returncode != 0
  assert _is_gone(worker)


def test_a_worker_that_died_is_an_error_and_not_a_wait_for_ever():
  driver, _ = _drive('worker_dies')
  _, errors = driver.communicate(timeout=60)
  assert driver.returncode == 1
  assert 'The TFF worker ended with exit code -9' in errors


def test_outside_of_a_worker_nothing_is_computed_or_started():
  program = (
    'import tensorflow_federated as tff\n'
    'from f3ast_tff import runtime\n'
    'one = tff.tensorflow.computation(lambda: 1)\n'
    'try:\n'
    '  one()\n'
    'except runtime.WorkerError as error:\n'
    '  print(error)\n'
  )
  done = subprocess.run(
    [sys.executable, '-c', program],
    capture_output=True,
    text=True,
    check=True,
    timeout=60,
    env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL='3'),
  )
  assert done.stdout.startswith('There is no TFF worker')
  assert done.stderr == ''


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
