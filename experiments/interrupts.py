"""Ends a program at once on Ctrl-C, SIGTERM or SIGHUP, with one sentence.

Python runs handlers of signals in its main thread, between two instructions.
Imports and compiled computations keep that thread for seconds, and an exception
that a handler raises is lost in a callback of theirs. So here the signal wakes
another thread, which ends the process. That is safe at any moment: a run's
files are, even if it is killed. Little is imported here: until the handlers are
there, a signal ends Python in its own way.
"""

import _thread
import gc
import os
import signal
import sys

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_advice = 'start it again (a run with --resume).'
_remove = ''
_process = 0  # Threads do not survive a fork.


def install() -> None:
  """Ends the program at each of the signals that it does not ignore."""
  global _process
  if _process == os.getpid():
    return
  _process = os.getpid()
  # A handler without the thread would stop the program and not end it.
  mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
  reader, writer = os.pipe()
  os.set_blocking(writer, False)
  for number in _SIGNALS:
    # As nohup has SIGHUP ignored, and a shell script Ctrl-C in the background.
    if signal.getsignal(number) is not signal.SIG_IGN:
      signal.signal(number, _stop)
  signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
  # A descriptor of its own: that of Python may lead elsewhere for a while.
  _thread.start_new_thread(_wait, (reader, os.dup(2)))
  signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _stop(*_: object) -> None:
  """Stops the main thread, which would miss the folders that are removed."""
  if _process == os.getpid():
    stopped = _thread.allocate_lock()
    stopped.acquire()
    stopped.acquire()


def advise(sentence: str) -> None:
  """Says what to do after an interruption, from now on."""
  global _advice
  _advice = sentence


def remove_at_end(folder: str) -> None:
  """Names a folder that goes when the program is interrupted; '' for none."""
  global _remove
  _remove = folder


def _wait(reader: int, standard_error: int) -> None:
  """Waits for one of the signals, and ends the process."""
  number = 0
  while number not in _SIGNALS:
    number = os.read(reader, 1)[0]
  after_a_bar = '\n' if os.isatty(standard_error) else ''
  text = f'{after_a_bar}error: interrupted; {_advice}\n'
  try:
    os.write(standard_error, text.encode())
  except OSError:
    pass  # The terminal is gone, as SIGHUP says.
  # Other threads may miss the folders as well, and that is no news.
  os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
  try:
    for folder in _temporary_folders():
      import shutil  # Whoever makes such a folder has imported it.

      shutil.rmtree(folder, ignore_errors=True)
  finally:
    os._exit(128 + number)


def _temporary_folders() -> list[str]:
  """Returns the folders that would go if the program ended by itself."""
  folders = [_remove] if _remove else []
  # The main thread may have stopped while it imported the module.
  kind = getattr(sys.modules.get('tempfile'), 'TemporaryDirectory', None)
  if kind is not None:  # Else nobody has made one.
    folders += [each.name for each in gc.get_objects() if type(each) is kind]
  return folders
