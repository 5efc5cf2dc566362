"""Runs command lines of the programs in forks of one process.

What they have in common is imported once, which saves a second each. There is
no TensorFlow: a program that imports it fails. With `tensorflow` as its
argument the process has loaded it, too, which saves four seconds. It must not
compute anything with it: threads that it would start are in no fork, and forks
would wait for them.

The process reads a line of JSON for each program, and answers with one.
"""

import atexit
import functools
import json
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from typing import NamedTuple

from experiments import cli

_ROOT = pathlib.Path(__file__).parents[1]
_TENSORFLOW = 'tensorflow'
_SECONDS = 300


class Ended(NamedTuple):
  """How a program ended; as of `subprocess.run`."""

  returncode: int
  stdout: str
  stderr: str


def _become(program, arguments, folder, environment):
  """Runs a program in this process, and ends it.

  Args:
    program: A module, or a file that ends in .py.
    arguments: What follows on its command line.
    folder: Where it stands.
    environment: All of its variables.
  """
  signal.alarm(_SECONDS)  # It is killed then.
  os.chdir(folder)
  os.environ.clear()
  os.environ.update(environment)
  sys.argv = [program, *arguments]
  code = 0
  try:
    if program.endswith('.py'):
      sys.path[0] = os.path.dirname(program)
      runpy.run_path(program, run_name='__main__')
    else:
      runpy.run_module(program, run_name='__main__', alter_sys=True)
  except SystemExit as end:
    code = end.code or 0
  except BaseException:
    traceback.print_exc()
    code = 1
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(code)


def _answer(request):
  """Runs a program in a fork; returns how it ends."""
  with tempfile.TemporaryFile('w+') as out, tempfile.TemporaryFile('w+') as err:
    child = os.fork()
    if child == 0:
      os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
      os.dup2(out.fileno(), 1)
      os.dup2(err.fileno(), 2)
      _become(*request)
    _, status = os.waitpid(child, 0)
    texts = []
    for file in (out, err):
      file.seek(0)
      texts.append(file.read())
  return Ended(os.waitstatus_to_exitcode(status), *texts)


def main(argv):
  """Answers until nobody asks any more."""
  if _TENSORFLOW in argv[1:]:
    cli.before_tensorflow()
    import f3ast_tff.execution.rounds
    import f3ast_tff.runs.loop
    import f3ast_tff.runs.summary  # noqa: F401
  else:
    import matplotlib.figure  # noqa: F401
    import pandas  # noqa: F401
    import scipy.stats  # noqa: F401

    for name in ('tensorflow', 'tensorflow_federated'):
      sys.modules[name] = None
  for line in sys.stdin:
    print(json.dumps(_answer(json.loads(line))), flush=True)
  os._exit(0)  # TFF's context complains when a program ends.


class _Server:
  """The process, which is one for all who ask in this one."""

  def __init__(self, *arguments):
    self._lock = threading.Lock()
    self._process = subprocess.Popen(
      [sys.executable, '-m', 'tests.command_lines', *arguments],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      cwd=_ROOT,
      text=True,
    )
    atexit.register(self._process.communicate)

  def ask(self, *request):
    """Returns how a program ends."""
    with self._lock:
      print(json.dumps(request), file=self._process.stdin, flush=True)
      return Ended(*json.loads(self._process.stdout.readline()))


_server = functools.lru_cache(_Server)


def run(program, *arguments, tensorflow=False, folder=_ROOT, **environment):
  """Runs a program.

  Args:
    program: A module, or a file that ends in .py.
    *arguments: What follows on its command line.
    tensorflow: Whether it may import that.
    folder: Where it stands.
    **environment: Variables to set.

  Returns:
    An `Ended`.
  """
  server = _server(*[_TENSORFLOW] * tensorflow)
  environment = {**os.environ, **environment}
  return server.ask(program, arguments, str(folder), environment)


if __name__ == '__main__':
  main(sys.argv)
