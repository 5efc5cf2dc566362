"""The programs: `python -m experiments.NAME --help`."""

import importlib.util
import sys

# What Python says as long as it looks for the program that it is to run.
if sys.argv[:1] == ['-m']:
  from experiments import interrupts

  interrupts.install()
  if importlib.util.find_spec('absl') is None:  # What programs import first.
    print(
      f'error: {sys.executable} has none of the packages that programs need; '
      'run "make setup" and use .venv/bin/python.',
      file=sys.stderr,
    )
    sys.exit(2)
