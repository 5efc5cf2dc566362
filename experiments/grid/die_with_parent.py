"""Runs a command that ends when its parent process does, however it ends.

  python die_with_parent.py PARENT_PID COMMAND [ARGUMENT ...]

A run outlives a grid that was killed. Linux can send a process a signal when
its parent dies; the process has to ask for it itself, so this script asks and
then becomes the run. It uses the standard library only and is run as a file,
without the package around it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(argv: list) -> None:
  """Asks for the signal and becomes the command."""
  parent, command = int(argv[1]), argv[2:]
  ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
  if os.getppid() != parent:  # It died before we asked.
    sys.exit(1)
  os.execv(command[0], command)


if __name__ == '__main__':
  main(sys.argv)
