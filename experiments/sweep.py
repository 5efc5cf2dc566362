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

from collections.abc import Sequence
import sys
from typing import Any, Optional

from absl import app
from absl import flags

from experiments import cli
from experiments import help as help_lib
from experiments.grid import combinations as combinations_lib
from experiments.grid import sweeps


def _own_flags() -> flags.FlagValues:
  """Returns the flags of the sweep itself."""
  return sweeps.own_flags(
    None,
    'The folder of the sweep; by default runs/sweep-TASK-..., the same for the '
    'same values, whatever the seeds.',
  )


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
      else help_lib.sections(list(sweeps.flags_of(task, own).values()))
    ),
  ])


def _sweep(task: str, own: flags.FlagValues) -> sweeps.Sweep:
  """Returns the sweep, all of whose values have been checked."""
  task_flags = sweeps.flags_of(task, _own_flags())
  if own.seeds is not None and own.seed is not None:
    raise ValueError('--seeds and --seed are the same; give one of them.')
  of_seeds = 'seed' if own.seeds is None else 'seeds'
  values: dict[str, list[Any]] = {
    # The first one changes last: soon all combinations have a run.
    'seed': sweeps.values_of(
      task, 'seed', of_seeds, own[of_seeds].value or ['0']
    ),
    **{
      name: sweeps.values_of(task, name, name, own[name].value)
      for name in task_flags
      if name != 'seed' and own[name].value is not None
    },
  }
  model = task_flags['model'].default if 'model' in task_flags else ''
  return sweeps.build(task, values, model, own.output_dir, 'sweep')


def _run(sweep: sweeps.Sweep, own: flags.FlagValues) -> bool:
  """Runs what is left and reports; returns whether all runs have finished."""
  places, output = sweep.places, sweep.places.runs.parent
  outcome = sweeps.run(sweep, own.jobs, own.cluster)
  from experiments.grid import sweep_report  # Slow to import.

  if any(map(places.is_finished, sweep.runs)):
    constant = combinations_lib.label(sweep.constant)
    title = ', '.join(filter(None, [own.task, constant]))
    print(sweep_report.write(sweep.runs, sweep.varied, places, title))
    if sweep.runs[0].settings.get('data_source') == 'sample':
      print('The data are a SAMPLE: this is a smoke test and not a result.')
    if not outcome.num_run:
      print('All runs had finished before; nothing was run.')
    print(f'Curves in {output / "curves.png"}; all files in {output}')
  return outcome.is_complete


def main(argv: Sequence[str]) -> None:
  """Runs the sweep."""
  task = sweeps.task_of(argv)
  if help_lib.is_asked_for(argv) or '--helpfull' in argv:
    help_lib.show(_help(task))
    return
  if task is None:
    cli.fail(f'name an experiment with --task: {", ".join(sweeps.TASKS)}.', 2)
  cli.add_methods(argv)
  own = _own_flags()
  sweeps.parse(argv, own, sweeps.flags_of(task, own))
  with sweeps.one_sentence(own.cluster):
    sweep = _sweep(task, own)
    if own.dry_run:
      print(sweeps.plan(sweep))
    elif not _run(sweep, own):
      sys.exit(1)


def parse_flags(argv: Sequence[str]) -> list[str]:
  """Leaves all flags to `main`: which there are depends on the experiment."""
  flags.FLAGS.mark_as_parsed()
  return list(argv)


if __name__ == '__main__':
  app.run(main, flags_parser=parse_flags)
