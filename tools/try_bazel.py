#!/usr/bin/env python3
"""Builds all targets with Bazel, tests the fast ones, runs an experiment.

`make bazel-test` calls this. Where there is no Bazel it installs Debian's
(version 4.2.3, package bazel-bootstrap) if it may: as root, or by a sudo that
asks for no password. Bazel runs everything with the Python of .venv.

The exit code is 2 if there is no Bazel and none can be installed, else that of
the first step that fails.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = 'bazel-bootstrap'


class BazelError(Exception):
  """There is no Bazel; said in one sentence."""


def how_to_become_root() -> list[str]:
  """Returns what to put before a command that root has to run.

  Raises:
    BazelError: This user cannot become root without being asked.
  """
  if os.geteuid() == 0:
    return []
  sudo = shutil.which('sudo')
  if sudo is not None:
    asked = subprocess.run([sudo, '-n', 'true'], capture_output=True)
    if asked.returncode == 0:
      return [sudo, '-n']
  raise BazelError(
    'Bazel is not installed, and this user may not install it: have root run '
    f'`apt-get install {PACKAGE}`, or put a Bazel of 4.2 or later on the PATH.'
  )


def install() -> None:
  """Installs Debian's Bazel.

  Raises:
    BazelError: That is not possible.
  """
  if shutil.which('apt-get') is None:
    raise BazelError(
      'Bazel is not installed, and this is no Debian where it could be: put a '
      'Bazel of 4.2 or later on the PATH.'
    )
  prefix = [*how_to_become_root(), 'env', 'DEBIAN_FRONTEND=noninteractive']
  print(f'Installing {PACKAGE} (about 150 MB with a Java runtime).', flush=True)
  for arguments in (
    ['update', '-q'],
    ['install', '-q', '-y', '--no-install-recommends', PACKAGE],
  ):
    done = subprocess.run(
      [*prefix, 'apt-get', *arguments],
      stdin=subprocess.DEVNULL,
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
    )
    # Lists that cannot be renewed may still do.
    if done.returncode != 0 and arguments[0] == 'install':
      lines = done.stdout.strip().splitlines() or ['no reason given']
      raise BazelError(
        f'apt-get could not install {PACKAGE} ({lines[-1]}): mend the cause, '
        'or put a Bazel of 4.2 or later on the PATH.'
      )
  if shutil.which('bazel') is None:
    raise BazelError(f'{PACKAGE} is installed, but no bazel is on the PATH.')


def steps(output_dir: str) -> list[list[str]]:
  """Returns the commands to run, one after the other."""
  quiet = ['--noshow_progress', '--color=no']
  return [
    ['bazel', 'build', *quiet, '//...'],
    ['bazel', 'test', *quiet, '//:fast'],
    [
      'bazel',
      'run',
      *quiet,
      '//experiments:cifar100',
      '--',
      '--avail=scarce',
      '--data_source=sample',
      '--model=compact',
      '--rounds=2',
      f'--output_dir={output_dir}',
    ],
  ]


def run_all() -> int:
  """Runs all steps; returns the exit code of the first that fails."""
  with tempfile.TemporaryDirectory(prefix='bazel_test_') as folder:
    for command in steps(os.path.join(folder, 'run')):
      print('$', shlex.join(command), flush=True)
      exit_code = subprocess.run(command, cwd=ROOT).returncode
      if exit_code != 0:
        return exit_code
  return 0


def main() -> int:
  """Returns the exit code."""
  try:
    if shutil.which('bazel') is None:
      install()
    return run_all()
  except BazelError as error:
    print(error, file=sys.stderr)
    return 2
  finally:
    if shutil.which('bazel'):
      # Its server would stay behind, with hundreds of megabytes.
      subprocess.run(['bazel', 'shutdown'], cwd=ROOT, capture_output=True)


if __name__ == '__main__':
  sys.exit(main())
