"""Warnings as plain sentences: `warning: ...` on standard error."""

import logging
import sys

from absl import logging as absl_logging
import tqdm


class _Handler(logging.Handler):
  """Prints each message on a line of its own, above a progress bar."""

  def emit(self, record: logging.LogRecord) -> None:
    """Prints a message."""
    text = f'{record.levelname.lower()}: {record.getMessage()}'
    tqdm.tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()


def show() -> None:
  """Shows warnings so from now on, in the place of absl's log lines."""
  root = logging.getLogger()
  root.removeHandler(absl_logging.get_absl_handler())
  root.addHandler(_Handler(logging.WARNING))
