"""The fuzz test in its short form; `python -m tests.fuzz` is the long one."""

import sys

import pytest

from tests import command_lines


def test_senseless_input_is_a_clear_error_or_a_right_result():
  # A process of its own, for it defines an experiment's flags.
  done = command_lines.run('tests.fuzz', '--cases=100', tensorflow=True)
  assert done.returncode == 0, done.stdout + done.stderr
  assert ' 0 kinds of input with a failure' in done.stdout


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
