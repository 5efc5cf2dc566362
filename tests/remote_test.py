"""Tests of `remote` on the real TFF runtime."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow_federated as tff

from f3ast_tff import remote

_AT_SERVER = tff.types.FederatedType(np.int32, tff.SERVER)
_AT_CLIENTS = tff.types.FederatedType(np.int32, tff.CLIENTS)


@tff.tensorflow.computation(np.int32, np.int32)
def _add(x, y):
  return x + y


@tff.federated_computation(_AT_SERVER, _AT_CLIENTS)
def _accumulate(total, values):
  news = tff.federated_sum(values)
  return tff.federated_map(_add, (total, news)), news


@tff.federated_computation
def _zero():
  return (tff.federated_value(np.int32(0), tff.SERVER),)


def test_a_state_stays_in_the_worker_between_calls(tff_worker):
  there = remote.Remote(tff_worker, num_participants=3)
  accumulate = there.load(_accumulate)
  (total,) = there.call(there.load(_zero))
  seen = []
  for values in ([1, 2, 3], [10, 20, 30], [0, 0, -6]):
    total, news = there.call(
      accumulate, total, there.put(values, _AT_CLIENTS)
    )
    seen.append(int(there.get(news)))
  assert seen == [6, 60, -6]
  assert there.get(total) == 60


def test_a_value_goes_there_and_back(tff_worker):
  there = remote.Remote(tff_worker, num_participants=1)
  assert there.get(there.put(np.int32(7), _AT_SERVER)) == 7


# The worker dies under a value that it keeps.
_DEATH = """
import numpy as np
from f3ast_tff import remote, runtime
from tests import remote_test as t

with runtime.worker() as worker:
  there = remote.Remote(worker, num_participants=1)
  accumulate = there.load(t._accumulate)
  (total,) = there.call(there.load(t._zero))
  worker.process.kill()
  try:
    there.call(accumulate, total, there.put([1], t._AT_CLIENTS))
  except runtime.WorkerError as error:
    print(error)
"""


def test_a_worker_that_died_is_named_and_the_end_is_quiet():
  done = subprocess.run(
    [sys.executable, '-c', _DEATH],
    capture_output=True,
    text=True,
    timeout=120,
    env={'TF_CPP_MIN_LOG_LEVEL': '3', 'PATH': '/usr/bin:/bin'},
  )
  assert done.stdout.startswith('The TFF worker ended with exit code -9')
  assert done.stderr == ''


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
