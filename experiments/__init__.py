"""The programs: `python -m experiments.NAME --help`."""

import sys

# What Python says as long as it looks for the program that it is to run.
if sys.argv[:1] == ['-m']:
  from experiments import interrupts

  interrupts.install()
