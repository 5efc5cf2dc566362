"""Tests of `assistant`."""

import subprocess
import sys
import threading

import pytest

from f3ast_tff import assistant


def test_does_one_thing_after_the_other_in_another_thread():
  helper = assistant.Assistant()
  done = []

  def note(what, *, thread):
    assert threading.get_ident() != thread
    done.append(what)
    return 2 * what

  here = threading.get_ident()
  results = [helper.submit(note, i, thread=here) for i in range(20)]
  assert [result.result(timeout=60) for result in results] == list(
    range(0, 40, 2)
  )
  assert done == list(range(20))


def test_an_error_comes_with_the_result_and_the_thread_goes_on():
  helper = assistant.Assistant()
  failed = helper.submit(lambda: 1 / 0)
  with pytest.raises(ZeroDivisionError):
    failed.result(timeout=60)
  assert helper.submit(lambda: 3).result(timeout=60) == 3


def test_a_program_does_not_wait_for_it():
  program = (
    'import threading\n'
    'from f3ast_tff import assistant\n'
    'assistant.Assistant().submit(threading.Event().wait)\n'
  )
  subprocess.run([sys.executable, '-c', program], check=True, timeout=60)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
