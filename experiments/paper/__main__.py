"""Makes every table and figure of the paper again, next to the paper's numbers.

  python -m experiments.paper --dry_run          what would run, and how long
  python -m experiments.paper --only=synthetic   runs it, then makes the report
  python -m experiments.paper --report_only      the report from what is there
  python -m experiments.paper --check            is the report up to date?

A finished cell is a file below results/cells and is not run again; a call that
was interrupted continues. The report is in docs/paper, and lists what has not
been run. `--preset=compact` trains small models for few rounds on CIFAR-100 and
Shakespeare, `--preset=paper` those of the paper. Synthetic is in both.

`--cluster=auto` runs the cells on the nodes of a Ray cluster.
"""

from collections.abc import Sequence
import os
import sys

from absl import app
from absl import flags

from experiments import cli
from experiments.grid import program
from experiments.grid import runner
from experiments.paper import all_cells
from experiments.paper import cell as cells_lib
from experiments.paper import grid_report
from experiments.paper import plan
from f3ast_tff.execution.cluster import connection

_PRESET = flags.DEFINE_enum(
  'preset',
  'compact',
  ('compact', 'paper', 'all'),
  'The size of models and the number of rounds on CIFAR-100 and Shakespeare.',
)
_ONLY = flags.DEFINE_list(
  'only',
  [],
  'Parts of names of cells, or globs of whole names, with commas; see '
  '--dry_run for the names.',
)
_JOBS = flags.DEFINE_integer(
  'jobs',
  len(os.sched_getaffinity(0)),
  'How many runs at a time. One of CIFAR-100 at paper size takes 5 GB.',
  lower_bound=1,
)
_CLUSTER = cli.define_cluster('Run the cells')
_DRY_RUN = flags.DEFINE_bool(
  'dry_run', False, 'Print the cells, their time and commands; run nothing.'
)
_REPORT_ONLY = flags.DEFINE_bool(
  'report_only', False, 'Make the report from the results that are there.'
)
_CHECK = flags.DEFINE_bool(
  'check',
  False,
  'Compare the report with what the results give; exit code 1 if it differs.',
)
_FROM_SCRATCH = flags.DEFINE_bool(
  'from_scratch',
  False,
  'Run everything again in runs/paper and make the report there, whatever '
  'results/ holds; the code may have changes.',
)
_ROUNDS = flags.DEFINE_integer(
  'rounds',
  None,
  'Other numbers of rounds, to try it out; only with --from_scratch.',
  lower_bound=1,
)
_RESULTS_DIR = flags.DEFINE_string(
  'results_dir', 'results/cells', 'The folder of the results.'
)
_REPORT_DIR = flags.DEFINE_string(
  'report_dir', 'docs/paper', 'The folder of the report, which is all its own.'
)
_RUNS_DIR = flags.DEFINE_string(
  'runs_dir', str(cells_lib.RUNS), 'Where runs go.'
)
_DATA_DIR = flags.DEFINE_string(
  'data_dir', None, "Where the real data are; by default TFF's own cache."
)


def _check_code_is_named() -> None:
  """Ends the program if no result could be kept."""
  revision = runner.revision()
  if not revision or revision.endswith('+'):
    cli.fail(
      'the code has changes that no git revision names (see git status), so '
      'its results would be refused; commit or undo them, or give '
      '--from_scratch.',
      2,
    )


def _main(
  chosen: Sequence[cells_lib.Cell], every: Sequence[cells_lib.Cell]
) -> None:
  scratch = cli.here('runs/paper')
  runs, found, output = (
    (scratch / 'runs', scratch / 'results', scratch / 'report')
    if _FROM_SCRATCH.value
    else map(cli.here, (_RUNS_DIR.value, _RESULTS_DIR.value, _REPORT_DIR.value))
  )
  places = cells_lib.Places(
    runs, found, _FROM_SCRATCH.value, cli.data_dir(_DATA_DIR.value)
  )
  if _CHECK.value:
    grid_report.check(places, every, output)
    return
  if _REPORT_ONLY.value:
    grid_report.write(places, every, output)
    return
  finished = scratch / 'finished'
  is_new = _FROM_SCRATCH.value and finished.exists()
  if _DRY_RUN.value:
    if is_new:  # What is there would be moved aside.
      nothing = scratch / 'nothing'
      places = places._replace(runs=nothing, results=nothing)
    print(plan.text(chosen, places, _JOBS.value))
    return
  if not _FROM_SCRATCH.value:
    _check_code_is_named()
  if is_new:
    program.keep_once_more(scratch)
  all_well = program.run(
    chosen, places, _JOBS.value, _CLUSTER.value, plan.estimator(places)
  )
  grid_report.write(places, every, output)
  if _FROM_SCRATCH.value and all_well:
    finished.touch()
  if not all_well:
    sys.exit(1)


def main(argv: Sequence[str]) -> None:
  """Runs the grid and makes the report."""
  del argv
  if _ROUNDS.value and not _FROM_SCRATCH.value:
    cli.fail('--rounds is for --from_scratch only.', 2)
  if sum((_CHECK.value, _REPORT_ONLY.value, _DRY_RUN.value)) > 1:
    cli.fail('give one of --check, --report_only and --dry_run.', 2)
  with cli.one_sentence(ValueError, 2):
    chosen = cells_lib.only(
      all_cells.cells(_PRESET.value, _ROUNDS.value), _ONLY.value
    )
    if not chosen:
      raise ValueError(
        f'No cell of --preset={_PRESET.value} fits --only='
        f'{",".join(_ONLY.value)}; --dry_run lists their names.'
      )
    if _CLUSTER.value:
      connection.check(_CLUSTER.value)
    _main(chosen, all_cells.cells('all', _ROUNDS.value))


if __name__ == '__main__':
  app.run(main, flags_parser=cli.parse_flags)
