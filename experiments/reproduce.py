"""The newcomer's ten minutes: four methods, three seeds, a table, a picture.

  python -m experiments.reproduce

FedAvg, F3AST, FedAdam and F3AST+Adam on Synthetic(1,1) under Home-devices. Each
run is a process of its own, `python -m experiments.synthetic ...`, so that any
of them can be repeated alone. An interrupted call is taken up where it stopped;
one that had finished starts from scratch and keeps the old files once more.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import time

from absl import app
from absl import flags
import tqdm

from experiments import cli
from experiments import compare
import f3ast_tff
from f3ast_tff import config as config_lib

_JOBS = flags.DEFINE_integer(
  'jobs',
  len(os.sched_getaffinity(0)),
  'How many runs at a time.',
  lower_bound=1,
)
_ROUNDS = flags.DEFINE_integer('rounds', 500, 'Rounds a run.', lower_bound=1)
_SEEDS = flags.DEFINE_integer(
  'seeds', 3, 'How many seeds, from 0.', lower_bound=1
)
_AVAIL = 'home_devices'


def _command(algorithm: str, seed: int, folder: pathlib.Path) -> list[str]:
  return [
    sys.executable,
    '-m',
    'experiments.synthetic',
    f'--algorithm={algorithm}',
    f'--avail={_AVAIL}',
    f'--rounds={_ROUNDS.value}',
    f'--seed={seed}',
    f'--output_dir={folder}',
    '--resume',
  ]


def _start(command: list[str], log: pathlib.Path) -> subprocess.Popen:
  """Starts a run that ends with this program."""
  launcher = pathlib.Path(f3ast_tff.__file__).with_name('die_with_parent.py')
  with open(log, 'w') as file:
    return subprocess.Popen(
      [sys.executable, str(launcher), str(os.getpid()), *command],
      stdin=subprocess.DEVNULL,
      stdout=file,
      stderr=subprocess.STDOUT,
    )


def _rounds_done(folder: pathlib.Path) -> int:
  try:
    with open(folder / 'rounds.csv', 'rb') as file:
      return max(0, sum(1 for _ in file) - 1)
  except OSError:
    return 0


def _run_all(cells: dict[pathlib.Path, list[str]], jobs: int) -> list[str]:
  """Runs the cells, `jobs` at a time; returns a line for each that failed."""
  waiting, failed = list(cells.items()), []
  running: dict[pathlib.Path, subprocess.Popen] = {}
  bar = tqdm.tqdm(
    total=len(cells) * _ROUNDS.value, unit='round', disable=None
  )
  with bar:
    while waiting or running:
      while waiting and len(running) < jobs:
        folder, command = waiting.pop(0)
        log = folder.with_suffix('.log')
        running[folder] = _start(command, log)
        print(f'started  {folder.name}', file=sys.stderr, flush=True)
      time.sleep(0.2)
      for folder, process in list(running.items()):
        if process.poll() is None:
          continue
        del running[folder]
        if process.returncode:
          failed.append(
            f'{folder.name}: exit code {process.returncode}, see '
            f'{folder.with_suffix(".log")}'
          )
      bar.n = sum(map(_rounds_done, cells))
      bar.refresh()
  return failed


def main(argv: list[str]) -> None:
  """Runs the cells and makes the table and the picture."""
  del argv
  name = f'reproduce-{_ROUNDS.value}rounds-{_SEEDS.value}seeds'
  output = cli.here('runs') / name
  cells = {
    output / f'{algorithm}-seed{seed}': _command(
      algorithm, seed, output / f'{algorithm}-seed{seed}'
    )
    for seed in range(_SEEDS.value)
    for algorithm in config_lib.ALGORITHMS
  }
  finished = output / 'table.md'
  if finished.exists():
    previous = output.with_name(name + '-previous')
    shutil.rmtree(previous, ignore_errors=True)
    output.rename(previous)
  output.mkdir(parents=True, exist_ok=True)
  began = time.time()
  failed = _run_all(cells, _JOBS.value)
  if failed:
    cli.fail('; '.join(failed), 1)
  title = f'Synthetic(1,1), {_AVAIL}, K = 10'
  text = compare.report(list(cells), title, output / 'curves')
  finished.write_text(text)
  print(
    f'\n{title}: means over the last 100 of {_ROUNDS.value} rounds\n\n{text}\n'
    f'{len(cells)} runs in {time.time() - began:.0f} s; curves in '
    f'{output / "curves.png"}; all files in {output}'
  )


if __name__ == '__main__':
  app.run(main, flags_parser=cli.parse_flags)
