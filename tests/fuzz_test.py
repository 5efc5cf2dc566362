"""The fuzz test in its short form; `python -m tests.fuzz` is the long one."""

import subprocess
import sys

import pytest


def test_senseless_input_is_a_clear_error_or_a_right_result():
  # A process of its own, for it defines an experiment's flags.
  done = subprocess.run(
    [sys.executable, '-m', 'tests.fuzz', '--cases=100'],
    capture_output=True,
    text=True,
    timeout=300,
  )
  assert done.returncode == 0, done.stdout + done.stderr
  assert ' 0 kinds of input with a failure' in done.stdout


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
