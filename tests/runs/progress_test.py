"""Tests of `progress`."""

import contextlib
import io
import sys

import pytest

from f3ast_tff.runs import progress


class _Terminal(io.StringIO):

  def isatty(self):
    return True


def _clock(*seconds):
  return iter(seconds).__next__


def test_without_a_terminal_each_test_is_a_line(capsys):
  # The first round took long: it does not count. Then 3 s for each round.
  with progress.shown(0, 50, _clock(100, 103, 106, 250)) as show:
    show(1, None)
    show(2, 0.25)
    show(3, None)
    show(50, 0.6119)
  captured = capsys.readouterr()
  assert captured.out.splitlines() == [
    'round 2 of 50: accuracy 0.250, about 2 min left',
    'round 50 of 50: accuracy 0.612',
  ]
  assert captured.err == ''


@pytest.mark.parametrize(
  'per_round, left',
  [
    (0.5, '50 s'),
    (1.19, '119 s'),
    (3, '5 min'),
    (60, '100 min'),
    (90, '2.5 h'),
  ],
)
def test_the_time_left_is_that_of_the_rounds_of_this_process(
  per_round, left, capsys
):
  with progress.shown(98, 200, _clock(7.0, 7.0 + per_round)) as show:
    show(99, 0.1)
    show(100, 0.2)
  assert capsys.readouterr().out.splitlines() == [
    'Continuing after round 98.',
    'round 99 of 200: accuracy 0.100',  # Nothing is known yet.
    f'round 100 of 200: accuracy 0.200, about {left} left',
  ]


def test_on_a_terminal_it_is_a_bar(capsys):
  terminal = _Terminal()
  with contextlib.redirect_stderr(terminal):
    with progress.shown(1, 3) as show:
      show(2, None)
      show(3, 0.5)
  assert capsys.readouterr().out == 'Continuing after round 1.\n'
  last = terminal.getvalue().rpartition('\r')[2]
  assert '3/3' in last and 'accuracy=0.500' in last


def test_a_run_that_is_finished_says_so(capsys):
  for num_rounds in (1, 9):
    with progress.shown(num_rounds, num_rounds):
      pass
  assert capsys.readouterr().out == (
    'The run is finished already, with 1 round.\n'
    'The run is finished already, with 9 rounds.\n'
  )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
