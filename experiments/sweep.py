r"""Runs an experiment with every combination of some flags' values.

For example, two methods with two steps of the rates, each with five seeds:

  python -m experiments.sweep --task=synthetic --algorithm=fedavg,f3ast \
    --beta=.001,.01 --seeds=0..4

Any flag of the experiment may have several values: with commas, and as a range
of whole numbers (0..4). A text with a colon is one value with all its commas,
and so is any of --protocol; more of them are given one by one:

  --clients_per_round=5,10 --clients_per_round=uniform:5,15

--dry_run checks all values and prints the commands. Each run is a process of
its own and the same as if its command were called alone. A sweep that was
interrupted continues when the same command is called again; with more seeds it
runs those only. One that has finished shows its table again.

Its folder has table.md and table.csv (mean and standard deviation over seeds of
each combination), differences.csv (from the first combination, paired by seed),
runs.csv (each run), curves.png, curves.svg, and the runs.
"""

from collections.abc import Mapping, Sequence
import importlib
import os
import sys
from typing import Any, NamedTuple, Optional

from absl import app
from absl import flags

from experiments import cli
from experiments import help as help_lib
from experiments.grid import cell as cells_lib
from experiments.grid import combinations as combinations_lib
from experiments.grid import program
from experiments.grid import runs as runs_lib
from f3ast_tff.execution.cluster import connection
from f3ast_tff.runs import run_directory

_TASKS = ('synthetic', 'shakespeare', 'cifar100')
# Flags whose values are lists or paths: all of a text is one value.
_WHOLE = ('protocol', 'server_rate_file', 'tracker', 'data_dir')


def _own_flags() -> flags.FlagValues:
  """Returns the flags of the sweep itself.

  They are apart from the experiment's, which are defined and checked by its own
  program.
  """
  own = flags.FlagValues()
  flags.DEFINE_enum('task', None, _TASKS, 'The experiment.', flag_values=own)
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
  flags.DEFINE_string(
    'output_dir',
    None,
    'The folder of the sweep; by default runs/sweep-TASK-..., the same for the '
    'same values, whatever the seeds.',
    flag_values=own,
  )
  own.set_gnu_getopt(True)
  return own


def _task_of(argv: Sequence[str]) -> Optional[str]:
  """Returns the experiment that the flags name, None if they do not."""
  known = flags.FlagValues()
  flags.DEFINE_enum('task', None, _TASKS, '', flag_values=known)
  known.set_gnu_getopt(True)
  with cli.one_sentence(flags.Error, 2):
    known(list(argv), known_only=True)
  return known.task


def _flags_of(task: str) -> dict[str, flags.Flag]:
  """Returns the flags of an experiment that a sweep passes on."""
  own = _own_flags()
  module = importlib.import_module(f'experiments.{task}')
  return {
    flag.name: flag
    for flag in flags.FLAGS.get_key_flags_for_module(module)
    if flag.name not in own and flag.name != 'resume'
  }


def _help(task: Optional[str]) -> str:
  own = _own_flags()
  of_sweep = help_lib.section('The sweep', [own[name] for name in own])
  return '\n\n'.join([
    (__doc__ or '').strip(),
    'Usage: python -m experiments.sweep --task=NAME [--FLAG=VALUE,... ...]',
    of_sweep,
    *(
      ['Add --task=NAME to --help for the flags of an experiment.']
      if task is None
      else help_lib.sections(list(_flags_of(task).values()))
    ),
  ])


def _values(
  task_flags: Mapping[str, flags.Flag], own: flags.FlagValues
) -> dict[str, list[Any]]:
  """Returns the values of each flag of the experiment that is given."""

  def values(name: str, given: str) -> list[Any]:
    found = []
    texts = own[given].value
    for text in combinations_lib.split(given, texts, name in _WHOLE):
      cli.parse_flags([own.task, f'--{name}={text}'])
      found.append(task_flags[name].value)
    return found

  if own.seeds is not None and own.seed is not None:
    raise ValueError('--seeds and --seed are the same; give one of them.')
  of_seeds = 'seed' if own.seeds is None else 'seeds'
  return {
    # The first one changes last: soon all combinations have a run.
    'seed': [0] if own[of_seeds].value is None else values('seed', of_seeds),
    **{
      name: values(name, name)
      for name in task_flags
      if name != 'seed' and own[name].value is not None
    },
  }


class _Sweep(NamedTuple):
  """A sweep.

  Attributes:
    title: What all runs share.
    runs: The runs in the order of their start.
    varied: The flags of each run that vary, but for its seed.
    places: Where the runs are.
  """

  title: str
  runs: list[runs_lib.Run]
  varied: list[dict[str, Any]]
  places: runs_lib.Runs


def _sweep(task: str, own: flags.FlagValues) -> _Sweep:
  """Returns the sweep, all of whose values have been checked."""
  task_flags = _flags_of(task)
  values = _values(task_flags, own)
  experiment = importlib.import_module(f'experiments.{task}').EXPERIMENT
  recorded = cli.settings_of(experiment, [])
  for name in values:
    if name not in recorded and len(values[name]) > 1:
      raise ValueError(f'--{name} is the same for all runs; give it once.')
  data_dir = cli.data_dir(values.pop('data_dir', [None])[0])
  model = task_flags['model'].default if 'model' in task_flags else ''
  names = [name for name in values if name != 'seed' and len(values[name]) > 1]
  all_runs, varied = [], []
  for each in combinations_lib.product(values):
    if 'parallel_clients' not in each:  # The same on every machine.
      cores = cells_lib.num_cores(task, each.get('model', model))
      each['parallel_clients'] = cores
    elif not each['parallel_clients']:
      raise ValueError(
        '--parallel_clients=0 is another number on another machine; give one.'
      )
    settings = cli.settings_of(experiment, cells_lib.arguments(task, each)[2:])
    varied.append({name: each[name] for name in names})
    name = combinations_lib.file_name({**varied[-1], 'seed': each['seed']})
    all_runs.append(runs_lib.Run(name, task, each, settings))
  # More seeds belong to the same sweep, and so does what no run records.
  told = {n: values[n] for n in values if n in recorded and n != 'seed'}
  constant = {name: told[name][0] for name in told if name not in names}
  folder = cli.here(
    own.output_dir or
    f'runs/{"-".join(["sweep", task, *names])[:80]}-'
    f'{combinations_lib.digest(told)}'
  )
  return _Sweep(
    ', '.join(filter(None, [task, combinations_lib.label(constant)])),
    all_runs,
    varied,
    runs_lib.Runs(folder / 'runs', data_dir),
  )


def _plan(sweep: _Sweep) -> str:
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


def _run(sweep: _Sweep, own: flags.FlagValues) -> bool:
  """Runs what is left and reports; returns whether all runs have finished."""
  places, output = sweep.places, sweep.places.runs.parent
  # Before anything starts: one of them may be another run.
  num_left = sum(not places.is_finished(run) for run in sweep.runs)
  is_complete = True
  if num_left:
    is_complete = program.run(sweep.runs, places, own.jobs, own.cluster)
  from experiments.grid import sweep_report  # Slow to import.

  if any(map(places.is_finished, sweep.runs)):
    print(sweep_report.write(sweep.runs, sweep.varied, places, sweep.title))
    if sweep.runs[0].settings.get('data_source') == 'sample':
      print('The data are a SAMPLE: this is a smoke test and not a result.')
    if not num_left:
      print('All runs had finished before; nothing was run.')
    print(f'Curves in {output / "curves.png"}; all files in {output}')
  return is_complete


def main(argv: Sequence[str]) -> None:
  """Runs the sweep."""
  task = _task_of(argv)
  if help_lib.is_asked_for(argv) or '--helpfull' in argv:
    print(_help(task))
    return
  if task is None:
    cli.fail(f'name an experiment with --task: {", ".join(_TASKS)}.', 2)
  own = _own_flags()
  for name in _flags_of(task):
    flags.DEFINE_multi_string(name, None, '', flag_values=own)
  cli.parse_flags(argv, own)
  try:
    with cli.one_sentence(ValueError, 2):
      if own.cluster:
        connection.check(own.cluster)
      sweep = _sweep(task, own)
      if own.dry_run:
        print(_plan(sweep))
      elif not _run(sweep, own):
        sys.exit(1)
  except OSError as error:
    cli.fail(
      f'cannot write {error.filename or "a file"} ({error.strerror}); make '
      'room, and the same command continues.',
      2,
    )


def parse_flags(argv: Sequence[str]) -> list[str]:
  """Leaves all flags to `main`: which there are depends on the experiment."""
  flags.FLAGS.mark_as_parsed()
  return list(argv)


if __name__ == '__main__':
  app.run(main, flags_parser=parse_flags)
