"""Runs command lines of the programs in forks of one process.

What they have in common is imported once, so that a line takes a fraction of a
second. There is no TensorFlow: a program that imports it fails. What each
prints and its exit code are printed as JSON; the lines are read as JSON, too.
"""

import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import traceback
from typing import NamedTuple

from experiments import cli  # noqa: F401

_ROOT = pathlib.Path(__file__).parents[1]


class Ended(NamedTuple):
  """How a program ended."""

  code: int
  output: str
  errors: str


def _become(module, arguments):
  """Runs a program in this process, and ends it."""
  code = 0
  sys.argv = [module, *arguments]
  for name in ('tensorflow', 'tensorflow_federated'):
    sys.modules[name] = None
  try:
    runpy.run_module(module, run_name='__main__', alter_sys=True)
  except SystemExit as end:
    code = end.code or 0
  except BaseException:
    traceback.print_exc()
    code = 1
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(code)


def _run(module, *arguments):
  with tempfile.TemporaryFile('w+') as out, tempfile.TemporaryFile('w+') as err:
    child = os.fork()
    if child == 0:
      os.dup2(out.fileno(), 1)
      os.dup2(err.fileno(), 2)
      _become(module, arguments)
    _, status = os.waitpid(child, 0)
    texts = []
    for file in (out, err):
      file.seek(0)
      texts.append(file.read())
  return Ended(os.waitstatus_to_exitcode(status), *texts)


def run(lines):
  """Runs command lines, each a module and its arguments; returns how they end.

  Args:
    lines: The command lines.

  Returns:
    For each of them an `Ended`.
  """
  done = subprocess.run(
    [sys.executable, '-m', 'tests.command_lines'],
    input=json.dumps(lines),
    cwd=_ROOT,
    capture_output=True,
    text=True,
    timeout=300,
  )
  assert done.returncode == 0, done.stderr
  return [Ended(*ended) for ended in json.loads(done.stdout)]


if __name__ == '__main__':
  print(json.dumps([_run(*line) for line in json.load(sys.stdin)]))
