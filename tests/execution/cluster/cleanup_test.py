"""Tests of `cluster.cleanup`: what stays when a driver has ended."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from f3ast_tff.execution.cluster import cleanup

# A driver as Ray leaves it: its own log is open until its very end, and so are
# those of a process that it has started and does not wait for.
_DRIVER = """
import atexit
import subprocess
import sys

from f3ast_tff.execution.cluster import cleanup

folder = sys.argv[1]
atexit.register(cleanup.start(folder).communicate)
own = open(f'{folder}/own.log', 'w')
with open(f'{folder}/other.log', 'w') as log:
  other = subprocess.Popen(
    ['sleep', '600'], stdout=log, start_new_session=True
  )
with open(sys.argv[2]) as elsewhere:
  reader = subprocess.Popen(['sleep', '600'], stdin=elsewhere)
print(other.pid, reader.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize('by', [None, signal.SIGTERM, signal.SIGKILL])
def test_however_a_driver_ends_no_process_and_no_folder_stays(by, tmp_path):
  folder, elsewhere = tmp_path / 'cluster', tmp_path / 'cluster.csv'
  folder.mkdir()
  elsewhere.touch()
  driver = subprocess.Popen(
    [sys.executable, '-c', _DRIVER, str(folder), str(elsewhere)],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
  )
  other, reader = map(
    psutil.Process, map(int, driver.stdout.readline().split())
  )
  try:
    assert other.is_running() and reader.is_running()
    if by is not None:
      driver.send_signal(by)
    driver.stdin.close()
    code = driver.wait(timeout=30)
    assert code == (0 if by is None else -by)
    deadline = time.monotonic() + 30
    while folder.exists() or _runs(other):
      assert time.monotonic() < deadline
      time.sleep(0.02)
    # Who has nothing to do with the folder is left alone.
    assert _runs(reader) and elsewhere.exists()
  finally:
    reader.kill()
    driver.kill()
    driver.stdout.close()


def test_a_folder_that_nobody_writes_into_is_removed_at_once(tmp_path):
  folder = tmp_path / 'cluster'
  folder.mkdir()
  (folder / 'log').touch()
  with open(folder / 'log') as log:  # To read is not to write.
    started = time.monotonic()
    cleanup.end(str(folder))
    assert not folder.exists() and time.monotonic() < started + 4
    assert log.read() == ''


def _runs(process):
  # One that has ended may wait for its parent.
  return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
