"""The fault harness in its short form; `python -m tests.faults` is the long."""

import sys

import pytest

from tests import command_lines


def test_runs_that_are_killed_and_resumed_leave_the_same_files():
  # One at some instant and one inside of a write. By this chance both die in
  # mid-run, with rounds to play again: the first after round 12 of 24, two
  # after its checkpoint.
  flags = '--trials=2', '--num_rounds=24', '--chance=44'
  done = command_lines.run('tests.faults', *flags, tensorflow=True)
  assert done.returncode == 0, done.stdout + done.stderr
  assert '2 of 2 trials equal the reference' in done.stdout
  for kind in ('driver ', 'write  '):
    assert f'{kind} 1 of 1 equal, 1 kills, 2 starts' in done.stdout
  assert done.stderr == ''  # No bar where there is no terminal.


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
