"""Ctrl-C that is not lost.

Python raises KeyboardInterrupt wherever the main thread happens to be. TFF has
a worker drop values by calls in finalizers, and what is raised in a finalizer
is printed and forgotten: the run would go on as if nobody had asked it to stop.
So the wish is kept too, and the loop over the rounds asks for it.
"""

from collections.abc import Callable, Iterator
import contextlib
import signal
import threading


@contextlib.contextmanager
def kept() -> Iterator[Callable[[], None]]:
  """Keeps Ctrl-C in mind, beside what Python does about it.

  Where Ctrl-C means something else, because it is ignored or somebody handles
  it, and outside of the main thread, nothing changes.

  Yields:
    A function that raises KeyboardInterrupt if there was a Ctrl-C.
  """
  asked = threading.Event()

  def check():
    if asked.is_set():
      raise KeyboardInterrupt

  def interrupt(number, frame):
    asked.set()
    signal.default_int_handler(number, frame)

  if (
    threading.current_thread() is not threading.main_thread()
    or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
  ):
    yield check
    return
  signal.signal(signal.SIGINT, interrupt)
  try:
    yield check
  finally:
    signal.signal(signal.SIGINT, signal.default_int_handler)
