"""Sends signals to a run at random moments, and looks at what it leaves.

  python -m tests.signals --sigint=40 --sigterm=20

Each run must end within three seconds with one sentence that names --resume,
leave no process and no temporary file, and be resumable: in the end one of them
is resumed and must equal a run that nobody disturbed. The exit code is 1 if
something is not so.
"""

from collections.abc import Sequence
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from absl import app
from absl import flags
import psutil
import tqdm

from tests import trials

_COUNTS = {
  signal.SIGINT: flags.DEFINE_integer('sigint', 40, 'How many of SIGINT.'),
  signal.SIGTERM: flags.DEFINE_integer('sigterm', 20, 'How many of SIGTERM.'),
  signal.SIGHUP: flags.DEFINE_integer('sighup', 0, 'How many of SIGHUP.'),
}
_CHANCE = flags.DEFINE_integer('chance', 0, 'Decides what happens when.')
_EARLIEST = flags.DEFINE_float('earliest', 0.1, 'Seconds from the start.')
_LATEST = flags.DEFINE_float('latest', 12.0, 'Seconds from the start.')

_LIMIT = 3.0
_FLAGS = ('--num_clients=20', '--checkpoint_every=5', '--eval_every=6')
_MANY = (*_FLAGS, '--rounds=100000')


class Outcome(NamedTuple):
  """What became of a run.

  Attributes:
    seconds: From the signal to the end.
    sentence: What it printed on standard error.
    problem: What is wrong; empty if nothing is.
  """

  seconds: float
  sentence: str
  problem: str


def interrupt(
  folder: pathlib.Path,
  by: signal.Signals,
  seconds: float,
  arguments: Sequence[str] = _MANY,
) -> Outcome:
  """Starts or resumes a run, and sends it a signal some seconds later."""
  scratch = folder.with_name(f'{folder.name}-tmp')
  scratch.mkdir(exist_ok=True)
  process = trials.start(
    folder,
    *arguments,
    '--resume',
    log=subprocess.PIPE,
    env={**os.environ, 'TMPDIR': str(scratch)},
  )
  time.sleep(seconds)
  children = psutil.Process(process.pid).children(recursive=True)
  began = time.monotonic()
  process.send_signal(by)
  try:
    _, errors = process.communicate(timeout=10 * _LIMIT)
  except subprocess.TimeoutExpired:
    process.kill()
    return Outcome(10 * _LIMIT, '', 'it did not end')
  took = time.monotonic() - began
  left = [path.name for path in scratch.rglob('*')]
  left += [path.name for path in folder.glob('temporary')]
  left += [str(child) for child in children if _is_alive(child)]
  sentence = trials.last_line(errors)
  problem = ''
  if process.returncode != 128 + by:
    problem = f'exit code {process.returncode}: {sentence}'
  elif errors.count('\n') != 1 or '--resume' not in errors:
    problem = f'it says {errors!r}'
  elif left:
    problem = f'it leaves {", ".join(left)}'
  elif took > _LIMIT:
    problem = f'it took {took:.1f} s'
  return Outcome(took, sentence, problem)


def _is_alive(process: psutil.Process) -> bool:
  """Returns whether a process runs; one that ended may wait to be reaped."""
  try:
    return process.status() != psutil.STATUS_ZOMBIE
  except psutil.NoSuchProcess:
    return False


def _finish(folder: pathlib.Path) -> dict[str, bytes]:
  """Runs to round 40; returns what is in the folder."""
  process = trials.start(folder, *_FLAGS, '--rounds=40', '--resume')
  if process.wait():
    sys.exit('error: a run could not be finished.')
  return trials.contents(folder)


def run_trials(folder: pathlib.Path) -> int:
  """Runs all trials and prints how they went; returns how many failed."""
  signals = [by for by, count in _COUNTS.items() for _ in range(count.value)]
  outcomes = []
  for number, by in enumerate(tqdm.tqdm(signals, unit='run', disable=None)):
    chance = random.Random(f'{_CHANCE.value} {number}')
    moment = chance.uniform(_EARLIEST.value, _LATEST.value)
    outcome = interrupt(folder / f'run{number}', by, moment)
    outcomes.append(outcome)
    if outcome.problem:
      tqdm.tqdm.write(f'{by.name} after {moment:.2f} s: {outcome.problem}')
  seconds = sorted(outcome.seconds for outcome in outcomes)
  print(
    f'{len(outcomes)} signals: the median took {seconds[len(seconds) // 2]:.2f}'
    f' s, the longest {seconds[-1]:.2f} s'
  )
  resumed = folder / 'resumed'
  for number in range(3):
    interrupt(resumed, signal.SIGINT, 6.0 + number, (*_FLAGS, '--rounds=40'))
  same = _finish(resumed) == _finish(folder / 'undisturbed')
  print(f'a resumed run {"equals" if same else "DIFFERS FROM"} another')
  num_failed = sum(bool(outcome.problem) for outcome in outcomes)
  print(f'{len(outcomes) - num_failed} of {len(outcomes)} ended as they should')
  return num_failed + (not same)


def main(argv: Sequence[str]) -> None:
  """Runs the trials."""
  del argv
  for by in _COUNTS:  # A shell has those that it starts in the background deaf.
    signal.signal(by, signal.default_int_handler)
  with tempfile.TemporaryDirectory() as scratch:
    failures = run_trials(pathlib.Path(scratch))
  sys.exit(1 if failures else 0)


if __name__ == '__main__':
  app.run(main)
