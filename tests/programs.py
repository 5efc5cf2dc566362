"""Runs programs of the project as a user does."""

import os
import pathlib
import subprocess
import sys

_ROOT = pathlib.Path(__file__).parents[1]
# What a program may have printed before it finds what is wrong.
LOADING = 'Loading TensorFlow ...\n'


def run(folder, *arguments, **environment):
  """Runs `python -m` with arguments.

  Args:
    folder: Where the program is started as far as it knows.
    *arguments: The module and its arguments.
    **environment: Variables to set.

  Returns:
    The process that is done.
  """
  return subprocess.run(
    [sys.executable, '-m', *map(str, arguments)],
    cwd=_ROOT,
    env={
      **os.environ,
      'BUILD_WORKING_DIRECTORY': str(folder),
      **environment,
    },
    capture_output=True,
    text=True,
    timeout=300,
  )


def succeed(folder, *arguments, **environment):
  """Runs a program that must not fail; returns what it prints."""
  done = run(folder, *arguments, **environment)
  assert done.returncode == 0, done.stderr
  return done.stdout


def one_error(folder, *arguments, code=2, **environment):
  """Runs a program that must end with one sentence; returns the sentence."""
  done = run(folder, *arguments, **environment)
  assert done.returncode == code, done.stderr
  assert done.stdout in ('', LOADING), done.stdout
  assert done.stderr.startswith('error: '), done.stderr
  assert done.stderr.count('\n') == 1, done.stderr
  return done.stderr
