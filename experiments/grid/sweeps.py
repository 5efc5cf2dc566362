"""Sweeps: an experiment with every combination of some flags' values.

What `experiments.sweep` and `experiments.benchmark` share: the flags of such a
program, the values that they are given, and the runs that these stand for.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
import contextlib
import importlib
import os
from typing import Any, NamedTuple, Optional

from absl import flags

from experiments import added
from experiments import cli
from experiments.grid import cell as cells_lib
from experiments.grid import combinations as combinations_lib
from experiments.grid import program
from experiments.grid import runs as runs_lib
from f3ast_tff.execution.cluster import connection
from f3ast_tff.runs import run_directory

TASKS = ('synthetic', 'shakespeare', 'cifar100')
# Flags whose values are lists or paths: all of a text is one value.
_WHOLE = ('protocol', 'server_rate_file', 'tracker', 'data_dir', added.FLAG)


def own_flags(default_task: Optional[str], folder: str) -> flags.FlagValues:
  """Returns the flags of a program that runs a sweep.

  They are apart from the experiment's, which are defined and checked by its own
  program.

  Args:
    default_task: The experiment where none is named.
    folder: The folder where none is named, in words.

  Returns:
    The flags, to which the program may add its own.
  """
  own = flags.FlagValues()
  flags.DEFINE_enum(
    'task', default_task, TASKS, 'The experiment.', flag_values=own
  )
  flags.DEFINE_multi_string('seeds', None, '', flag_values=own)
  own['seeds'].help = 'The values of --seed.'  # absl would add to it.
  flags.DEFINE_integer(
    'jobs',
    len(os.sched_getaffinity(0)),
    'How many runs at a time. One of CIFAR-100 at paper size takes 5 GB.',
    lower_bound=1,
    flag_values=own,
  )
  cli.define_cluster('Run them', own)
  flags.DEFINE_bool(
    'dry_run',
    False,
    'Check all values and print the commands; run nothing.',
    flag_values=own,
  )
  flags.DEFINE_string('output_dir', None, folder, flag_values=own)
  own.set_gnu_getopt(True)
  return own


def task_of(
  argv: Sequence[str], default: Optional[str] = None
) -> Optional[str]:
  """Returns the experiment that the flags name."""
  known = flags.FlagValues()
  flags.DEFINE_enum('task', default, TASKS, '', flag_values=known)
  known.set_gnu_getopt(True)
  with cli.one_sentence(flags.Error, 2):
    known(list(argv), known_only=True)
  return known.task


def flags_of(task: str, but_for: Collection[str]) -> dict[str, flags.Flag]:
  """Returns the flags of an experiment that a sweep passes on."""
  module = importlib.import_module(f'experiments.{task}')
  return {
    flag.name: flag
    for flag in flags.FLAGS.get_key_flags_for_module(module)
    if flag.name not in but_for and flag.name != 'resume'
  }


def parse(
  argv: Sequence[str], own: flags.FlagValues, names: Collection[str]
) -> None:
  """Parses a command line, on which flags of the experiment are lists.

  Args:
    argv: The command line.
    own: The flags of the program; those of the experiment are added.
    names: The flags of the experiment.
  """
  for name in names:
    flags.DEFINE_multi_string(name, None, '', flag_values=own)
  cli.parse_flags(argv, own)


def values_of(
  task: str, name: str, given: str, texts: Sequence[str]
) -> list[Any]:
  """Returns the values of a flag of the experiment, checked.

  Args:
    task: The experiment.
    name: The flag.
    given: What the flag is called on the command line of the sweep.
    texts: What it was given there, each time.

  Returns:
    The values.
  """
  found = []
  for text in combinations_lib.split(given, texts, name in _WHOLE):
    cli.parse_flags([task, f'--{name}={text}'])
    found.append(flags.FLAGS[name].value)
  return found


class Sweep(NamedTuple):
  """A sweep.

  Attributes:
    constant: The flags that all runs share.
    runs: The runs in the order of their start.
    varied: The flags of each run that vary, but for its seed.
    places: Where the runs are.
  """

  constant: dict[str, Any]
  runs: list[runs_lib.Run]
  varied: list[dict[str, Any]]
  places: runs_lib.Runs


def build(
  task: str,
  values: Mapping[str, Sequence[Any]],
  default_model: str,
  output_dir: Optional[str],
  name: str,
  open_flags: Collection[str] = (),
) -> Sweep:
  """Returns the runs of a sweep, all of whose settings have been checked.

  Args:
    task: The experiment.
    values: Those of each flag; the seeds are among them.
    default_model: The model where no flag names one.
    output_dir: The folder; None for one below `runs`.
    name: Of the program, with which that folder begins.
    open_flags: Flags that the name of each run has, and that, as the seeds, do
      not decide the folder: more values of them belong to the same sweep.

  Returns:
    The sweep.
  """
  experiment = importlib.import_module(f'experiments.{task}').EXPERIMENT
  recorded = cli.settings_of(experiment, [])
  for flag in values:
    if flag not in recorded and len(values[flag]) > 1:
      raise ValueError(f'--{flag} is the same for all runs; give it once.')
  values = dict(values)
  data_dir = cli.data_dir(values.pop('data_dir', [None])[0])
  names = [
    flag
    for flag in values
    if flag != 'seed' and (flag in open_flags or len(values[flag]) > 1)
  ]
  all_runs, varied = [], []
  for each in combinations_lib.product(values):
    if 'parallel_clients' not in each:  # The same on every machine.
      cores = cells_lib.num_cores(task, each.get('model', default_model))
      each['parallel_clients'] = cores
    elif not each['parallel_clients']:
      raise ValueError(
        '--parallel_clients=0 is another number on another machine; give one.'
      )
    if not _needs_added(each):  # It is not to depend on the file.
      each.pop(added.FLAG, None)
    settings = cli.settings_of(experiment, cells_lib.arguments(task, each)[2:])
    varied.append({flag: each[flag] for flag in names})
    run_name = combinations_lib.file_name({**varied[-1], 'seed': each['seed']})
    all_runs.append(runs_lib.Run(run_name, task, each, settings))
  # More seeds belong to the same sweep, and so does what no run records.
  deciding = {
    flag: values[flag]
    for flag in values
    if flag in recorded and flag not in ('seed', *open_flags)
  }
  head = '-'.join([name, task, *(n for n in names if n not in open_flags)])
  folder = cli.here(
    output_dir or f'runs/{head[:80]}-{combinations_lib.digest(deciding)}'
  )
  return Sweep(
    {flag: deciding[flag][0] for flag in deciding if flag not in names},
    all_runs,
    varied,
    runs_lib.Runs(folder / 'runs', data_dir),
  )


def _needs_added(flags_of_run: Mapping[str, Any]) -> bool:
  """Returns whether a run may be of a method of the file of --add."""
  if added.FLAG not in flags_of_run:
    return False
  names = added.load(cli.here(flags_of_run[added.FLAG])).names
  parts = (
    str(flags_of_run.get(name)).partition(':')[0]
    for name in ('algorithm', 'selection', 'method')
  )
  return any(part in names for part in parts)


def plan(sweep: Sweep) -> str:
  """Returns what would be run."""
  lines, num_left = [], 0
  for run in sweep.runs:
    done = run_directory.rounds_done(sweep.places.folder(run))
    state = 'finished'
    if not sweep.places.is_finished(run):
      num_left += 1
      state = f'to run, {done} of {run.rounds} rounds done'
    lines += [f'{run.name}: {state}', f'  {cells_lib.command(run)}']
  lines.append(
    f'{num_left} of {len(sweep.runs)} to run, in {sweep.places.runs.parent}'
  )
  return '\n'.join(lines)


class Outcome(NamedTuple):
  """How a call of `run` ended.

  Attributes:
    num_run: How many runs had been left to run.
    is_complete: Whether all have finished now.
  """

  num_run: int
  is_complete: bool


def run(sweep: Sweep, jobs: int, cluster: str) -> Outcome:
  """Runs what is left.

  Args:
    sweep: The sweep.
    jobs: How many runs at a time, if on this machine.
    cluster: Where they run; empty for this machine.

  Returns:
    How it ended.
  """
  places = sweep.places
  # Before anything starts: one of them may be another run.
  num_left = sum(not places.is_finished(run) for run in sweep.runs)
  if not num_left:
    return Outcome(0, True)
  return Outcome(num_left, program.run(sweep.runs, places, jobs, cluster))


@contextlib.contextmanager
def one_sentence(cluster: str) -> Iterator[None]:
  """Ends the program with one sentence where something is wrong."""
  try:
    with cli.one_sentence(ValueError, 2):
      if cluster:
        connection.check(cluster)
      yield
  except OSError as error:
    cli.fail(
      f'cannot write {error.filename or "a file"} ({error.strerror}); make '
      'room, and the same command continues.',
      2,
    )
