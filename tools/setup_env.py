#!/usr/bin/env python3
"""Makes the project's virtual environment, or returns at once if it is there.

`make setup` calls this.  It makes `.venv`, installs the pinned packages of
requirements.txt and the project itself (editable), checks that TensorFlow
Federated can be imported, and then writes `.venv/.stamp`.  A stamp that fits
requirements.txt, setup.py and the Python version means: nothing to do.

Whatever goes wrong ends in one sentence on stderr.  The exit code is 2 if this
machine or this Python cannot be used, 1 if the installation failed, and 130 or
143 after an interruption; calling it again carries on where it stopped.  An
old Python gets a sentence too: this starts on Python 3.6.
"""

import hashlib
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys

VERSION = '{}.{}'.format(*sys.version_info)
VENV = pathlib.Path('.venv')
PYTHON = VENV / 'bin' / 'python'
STAMP = VENV / '.stamp'


def fail(sentence, exit_code=2):
  """Ends the process with one sentence for the user."""
  print(sentence, file=sys.stderr)
  sys.exit(exit_code)


def fingerprint():
  """Returns the stamp of an up-to-date environment."""
  digest = hashlib.sha256(VERSION.encode())
  for name in ('requirements.txt', 'setup.py'):
    content = pathlib.Path(name).read_bytes()
    digest.update(f'\n{name} {len(content)}\n'.encode() + content)
  return digest.hexdigest().encode() + b'\n'


def is_usable():
  """Tells whether `.venv` is of this Python version and was made here."""
  pip = VENV / 'bin' / ('pip' + VERSION)
  own = bytes(VENV.absolute() / 'bin')  # In pip: scripts do not stand a move.
  return PYTHON.exists() and pip.is_file() and own in pip.read_bytes()


def is_current():
  """Tells whether `.venv` is complete and up to date."""
  return STAMP.is_file() and STAMP.read_bytes() == fingerprint() and is_usable()


def run(command, stdout=subprocess.PIPE):
  """Runs a command to its end; returns its exit code and any captured text."""
  # close_fds=False: the command inherits the lock, so that the lock is held to
  # the end of the command even if this process is killed.
  with subprocess.Popen(
      command, stdin=subprocess.DEVNULL, stdout=stdout,
      stderr=subprocess.STDOUT, close_fds=False) as process:
    try:
      text = process.communicate()[0] or b''
    except SystemExit:  # SIGTERM came to this process only, not to both.
      process.terminate()
      raise
  return process.returncode, text.decode(errors='replace').strip()


def make_venv():
  """Makes an empty environment in place of whatever is in `.venv`."""
  if VENV.is_symlink():
    fail(f'.venv is a link to {os.readlink(VENV)}, whose files would be '
         'deleted: remove the link and run `make setup` again.')
  # This may run in the environment about to be deleted: use its base Python.
  base = pathlib.Path(sys.base_prefix, 'bin', 'python' + VERSION)
  python = base if base.exists() else sys.executable
  code, text = run([python, '-m', 'venv', '--clear', VENV])
  if code != 0 or not is_usable():
    reason = (text or 'no reason given').splitlines()[-1]
    fail(f'Cannot make a virtual environment in .venv ({reason}): check that '
         'the folder is writable, remove .venv and try again.')


def install():
  """Brings `.venv` up to date and stamps it."""
  stamp = fingerprint()
  if is_usable():
    STAMP.unlink(missing_ok=True)  # An interruption then leaves no stamp.
  else:
    make_venv()
  # pip takes a package for installed if it has a metadata folder, even if pip
  # was killed while copying.  It writes INSTALLER after the last file.
  for info in VENV.glob('lib/python*/site-packages/*.dist-info'):
    if not (info / 'INSTALLER').exists():
      shutil.rmtree(info)
  pip = [PYTHON, '-m', 'pip', 'install', '--no-deps', '--no-input',
         '--disable-pip-version-check', '--progress-bar', 'off']
  with open(VENV / 'setup.log', 'wb') as log:
    # In this mode all of the folder can be imported, wherever one stands: also
    # the programs, which are no part of the package.
    project = '--no-build-isolation --config-settings editable_mode=compat -e .'
    for what in ('-r requirements.txt', project):
      if run(pip + what.split(), log)[0] != 0:
        fail(f'`pip install {what}` failed: see the last lines of its output '
             'in .venv/setup.log, mend the cause and run `make setup` again.',
             1)
    code, text = run([PYTHON, '-c', 'import tensorflow_federated'])
    log.write(text.encode())
  if code != 0:
    end = f'died of signal {-code}' if code < 0 else f'exit code {code}'
    reasons = [end] + re.findall(r'^[\w.]*Error\b.*', text, re.MULTILINE)
    fail('The packages are installed, but TensorFlow Federated cannot be '
         f'imported ({reasons[-1]}): start over with `make distclean setup`, '
         'and if that does not help see .venv/setup.log.', 1)
  STAMP.write_bytes(stamp)


def take_lock():
  """Returns a file object that holds the lock, waiting for it if need be."""
  import fcntl  # Does not exist on every platform.
  lock = open('.setup.lock', 'w')
  os.set_inheritable(lock.fileno(), True)
  try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    print('Waiting for another set-up of this folder to end.', flush=True)
    fcntl.flock(lock, fcntl.LOCK_EX)
  return lock


def main():
  """Makes sure that there is an up-to-date environment."""
  if (sys.platform, platform.machine()) != ('linux', 'x86_64'):
    fail('TensorFlow Federated is published for Linux on x86_64 only and this '
         f'is {sys.platform} on {platform.machine()}: use such a machine, a '
         'virtual machine or a container.')
  if VERSION not in ('3.10', '3.11'):
    found = '.'.join(map(str, sys.version_info[:3]))
    fail(f'Python 3.10 or 3.11 is needed, but this is Python {found}: install '
         'one of them and name it, for example `make PYTHON=python3.11 setup`.')
  os.chdir(pathlib.Path(__file__).resolve().parents[1])
  if is_current():
    return
  try:
    import ensurepip  # noqa: F401
    import venv  # noqa: F401
  except ImportError as error:
    fail(f'This Python cannot make virtual environments ({error}): install the '
         'missing part, on Debian and Ubuntu with `apt-get install '
         f'python{VERSION}-venv`.')
  # These would lead Python or pip away from the environment being made.
  for name in ('PYTHONHOME', 'PYTHONPATH', 'PIP_TARGET', 'PIP_USER'):
    os.environ.pop(name, None)
  with take_lock():
    if is_current():  # Made by another process while this one waited.
      return
    print('Installing TensorFlow Federated and the other pinned packages into '
          f'.venv with Python {VERSION} (90 s to 3 min when new, 2.5 GB).',
          flush=True)
    install()
    print('The environment in .venv is ready.', flush=True)


if __name__ == '__main__':
  signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
  try:
    main()
  except OSError as error:
    fail(f'Cannot read or write a file ({error}): check that it is there, the '
         'free space and the permissions, then run `make setup` again.')
  except KeyboardInterrupt:
    fail('The set-up was interrupted: run `make setup` again to carry on.', 130)
