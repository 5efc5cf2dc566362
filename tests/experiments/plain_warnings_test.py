"""Tests of `plain_warnings`."""

import contextlib
import io
import logging
import sys

from absl import logging as absl_logging
import pytest
import tqdm

from experiments import plain_warnings


class _Terminal(io.StringIO):

  def isatty(self):
    return True


@pytest.fixture(autouse=True)
def _shown():
  """Shows warnings plainly for as long as a test lasts."""
  root = logging.getLogger()
  before = list(root.handlers)
  absl_logging.use_absl_handler()  # As `app.run` does.
  plain_warnings.show()
  yield
  for handler in set(root.handlers) - set(before):
    root.removeHandler(handler)


def test_warnings_of_absl_and_of_python_are_one_plain_sentence(capsys):
  absl_logging.warning('Round %d excludes clients.', 7)
  logging.getLogger('some.library').warning('A cache is gone.')
  absl_logging.error('That is bad.')
  absl_logging.info('Nobody needs to know.')
  captured = capsys.readouterr()
  assert captured.out == ''
  assert captured.err == (
    'warning: Round 7 excludes clients.\n'
    'warning: A cache is gone.\n'
    'error: That is bad.\n'
  )


def test_above_a_bar_they_are_lines_of_their_own():
  terminal = _Terminal()
  with contextlib.redirect_stderr(terminal):
    with tqdm.tqdm(total=5, disable=None) as bar:
      bar.update()
      absl_logging.warning('Mind the bar.')
  before, after = terminal.getvalue().split('warning: Mind the bar.\n')
  # The bar is wiped before, and drawn again after.
  assert before.endswith('\r') and not before.split('\r')[-2].strip()
  assert '1/5' in after


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
