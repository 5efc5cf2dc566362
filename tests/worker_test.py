"""Tests of `worker`: who reaches it, and that nothing stays behind."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest

from benchmarks import stand_ins


def _other_address():
  """Returns an address of this machine that is not loopback, or None."""
  for found in psutil.net_if_addrs().values():
    for address in found:
      if address.family == socket.AF_INET and not address.address.startswith(
        '127.'
      ):
        return address.address
  return None


def _listens(host, port):
  try:
    socket.create_connection((host, port), timeout=5).close()
  except OSError:
    return False
  return True


def test_by_default_nobody_else_reaches_it():
  with contextlib.ExitStack() as stack:
    try:
      machine = stack.enter_context(stand_ins.worker())
    except OSError as error:
      if 'does not allow a network namespace' not in str(error):
        raise
      pytest.skip(str(error))
    port = machine.address.port
    assert _listens('127.0.0.1', port)
    assert not _listens('127.0.0.2', port)  # Loopback too, but not asked for.
    other = _other_address()
    if other is not None:
      assert not _listens(other, port)
    # TFF's own worker, which listens everywhere, is in another network.
    _, binary = machine.family()
    assert 'worker_binary' in binary.name()
    assert os.readlink(f'/proc/{binary.pid}/ns/net') != os.readlink(
      '/proc/self/ns/net'
    )


def test_where_it_cannot_hide_it_does_not_start():
  program = (
    'import sys\n'
    'from f3ast_tff import worker\n'
    'def isolate():\n'
    '  raise PermissionError(1, "not allowed")\n'
    'worker.isolate = isolate\n'
    'worker.main(["--port=0"])\n'
  )
  done = subprocess.run(
    [sys.executable, '-c', program], capture_output=True, text=True, timeout=60
  )
  assert (done.returncode, done.stdout) == (2, '')
  assert '(not allowed)' in done.stderr and '--host=0.0.0.0' in done.stderr


def test_on_all_interfaces_if_told_so():
  with stand_ins.worker(stand_ins.HERE._replace(host='0.0.0.0')) as machine:
    assert _listens('127.0.0.1', machine.address.port)
    assert _listens('127.0.0.2', machine.address.port)


@pytest.mark.parametrize(
  'how, exit_code',
  [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)],
)
def test_nothing_stays_behind(how, exit_code):
  with stand_ins.worker(stand_ins.HERE._replace(host='0.0.0.0')) as machine:
    _, binary = machine.family()
    machine.process.send_signal(how)
    _, errors = machine.process.communicate(timeout=30)
    assert machine.process.returncode == exit_code
    assert 'network that you TRUST' in errors
    assert 'Traceback' not in errors
    deadline = time.monotonic() + 10
    while binary.is_running() and binary.status() != psutil.STATUS_ZOMBIE:
      assert time.monotonic() < deadline
      time.sleep(0.05)


def test_it_ends_when_the_worker_does():
  with stand_ins.worker(stand_ins.HERE._replace(host='0.0.0.0')) as machine:
    machine.family()[1].kill()
    _, errors = machine.process.communicate(timeout=30)
    assert machine.process.returncode == 1
    assert 'The TFF worker ended with exit code -9' in errors


@pytest.mark.parametrize(
  'arguments, message',
  [
    ([], '--port'),
    (['--port=x'], '--port'),
    (['--port=70000'], '--port'),
    (['--port=0', '--host=a..b'], 'cannot listen at a..b:0'),
    (['--port=0', '--host=192.0.2.1'], 'cannot listen at 192.0.2.1:0'),
    (['--port=0', '--parallel_clients=-1'], '--parallel_clients'),
  ],
)
def test_usage_errors(arguments, message):
  done = subprocess.run(
    [sys.executable, '-m', 'f3ast_tff.worker', *arguments],
    capture_output=True,
    text=True,
    timeout=60,
  )
  assert done.returncode == 2
  assert message in done.stderr
  assert 'Traceback' not in done.stderr


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
