"""Ends what the driver of a local cluster leaves behind; a program of its own.

  python cleanup.py FOLDER

Its standard input ends when the driver does, however that ends. Then all
processes that write into the folder of the cluster are killed, and the folder
is removed. Ray alone would leave two processes of each node, and the folder.
"""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time


def start(folder: str) -> subprocess.Popen:
  """Starts the program; it acts when its standard input is closed."""
  return subprocess.Popen(
    [sys.executable, '-S', __file__, folder],  # Without packages: it is quick.
    stdin=subprocess.PIPE,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
    start_new_session=True,  # Ctrl-C is not for it.
  )


def end(folder: str) -> None:
  """Kills all other processes that write into a folder, and removes it."""
  # A driver that ends as it should waits for this, with its log still open.
  driver = os.getppid()
  deadline = time.monotonic() + 5.0
  while time.monotonic() < deadline:
    # More than once, because one may have started another in between.
    writers = set(_writers(folder)) - {driver}
    if not writers:
      break
    for process in writers:
      with contextlib.suppress(OSError):
        os.kill(process, signal.SIGKILL)
    time.sleep(0.05)
  shutil.rmtree(folder, ignore_errors=True)


def _writers(folder: str) -> Iterator[int]:
  """Yields the processes that have a file of a folder open for writing."""
  for path in pathlib.Path('/proc').glob('[0-9]*/fd/*'):
    with contextlib.suppress(OSError):  # It may have ended meanwhile.
      is_written = path.lstat().st_mode & 0o200
      if is_written and os.readlink(path).startswith(f'{folder}/'):
        yield int(path.parts[2])


if __name__ == '__main__':
  sys.stdin.read()
  end(sys.argv[1])
