"""Tests of `cluster` on a real cluster of two nodes, by command lines.

Nothing of Ray is in this process. A run in one process is the reference: on a
cluster, whatever happens there, a run has to leave the same bytes.
"""

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import psutil
import pytest

from tests import trials

_PATIENCE = 240  # Seconds; much more than a run takes on a quiet machine.

_NUM_ROUNDS = 120
_RUN = (
  '--num_clients=20',
  # More shards than there are workers.
  '--parallel_clients=3',
  f'--rounds={_NUM_ROUNDS}',
  '--eval_every=60',
)

# A head that computes nothing and two nodes, until standard input ends.
_START = """
import os
import sys

from ray import cluster_utils
from ray._common import utils

# Ray writes the address there, and does not make the folder.
os.makedirs(utils.get_ray_temp_dir(), exist_ok=True)
cluster = cluster_utils.Cluster(
  initialize_head=True,
  head_node_args={
    'num_cpus': 0, 'include_dashboard': False, 'temp_dir': sys.argv[1]
  },
)
for _ in range(2):
  cluster.add_node(num_cpus=1)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def _environment(**changes):
  """Returns this environment, but for what leads to other clusters."""
  kept = {k: v for k, v in os.environ.items() if not k.startswith('RAY_')}
  # Nodes find the package as they would where it is installed.
  return {**kept, 'PYTHONPATH': str(trials.ROOT), **changes}


@pytest.fixture(scope='module', name='reference')
def _reference(tmp_path_factory):
  """Starts the run in one process; it goes on while the cluster starts."""
  folder = tmp_path_factory.mktemp('reference') / 'run'
  process = _start(folder)
  yield folder, process
  process.kill()


@pytest.fixture(scope='module', name='environment')
def _cluster(reference):
  """Starts a cluster; returns the environment that leads to it."""
  environment = _environment(
    RAY_AUTH_MODE='token',
    RAY_AUTH_TOKEN=secrets.token_hex(32),
    RAY_USAGE_STATS_ENABLED='0',
  )
  for _ in range(3):  # Ray may not start in time on a busy machine.
    # Sockets need a short path.
    folder = tempfile.mkdtemp(prefix='ray-', dir='/tmp')
    process = subprocess.Popen(
      [sys.executable, '-c', _START, folder],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      env=environment,
      text=True,
    )
    tree = [psutil.Process(process.pid)]
    address = process.stdout.readline().strip()
    if address:
      break
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)
  try:
    assert re.fullmatch(r'[\d.]+:\d+', address)
    tree += tree[0].children(recursive=True)
    yield {**environment, 'RAY_ADDRESS': address}
  finally:
    try:
      process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
      process.kill()
    for one in tree:
      if one.is_running():
        one.kill()
    shutil.rmtree(folder, ignore_errors=True)


def _start(folder, *flags, env=None, log=subprocess.PIPE):
  env = env or _environment()
  return trials.start(folder, *_RUN, *flags, env=env, log=log)


def _end(process):
  """Returns the exit code of a run and its messages."""
  try:
    _, errors = process.communicate(timeout=_PATIENCE)
  finally:
    process.kill()
  return process.returncode, errors


def _assert_same_files(folder, reference):
  there, process = reference
  assert _end(process) == (0, '')
  assert trials.difference(folder, trials.contents(there)) == ''
  assert _config(folder) == _config(there)


def _config(folder):
  """Returns the settings of a run, and what it ran on."""
  config = json.loads((folder / 'config.json').read_text())
  del config['revision']  # There may be a commit between two runs.
  return config


def _wait_until(condition, process):
  deadline = time.monotonic() + _PATIENCE
  while not condition():
    assert process.poll() is None and time.monotonic() < deadline
    time.sleep(0.02)


def _has_ended(process):
  try:  # One that has ended may wait for its parent.
    return process.status() == psutil.STATUS_ZOMBIE
  except psutil.NoSuchProcess:
    return True


@pytest.mark.slow
def test_a_worker_that_is_killed_is_named_and_changes_no_byte(
  environment, reference, tmp_path
):
  folder, log = tmp_path / 'run', tmp_path / 'log'
  with open(log, 'w') as file:
    process = _start(
      folder,
      '--cluster=auto',
      '--verbosity=0',
      env=environment,
      log=file,
    )
  try:
    _wait_until(lambda: trials.num_rounds(folder) >= 3, process)
    told = re.findall(r'\] (.* \(\w{8}\)) is process (\d+)\.', log.read_text())
    name, number = told[0]
    os.kill(int(number), signal.SIGKILL)
    assert process.poll() is None and trials.num_rounds(folder) < _NUM_ROUNDS
  finally:
    code, _ = _end(process)
  text = log.read_text()
  assert code == 0, text
  (warning,) = (line for line in text.splitlines() if 'is lost' in line)
  assert f'{name} is lost (' in warning
  assert warning.endswith('others train its clients.')
  # It was replaced, or others were there.
  assert len(re.findall(r'is process \d+\.', text)) > 1
  _assert_same_files(folder, reference)


# The run in this process, the same on the cluster, and what the workers have.
_WITHOUT_LOAD = """
import pathlib
import sys

from absl import logging

from f3ast_tff.datasets import synthetic
from f3ast_tff.execution.cluster import cluster as cluster_lib
from f3ast_tff.models import softmax
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import loop
from f3ast_tff.runs import task as task_lib

logging.set_verbosity(logging.INFO)
config = config_lib.Config(
  algorithm='power_of_choice',
  num_candidates=5,
  rounds=4,
  clients_per_round='3',
  eval_every=4,
  parallel_clients=2,
).resolve({'sgd': config_lib.LearningRates(0.05, 1.0)})
task = task_lib.Task(synthetic.load(num_clients=8, seed=1), softmax.build())
here, there = map(pathlib.Path, sys.argv[1:])
loop.run(config, task, here)
cluster = cluster_lib.Cluster('auto')
loop.run(config, task, there, cluster=cluster)
print(cluster.capacity)
cluster.close()
"""


@pytest.mark.slow
def test_data_that_a_node_cannot_load_come_from_the_driver(
  environment, tmp_path
):
  folders = tmp_path / 'here', tmp_path / 'there'
  for folder in folders:
    folder.mkdir()
  done = subprocess.run(
    [sys.executable, '-c', _WITHOUT_LOAD, *map(str, folders)],
    capture_output=True,
    env=environment,
    cwd=trials.ROOT,
    text=True,
    timeout=_PATIENCE,
  )
  assert done.returncode == 0, done.stderr
  assert 1 <= int(done.stdout.splitlines()[-1]) <= 2
  assert ': the task does not say how to load its data set' in done.stderr
  assert 'is lost' not in done.stderr
  here, there = folders
  assert trials.difference(there, trials.contents(here)) == ''


@pytest.mark.slow
def test_a_local_cluster_is_seen_by_this_machine_only_and_leaves_nothing(
  reference, tmp_path
):
  folder = tmp_path / 'run'
  # Sockets need a short path.
  with tempfile.TemporaryDirectory(prefix='t-', dir='/tmp') as temporary:
    process = _start(
      folder, '--cluster=local:1', env=_environment(TMPDIR=temporary)
    )
    try:
      _wait_until(lambda: trials.num_rounds(folder) >= 3, process)
      tree = psutil.Process(process.pid).children(recursive=True)
      listening = [
        connection.laddr.ip.removeprefix('::ffff:')  # IPv4, told as IPv6.
        for one in (psutil.Process(process.pid), *tree)
        for connection in one.net_connections(kind='inet')
        if connection.status == psutil.CONN_LISTEN
      ]
    finally:
      code, errors = _end(process)
    assert (code, errors) == (0, '')
    assert os.listdir(temporary) == []
  assert listening and set(listening) <= {'127.0.0.1', '::1'}
  deadline = time.monotonic() + 10
  while not all(map(_has_ended, tree)):
    assert time.monotonic() < deadline
    time.sleep(0.05)
  _assert_same_files(folder, reference)


def test_without_a_cluster_auto_ends_with_one_sentence_and_code_2(tmp_path):
  # Nobody listens there. Without an address Ray would look for clusters of this
  # machine, and there may be some.
  environment = _environment(RAY_ADDRESS='127.0.0.1:1')
  process = _start(tmp_path / 'run', '--cluster=auto', env=environment)
  code, errors = _end(process)
  assert code == 2
  assert 'error: There is no Ray cluster to connect to (' in errors
  assert errors.count('\n') == 1, errors


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
