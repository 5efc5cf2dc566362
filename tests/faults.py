"""Kills runs at random instants, resumes them, and compares what they leave.

  python -m tests.faults --trials=50
  python -m tests.faults --trials=2 --every_method

A run that nobody disturbs is the reference. In each trial the same run is
killed with SIGKILL, once or more: at a random instant, or inside of one of its
writes. It is resumed until it has finished, and then all of its result files
must equal those of the reference, bit for bit. The exit code is 1 if one does
not.

Drivers are forks of this process, which has imported TensorFlow already: that
is most of what a start takes. They are the real programs otherwise.
"""

import collections
from collections.abc import Sequence
import contextlib
import os
import pathlib
import random
import shutil
import signal
import sys
import time
import traceback
from typing import Any, Callable, NamedTuple, Optional

# Before anything imports TensorFlow.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from absl import app
from absl import flags
import tqdm

import f3ast_tff
from f3ast_tff import methods
from f3ast_tff.datasets import synthetic  # noqa: F401
from f3ast_tff.models import softmax  # noqa: F401

# What a driver would import, so that its forks need not.
from f3ast_tff.runs import loop  # noqa: F401
from f3ast_tff.runs import summary  # noqa: F401
from tests import kill_inside
from tests import trials

_TRIALS = flags.DEFINE_integer('trials', 50, 'How many.', lower_bound=1)
_NUM_ROUNDS = flags.DEFINE_integer(
  'num_rounds', 40, 'Rounds of a run.', lower_bound=1
)
_TRAINED = flags.DEFINE_multi_string(
  'trained',
  ['--algorithm=f3ast_adam'],
  'Flags of the runs, with blanks between; given several times, there are '
  'trials of each.',
)
_EVERY_METHOD = flags.DEFINE_bool(
  'every_method', False, 'Trials of every algorithm and combination instead.'
)
_CHANCE = flags.DEFINE_integer('chance', 0, 'Decides what happens when.')
_KEEP = flags.DEFINE_string(
  'keep', None, 'A new folder for all runs; by default they are thrown away.'
)

KINDS = ('driver', 'write')
# F3AST's selection with what others have proposed.
_COMBINED = ('ca_fed', 'fedawe', 'mifa')
_PATIENCE = 900  # Seconds that one run may take before a trial has failed.


class Run(NamedTuple):
  """A run that is to be killed.

  Attributes:
    folder: Its folder; its log and more are beside it.
    flags: What is told to the driver.
  """

  folder: pathlib.Path
  flags: tuple[str, ...]

  @property
  def log(self) -> pathlib.Path:
    return self.folder.with_suffix('.log')

  @property
  def epitaph(self) -> pathlib.Path:
    return self.folder.with_suffix('.epitaph')


def _drive(run: Run, fatal: Optional[int], chance: random.Random) -> None:
  """Becomes a driver; never returns."""
  code: Any = 1
  try:
    os.setpgid(0, 0)  # Ctrl-C is for the harness, which ends its drivers.
    log = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    writes = kill_inside.Writes(run.folder, fatal, chance, run.epitaph)
    from experiments import synthetic as experiment

    sys.argv = [
      'synthetic', *run.flags, '--resume', f'--output_dir={run.folder}'
    ]
    try:
      experiment.main()
    except SystemExit as end:
      code = end.code or 0
    if code == 0:
      run.epitaph.write_text(str(writes.count))
  except BaseException:
    traceback.print_exc()
  finally:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


class Driver:
  """A driver that runs."""

  def __init__(
    self,
    run: Run,
    fatal: Optional[int] = None,
    chance: Optional[random.Random] = None,
  ):
    run.epitaph.unlink(missing_ok=True)
    self._pid = os.fork()
    if self._pid == 0:
      _drive(run, fatal, chance or random.Random(0))
    self._code: Optional[int] = None
    self._deadline = time.monotonic() + _PATIENCE

  def poll(self) -> Optional[int]:
    """Returns the exit code, None as long as it runs."""
    if self._code is None:
      pid, status = os.waitpid(self._pid, os.WNOHANG)
      if pid:
        self._code = os.waitstatus_to_exitcode(status)
      elif time.monotonic() > self._deadline:
        self.kill()
    return self._code

  def wait(self) -> int:
    while self.poll() is None:
      time.sleep(0.01)
    return self._code

  def kill(self) -> None:
    with contextlib.suppress(ProcessLookupError):
      os.kill(self._pid, signal.SIGKILL)


def _wait_until(driver: Driver, is_so: Callable[[], bool]) -> None:
  while driver.poll() is None and not is_so():
    time.sleep(0.001)


def _wait_for_random_instant(
  driver: Driver, run: Run, num_rounds: int, chance: random.Random
) -> None:
  """Returns at some instant of the start, of the rounds, or of the end."""
  if chance.random() < 0.2:
    end = time.monotonic() + chance.uniform(0, 5)
    _wait_until(driver, lambda: time.monotonic() > end)
    return
  target = chance.randint(1, num_rounds)
  _wait_until(driver, lambda: trials.num_rounds(run.folder) >= target)
  end = time.monotonic() + chance.uniform(0, 0.06)
  _wait_until(driver, lambda: time.monotonic() > end)


class Outcome(NamedTuple):
  """How a trial ended.

  Attributes:
    kills: Where somebody died.
    num_runs: How many drivers it took.
    problem: What is wrong; empty if all files are as in the reference.
  """

  kills: list[str]
  num_runs: int
  problem: str


def trial(
  kind: str,
  run: Run,
  num_rounds: int,
  num_writes: int,
  reference: dict[str, bytes],
  chance: random.Random,
) -> Outcome:
  """Kills and resumes a run until it has finished."""
  kills: list[str] = []
  kills_left = chance.choice((1, 1, 1, 2, 3))
  num_runs = 0
  while True:
    num_runs += 1
    fatal = None
    if kind == 'write' and kills_left:
      fatal = chance.randint(1, num_writes)
    driver = Driver(run, fatal, chance)
    if kind == 'driver' and kills_left:
      _wait_for_random_instant(driver, run, num_rounds, chance)
      driver.kill()
    code = driver.wait()
    if code == 0:
      problem = trials.difference(run.folder, reference)
      return Outcome(kills, num_runs, problem)
    if code == -signal.SIGKILL:
      kills_left -= 1
      where = run.epitaph.read_text() if run.epitaph.exists() else 'driver'
      kills.append(where)
    else:
      last = trials.last_line(run.log.read_text())
      return Outcome(kills, num_runs, f'exit code {code}: {last}')


def _flags(num_rounds: int) -> tuple[str, ...]:
  return (
    '--num_clients=20',
    f'--rounds={num_rounds}',
    '--eval_every=6',
    '--checkpoint_every=5',
  )


def _every_method() -> list[str]:
  """Returns all algorithms and combinations; with vectors, in both places."""
  named = [
    (f'--algorithm={name}', algorithm.method)
    for name, algorithm in methods.ALGORITHMS.items()
  ]
  combined = [(f'--method={name}', name) for name in _COMBINED]
  return [
    trained + place
    for trained, method in named + combined
    for place in (
      (' --vectors_in=memory', ' --vectors_in=files')
      if methods.parse_method(method).vectors
      else ('',)
    )
  ]


def _reference(folder: pathlib.Path, options: tuple[str, ...]) -> Run:
  run = Run(folder / 'reference', options)
  if Driver(run).wait() != 0:
    sys.exit(f'error: the reference failed: {run.log.read_text()}')
  return run


def _place(name: str) -> str:
  """Returns a place of death without numbers, for the table."""
  return name.translate({ord(digit): None for digit in '0123456789'})


def run_trials(folder: pathlib.Path, num_rounds: int) -> int:
  """Runs all trials and prints how they went; returns how many failed."""
  everything = _every_method() if _EVERY_METHOD.value else _TRAINED.value
  failed = []
  for number, trained in enumerate(everything):
    if len(everything) > 1:
      print(trained, flush=True)
    place = folder / str(number)
    place.mkdir()
    if _run_trials(place, num_rounds, tuple(trained.split())):
      failed.append(trained)
  if len(everything) > 1:
    num_equal = len(everything) - len(failed)
    print(f'{num_equal} of {len(everything)} kinds of runs equal', *failed)
  return len(failed)


def _run_trials(
  folder: pathlib.Path, num_rounds: int, trained: tuple[str, ...]
) -> int:
  """As `run_trials`, for runs with some flags."""
  options = (*_flags(num_rounds), *trained)
  reference_run = _reference(folder, options)
  num_writes = int(reference_run.epitaph.read_text())
  reference = trials.contents(reference_run.folder)
  outcomes: dict[str, list[Outcome]] = collections.defaultdict(list)
  for number in tqdm.trange(_TRIALS.value, unit='trial', disable=None):
    kind = KINDS[number % len(KINDS)]
    run = Run(folder / f'trial{number}', options)
    chance = random.Random(f'{_CHANCE.value} {number}')
    outcome = trial(kind, run, num_rounds, num_writes, reference, chance)
    outcomes[kind].append(outcome)
    if outcome.problem:
      tqdm.tqdm.write(f'trial {number} ({kind}): {outcome.problem}')
    elif _KEEP.value is None:
      shutil.rmtree(run.folder)
  everything = [outcome for kind in outcomes.values() for outcome in kind]
  places = collections.Counter(
    _place(place) for outcome in everything for place in outcome.kills
  )
  print(f'a run of {num_rounds} rounds makes {num_writes} writes')
  for kind, some in outcomes.items():
    print(
      f'  {kind:<7} {sum(not o.problem for o in some)} of {len(some)} equal, '
      f'{sum(len(o.kills) for o in some)} kills, '
      f'{sum(o.num_runs for o in some)} starts'
    )
  for place, count in sorted(places.items(), key=lambda p: (-p[1], p[0])):
    print(f'    killed in {place}: {count}')
  return trials.report([outcome.problem for outcome in everything])


def main(argv: Sequence[str]) -> None:
  """Runs the trials."""
  del argv
  # In the place of TFF's context, which complains when a program ends.
  f3ast_tff.set_in_process(1)
  trials.main(
    lambda folder: run_trials(folder, _NUM_ROUNDS.value), _KEEP.value
  )


if __name__ == '__main__':
  app.run(main)
