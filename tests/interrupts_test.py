"""Tests of `interrupts`."""

import signal
import sys
import threading
import weakref

import pytest

from f3ast_tff import interrupts


class _Value:
  """Something with a finalizer, as TFF's values of a worker are."""


def _interrupt_in_a_finalizer():
  value = _Value()
  weakref.finalize(value, signal.raise_signal, signal.SIGINT)
  del value


@pytest.fixture(autouse=True)
def _as_in_a_terminal():
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  yield
  signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
  found = []
  monkeypatch.setattr(sys, 'unraisablehook', lambda e: found.append(e.exc_type))
  return found


def test_a_ctrl_c_that_python_forgets_is_kept(forgotten):
  with pytest.raises(KeyboardInterrupt):
    with interrupts.kept() as check:
      check()
      _interrupt_in_a_finalizer()
      assert forgotten == [KeyboardInterrupt]  # This is what is wrong.
      check()
  assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_ctrl_c_elsewhere_is_raised_at_once():
  with pytest.raises(KeyboardInterrupt):
    with interrupts.kept():
      signal.raise_signal(signal.SIGINT)
      pytest.fail('It was to be raised.')


def test_each_use_begins_anew():
  with interrupts.kept():
    _interrupt_in_a_finalizer()
  with interrupts.kept() as check:
    check()


def test_a_handler_of_somebody_else_stays():
  seen = []
  signal.signal(signal.SIGINT, lambda *_: seen.append('mine'))
  with interrupts.kept() as check:
    signal.raise_signal(signal.SIGINT)
    check()
  assert seen == ['mine']


def test_other_threads_may_ask_too():
  done = []

  def work():
    with interrupts.kept() as check:
      check()
      done.append(True)

  thread = threading.Thread(target=work)
  thread.start()
  thread.join()
  assert done == [True]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
