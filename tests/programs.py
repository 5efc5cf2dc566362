"""Runs programs of the project as a user does.

They are forks of a process that has imported much, see `command_lines`, which
saves most of their time; `synthetic_test` starts one as a shell does.
"""

from tests import command_lines

# What a program may have printed before it finds what is wrong.
LOADING = 'Loading TensorFlow ...\n'
_WITH_TENSORFLOW = {
  f'experiments.{name}'
  for name in (
    'cifar100', 'paper_losses', 'shakespeare', 'synthetic', 'variance'
  )
}


def run(folder, *arguments, **environment):
  """Runs a program; one that must not import TensorFlow cannot.

  Args:
    folder: Where the program is started as far as it knows.
    *arguments: The module and its arguments.
    **environment: Variables to set.

  Returns:
    How it ended.
  """
  program, *words = map(str, arguments)
  return command_lines.run(
    program,
    *words,
    tensorflow=program in _WITH_TENSORFLOW,
    BUILD_WORKING_DIRECTORY=str(folder),
    **environment,
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
