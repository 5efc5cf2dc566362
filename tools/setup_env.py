#!/usr/bin/env python3
"""Makes the project's virtual environment, or returns at once if it is there.

`make setup` calls this.  It creates `.venv` beside the Makefile, installs the
pinned packages of requirements.txt and then the project itself (editable),
checks that TensorFlow Federated can be imported, and at the very end writes
`.venv/.stamp`.  A stamp that still fits requirements.txt, setup.py and the
Python version means that there is nothing to do.

Whatever goes wrong ends in one sentence on stderr.  The exit code is 2 if this
machine or this Python cannot be used, 1 if the installation failed, and 130 or
143 after an interruption; calling it again carries on where it stopped.

Only the standard library is used, and the syntax is that of Python 3.6, so that
an unsuitable Python gets a sentence and not a stack trace.
"""

import csv
import glob
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys

SUPPORTED = ((3, 10), (3, 11))
PROJECT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
VENV = os.path.join(PROJECT, '.venv')
VENV_PYTHON = os.path.join(VENV, 'bin', 'python')
STAMP = os.path.join(VENV, '.stamp')
LOG = os.path.join(VENV, 'setup.log')
LOCK = os.path.join(PROJECT, '.setup.lock')
# The files whose content decides whether an environment is up to date.
INPUTS = ('requirements.txt', 'setup.py')

# Settings that would lead Python or pip away from the environment being made.
_STRAY_VARIABLES = (
    'PIP_PREFIX',
    'PIP_REQUIRE_HASHES',
    'PIP_ROOT',
    'PIP_TARGET',
    'PIP_USER',
    'PYTHONHOME',
    'PYTHONPATH',
    'PYTHONSTARTUP',
    '__PYVENV_LAUNCHER__',
)

# Run by the new environment's Python; prints nothing if all is well.
_IMPORT_CHECK = """
import sys
try:
  import tensorflow_federated
except BaseException as error:
  lines = str(error).strip().splitlines() or ['no message']
  print('%s: %s' % (type(error).__name__, lines[0]))
  raise
"""


class SetupError(Exception):
  """A failure that is told to the user in one sentence.

  Attributes:
    exit_code: What the process returns.
  """

  def __init__(self, sentence, exit_code):
    super().__init__(sentence)
    self.exit_code = exit_code


def version_name(version):
  """Returns e.g. '3.11' for any tuple that begins with (3, 11)."""
  return '{}.{}'.format(*version[:2])


def check_machine():
  """Raises SetupError unless the packages exist for this machine."""
  machine = os.uname().machine if hasattr(os, 'uname') else 'unknown machine'
  if not sys.platform.startswith('linux') or machine != 'x86_64':
    raise SetupError(
        'TensorFlow Federated is published for Linux on x86_64 only and this '
        'is {} on {}: use such a machine, a virtual machine or a '
        'container.'.format(sys.platform, machine),
        2,
    )


def check_python():
  """Raises SetupError unless the packages exist for the running Python."""
  if tuple(sys.version_info[:2]) not in SUPPORTED:
    raise SetupError(
        'Python {} is needed, but this is Python {}: install one of them and '
        'name it, for example `make PYTHON=python3.11 setup`.'.format(
            ' or '.join(version_name(v) for v in SUPPORTED),
            '.'.join(str(part) for part in sys.version_info[:3]),
        ),
        2,
    )


def check_venv_module():
  """Raises SetupError if this Python cannot make virtual environments."""
  try:
    import ensurepip  # noqa: F401
    import venv  # noqa: F401
  except ImportError as error:
    raise SetupError(
        'This Python cannot make virtual environments ({}): install the '
        'missing part, on Debian and Ubuntu with `apt-get install '
        'python{}-venv`.'.format(error, version_name(sys.version_info)),
        2,
    )


def fingerprint(version):
  """Returns the stamp of an up-to-date environment of that Python version.

  Args:
    version: The Python version of the environment, such as '3.11'.

  Raises:
    SetupError: One of the files that determine the environment is unreadable.
  """
  digest = hashlib.sha256(version.encode())
  for name in INPUTS:
    try:
      with open(os.path.join(PROJECT, name), 'rb') as file:
        content = file.read()
    except OSError as error:
      raise SetupError(
          'Cannot read {} ({}): restore it, for example from a fresh '
          'checkout.'.format(name, error.strerror),
          2,
      )
    digest.update('\n{} {}\n'.format(name, len(content)).encode())
    digest.update(content)
  return digest.hexdigest()


def _head(path, size=4096):
  """Returns the beginning of a file, or nothing if it cannot be read."""
  try:
    with open(path, 'rb') as file:
      return file.read(size)
  except OSError:
    return b''


def venv_version():
  """Returns the Python version of a usable `.venv`, or None.

  Usable means: its interpreter is there, pip is installed in it, and it was
  made for this very folder (scripts of an environment hold absolute paths, so
  one that was moved or copied is not to be trusted).
  """
  match = re.search(
      rb'^version(?:_info)?\s*=\s*(\d+\.\d+)\b',
      _head(os.path.join(VENV, 'pyvenv.cfg')),
      re.MULTILINE,
  )
  if not match or not os.path.exists(VENV_PYTHON):
    return None
  own_bin = os.path.join(VENV, 'bin', '')
  if os.fsencode(own_bin) not in _head(os.path.join(VENV, 'bin', 'pip')):
    return None
  return match.group(1).decode()


def is_current():
  """Tells whether the environment is complete and up to date."""
  version = version_name(sys.version_info)
  stamp = _head(STAMP).decode('ascii', 'replace').strip()
  return venv_version() == version and stamp == fingerprint(version)


def child_environment():
  """Returns the environment variables for pip and the import check."""
  variables = dict(os.environ)
  for name in _STRAY_VARIABLES:
    variables.pop(name, None)
  return variables


def run_child(command, **options):
  """Runs a command to its end, and never leaves it behind when interrupted.

  Args:
    command: The program and its arguments.
    **options: More arguments of subprocess.Popen.

  Returns:
    The exit code, and the captured stdout and stderr if these are pipes.
  """
  process = subprocess.Popen(
      command, stdin=subprocess.DEVNULL, env=child_environment(), **options
  )
  try:
    stdout, stderr = process.communicate()
  except BaseException as interruption:
    # A terminal sends Ctrl-C to the child as well; a second one would disturb
    # pip while it tidies up.
    if not isinstance(interruption, KeyboardInterrupt):
      process.send_signal(signal.SIGINT)
    try:
      process.wait(timeout=5)
    except subprocess.TimeoutExpired:
      process.kill()
      process.wait()
    raise
  return process.returncode, stdout, stderr


def make_venv(lock):
  """Makes an empty environment in place of whatever is in `.venv`.

  Args:
    lock: The file object that holds the lock.

  Raises:
    SetupError: That is not possible.
  """
  python = sys.executable
  if sys.prefix != sys.base_prefix:
    # This runs inside an environment, perhaps the one about to be deleted: use
    # the Python that it was made with.
    name = 'python' + version_name(sys.version_info)
    base_python = os.path.join(sys.base_prefix, 'bin', name)
    python = base_python if os.path.exists(base_python) else python
  exit_code, output, _ = run_child(
      [python, '-m', 'venv', '--clear', VENV],
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      pass_fds=[lock.fileno()],
  )
  if exit_code != 0 or venv_version() is None:
    lines = output.decode(errors='replace').strip().splitlines()
    raise SetupError(
        'Cannot make a virtual environment in .venv ({}): check that the '
        'folder is writable, remove .venv and try again.'.format(
            lines[-1].strip() if lines else 'no reason given'
        ),
        2,
    )


def drop_half_installed():
  """Forgets packages whose installation was cut short.

  pip takes a package for installed as soon as its metadata folder is there,
  even if it was killed while still copying.  Without that folder it installs
  the package again.
  """
  pattern = os.path.join(VENV, 'lib', 'python*', 'site-packages', '*.dist-info')
  for info in glob.glob(pattern):
    site_packages = os.path.dirname(info)
    # pip writes INSTALLER when all files of the package have been copied.
    complete = os.path.exists(os.path.join(info, 'INSTALLER'))
    try:
      with open(
          os.path.join(info, 'RECORD'), newline='', encoding='utf-8'
      ) as record:
        for row in csv.reader(record):
          if not complete:
            break
          complete = (
              not row
              or row[0].endswith('.pyc')
              or os.path.lexists(os.path.join(site_packages, row[0]))
          )
    except OSError:
      complete = False
    if not complete:
      shutil.rmtree(info, ignore_errors=True)


def pip_install(arguments, what, lock):
  """Installs something with the environment's own pip.

  Args:
    arguments: What to hand to `pip install --no-deps`.
    what: The same in words, for the message.
    lock: The file object that holds the lock.

  Raises:
    SetupError: pip failed.
  """
  command = [VENV_PYTHON, '-m', 'pip', 'install', '--no-deps', '--no-input']
  command += ['--disable-pip-version-check', '--progress-bar', 'off']
  command += arguments
  with open(LOG, 'ab') as log:
    log.write('\n$ {}\n'.format(' '.join(command)).encode())
    log.flush()
    # pip inherits the lock: should this process be killed, then the lock is
    # held until the orphaned pip has ended too.
    exit_code, _, _ = run_child(
        command,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=PROJECT,
        pass_fds=[lock.fileno()],
    )
  if exit_code != 0:
    raise SetupError(
        'pip could not install {}: see the last lines of its output in {}, '
        'mend the cause and run `make setup` again.'.format(
            what, os.path.relpath(LOG, PROJECT)
        ),
        1,
    )


def check_import():
  """Raises SetupError if TensorFlow Federated cannot be imported."""
  exit_code, stdout, stderr = run_child(
      [VENV_PYTHON, '-c', _IMPORT_CHECK],
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      cwd=VENV,
  )
  with open(LOG, 'ab') as log:
    log.write(b'\n$ import tensorflow_federated\n' + stdout + stderr)
  if exit_code == 0:
    return
  lines = stdout.decode(errors='replace').strip().splitlines()
  if exit_code < 0:
    reason = 'the process died of signal {}'.format(-exit_code)
  elif lines:
    reason = lines[-1][:200]
  else:
    reason = 'exit code {}'.format(exit_code)
  raise SetupError(
      'The packages are installed, but TensorFlow Federated cannot be imported '
      '({}): start over with `make distclean setup`, and if that does not help '
      'see {}.'.format(reason, os.path.relpath(LOG, PROJECT)),
      1,
  )


def install(lock):
  """Brings `.venv` up to date and stamps it.

  Args:
    lock: The file object that holds the lock.
  """
  wanted = version_name(sys.version_info)
  stamp = fingerprint(wanted)
  try:
    os.remove(STAMP)  # From here on an interruption leaves no stamp.
  except OSError:
    pass
  if venv_version() == wanted:
    drop_half_installed()
  else:
    make_venv(lock)
  with open(LOG, 'wb'):
    pass
  pip_install(
      ['-r', 'requirements.txt'], 'the packages of requirements.txt', lock
  )
  pip_install(
      ['--no-build-isolation', '-e', '.'], 'the project into .venv', lock
  )
  check_import()
  with open(STAMP + '.new', 'w') as file:
    file.write(stamp + '\n')
  os.replace(STAMP + '.new', STAMP)


def open_lock():
  """Returns a file object that holds the lock, waiting for it if need be."""
  import fcntl  # Does not exist on every platform.

  try:
    lock = open(LOCK, 'w')
    try:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      print('Waiting for another set-up of this folder to end.', flush=True)
      fcntl.flock(lock, fcntl.LOCK_EX)
  except OSError as error:
    raise SetupError(
        'Cannot lock {} ({}): make the project folder writable.'.format(
            os.path.relpath(LOCK, PROJECT), error.strerror
        ),
        2,
    )
  return lock


def set_up():
  """Makes sure that there is an up-to-date environment."""
  check_machine()
  check_python()
  if is_current():
    return
  check_venv_module()
  with open_lock() as lock:
    if is_current():  # Made by another process while this one waited.
      return
    print(
        'Installing TensorFlow Federated and the other pinned packages into '
        '.venv with Python {} (90 s to 3 min when new, 2.5 GB).'.format(
            version_name(sys.version_info)
        ),
        flush=True,
    )
    try:
      install(lock)
    except OSError as error:
      raise SetupError(
          'Cannot write the environment in .venv ({}): check the free space '
          'and the permissions, then run `make setup` again.'.format(error),
          2,
      )
    print('The environment in .venv is ready.', flush=True)


def _terminate(signal_number, frame):
  """Turns SIGTERM into an orderly exit that ends the running child."""
  del frame
  raise SystemExit(128 + signal_number)


def main():
  """Runs the set-up and returns the exit code."""
  signal.signal(signal.SIGTERM, _terminate)
  try:
    set_up()
  except SetupError as error:
    print(error, file=sys.stderr)
    return error.exit_code
  except KeyboardInterrupt:
    print(
        'The set-up was interrupted: run `make setup` again to carry on.',
        file=sys.stderr,
    )
    return 130
  return 0


if __name__ == '__main__':
  sys.exit(main())
