"""The newcomer's first minutes: five methods, three seeds, a table, a report.

  python -m experiments.reproduce

FedAvg, F3AST, FedAdam, F3AST+Adam and Power-of-Choice on Synthetic(1,1) under
Home-devices. Each run is a process of its own, `python -m experiments.synthetic
...`, so that any of them can be repeated alone. An interrupted call is taken up
where it stopped; one that had finished starts from scratch and keeps the old
files once more.
"""

from collections.abc import Sequence
import os
import sys
import time

from absl import app
from absl import flags

from experiments import cli
from experiments.grid import program
from experiments.paper import all_cells
from experiments.paper import cell as cells_lib
from experiments.paper import comparison
from experiments.paper import design
from experiments.paper import grid_report
from f3ast_tff import wording
from f3ast_tff.execution.cluster import connection
from f3ast_tff.runs import run_tables

_JOBS = flags.DEFINE_integer(
  'jobs',
  len(os.sched_getaffinity(0)),
  'How many runs at a time.',
  lower_bound=1,
)
_CLUSTER = cli.define_cluster('Run them')
_ROUNDS = flags.DEFINE_integer('rounds', 500, 'Rounds a run.', lower_bound=1)
_SEEDS = flags.DEFINE_integer(
  'seeds', 3, 'How many seeds, from 0.', lower_bound=1
)


def main(argv: Sequence[str]) -> None:
  """Runs the cells and makes the table, the picture and the report."""
  del argv
  try:
    with cli.one_sentence(ValueError, 2):
      _main()
  except OSError as error:
    cli.fail(
      f'cannot write {error.filename or "a file"} ({error.strerror}); make '
      'room, and the same command continues.',
      2,
    )


def _main() -> None:
  if _CLUSTER.value:
    connection.check(_CLUSTER.value)
  name = f'reproduce-{_ROUNDS.value}rounds-{_SEEDS.value}seeds'
  output = cli.here('runs') / name
  cells = all_cells.main_grid(
    _ROUNDS.value,
    range(_SEEDS.value),
    ['home_devices'],
    design.OF_RELEASED_CODE,
  )
  finished = output / 'table.md'
  if finished.exists():
    program.keep_once_more(output)
  # A newcomer may have changed the code: nothing of this goes to results/.
  places = cells_lib.Places(
    output / 'runs', output / 'results', allow_changed_code=True
  )
  began = time.time()
  if not program.run(cells, places, _JOBS.value, _CLUSTER.value):
    sys.exit(1)
  title = 'Synthetic(1,1), home_devices, K = 10'
  text = comparison.report(
    [places.folder(cell) for cell in cells], title, output / 'curves'
  )
  print(
    f'\n{title}: means over the last {run_tables.num_last(_ROUNDS.value)} of '
    f'{wording.count(_ROUNDS.value, "round")}\n\n{text}\n'
    f'{len(cells)} runs in {time.time() - began:.0f} s; curves in '
    f'{output / "curves.png"}; all files in {output}'
  )
  grid_report.write(places, cells, output / 'report')
  finished.write_text(text)  # The last one: its presence says that all is done.


if __name__ == '__main__':
  app.run(main, flags_parser=cli.parse_flags)
