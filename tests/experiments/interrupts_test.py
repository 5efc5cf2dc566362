"""Tests of how signals end a program, in processes without TensorFlow."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

from tests import trials

_ADVICE = 'start it again (a run with --resume).'


def _reset():
  """Undoes that these tests may run in the background, or under nohup."""
  for each in (signal.SIGINT, signal.SIGHUP):
    signal.signal(each, signal.SIG_DFL)


def _start(program, preexec_fn=_reset, **options):
  """Starts a program and returns it when it has printed a line."""
  process = subprocess.Popen(
    [sys.executable, '-c', textwrap.dedent(program)],
    cwd=trials.ROOT,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    preexec_fn=preexec_fn,
    **options,
  )
  assert process.stdout.readline() == 'ready\n'
  return process


def _interrupted(process, by=signal.SIGINT):
  process.send_signal(by)
  _, errors = process.communicate(timeout=20)
  return process.returncode, errors


_WAIT = """
  import time
  from experiments import interrupts
  interrupts.install()
  print('ready', flush=True)
  time.sleep(60)
"""


@pytest.mark.parametrize(
  'by, code',
  [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
)
def test_each_signal_ends_the_program_with_one_sentence(by, code):
  assert _interrupted(_start(_WAIT), by) == (
    code, f'error: interrupted; {_ADVICE}\n'
  )


def test_an_exception_that_would_get_lost_does_not():
  # As in a callback of TensorFlow's: Python prints and goes on.
  process = _start("""
    from experiments import interrupts
    interrupts.install()
    class Deaf:
      def __del__(self):
        while True:
          pass
    print('ready', flush=True)
    Deaf()
  """)
  assert _interrupted(process)[0] == 130


def test_a_main_thread_inside_of_a_call_is_not_waited_for():
  process = _start("""
    import threading
    from experiments import interrupts
    interrupts.install()
    lock = threading.Lock()
    lock.acquire()
    print('ready', flush=True)
    while True:
      try:
        lock.acquire()
      except BaseException:
        pass
  """)
  assert _interrupted(process, signal.SIGTERM)[0] == 143


def test_what_is_ignored_stays_ignored():
  process = _start(
    _WAIT, lambda: (_reset(), signal.signal(signal.SIGHUP, signal.SIG_IGN))
  )
  process.send_signal(signal.SIGHUP)  # As under nohup.
  with pytest.raises(subprocess.TimeoutExpired):
    process.wait(0.5)
  assert _interrupted(process)[0] == 130


def test_temporary_folders_go_and_others_stay(tmp_path):
  process = _start(f"""
    import os, tempfile, time
    from experiments import interrupts
    interrupts.install()
    os.chdir({str(tmp_path)!r})
    first = tempfile.TemporaryDirectory(dir='.')
    open(first.name + '/half', 'w').close()
    os.mkdir('second')
    os.mkdir('third')
    interrupts.remove_at_end('second')
    print('ready', flush=True)
    time.sleep(60)
  """)
  assert len(list(tmp_path.iterdir())) == 3
  assert _interrupted(process)[0] == 130
  assert [path.name for path in tmp_path.iterdir()] == ['third']


@pytest.mark.parametrize('where', ['main', 'other'])
def test_a_thread_that_misses_a_folder_says_nothing(where, tmp_path):
  process = _start(f"""
    import tempfile, threading
    from experiments import interrupts
    interrupts.install()
    folder = tempfile.TemporaryDirectory(dir={str(tmp_path)!r})
    for number in range(2000):
      open(folder.name + f'/{{number}}', 'w').close()
    print('ready', flush=True)
    def look():
      while True:
        for number in range(2000):
          open(folder.name + f'/{{number}}').close()
    if {where!r} == 'other':
      threading.Thread(target=look).start()
      threading.Event().wait()
    look()
  """)
  assert _interrupted(process) == (130, f'error: interrupted; {_ADVICE}\n')
  assert not list(tmp_path.iterdir())


def test_the_sentence_is_seen_while_standard_error_leads_elsewhere():
  process = _start("""
    import os, time
    from experiments import interrupts
    interrupts.install()
    interrupts.advise('--resume continues x.')
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    print('ready', flush=True)
    time.sleep(60)
  """)
  assert _interrupted(process) == (
    130, 'error: interrupted; --resume continues x.\n'
  )


def test_a_signal_while_handlers_are_installed_is_not_lost():
  process = _start("""
    import os, signal
    from experiments import interrupts
    set_handler = signal.signal
    def set_and_be_interrupted(number, handler):
      set_handler(number, handler)
      os.kill(os.getpid(), signal.SIGTERM)
      for _ in range(1000):
        pass  # Python looks for signals here.
    signal.signal = set_and_be_interrupted
    print('ready', flush=True)
    interrupts.install()
  """)
  _, errors = process.communicate(timeout=20)
  assert (process.returncode, errors) == (
    143, f'error: interrupted; {_ADVICE}\n'
  )


def test_a_module_that_is_half_imported_keeps_no_program_alive():
  process = _start("""
    import sys, time, types
    from experiments import interrupts
    interrupts.install()
    sys.modules['tempfile'] = types.ModuleType('tempfile')
    print('ready', flush=True)
    time.sleep(60)
  """)
  assert _interrupted(process) == (130, f'error: interrupted; {_ADVICE}\n')


def test_a_fork_is_interrupted_by_itself():
  process = _start("""
    import os, signal, time
    from experiments import interrupts
    interrupts.install()
    child = os.fork()
    if child == 0:
      interrupts.install()
      print('ready', flush=True)
      time.sleep(60)
    os.waitpid(child, 0)
  """)
  child = pathlib.Path(f'/proc/{process.pid}/task/{process.pid}/children')
  os.kill(int(child.read_text()), signal.SIGTERM)
  _, errors = process.communicate(timeout=20)
  assert (process.returncode, errors) == (
    0, f'error: interrupted; {_ADVICE}\n'
  )


def test_a_program_is_interrupted_before_it_has_imported_anything():
  # `python -m` imports the package first; here its program never comes.
  process = _start("""
    import sys, time
    sys.argv = ['-m']
    import experiments
    print('ready', flush=True)
    time.sleep(60)
  """)
  assert _interrupted(process)[0] == 130


def test_an_import_alone_changes_no_handler():
  code = (
    'import signal; before = signal.getsignal(signal.SIGINT); '
    'import experiments, experiments.interrupts; '
    'assert signal.getsignal(signal.SIGINT) is before'
  )
  subprocess.run([sys.executable, '-c', code], cwd=trials.ROOT, check=True)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
