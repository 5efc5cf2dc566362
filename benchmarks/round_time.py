"""How long a round takes: ours, TFF's own FedAvg and FedJAX, in one run.

  python -m benchmarks.round_time --data_dir=DIR
  python -m benchmarks.round_time --tasks=synthetic --previous=CHECKOUT

Same machine, same ten clients a round with all their data in random order, same
batch size, one local epoch, paper-size models. Each contender is a process of
its own; blocks of rounds take turns, so that a noisy neighbour hits all. What
counts are the ratios: each is the median over rounds with the same clients in
the same block. All on TensorFlow have oneDNN, which TFF's worker would not turn
on by itself on every CPU.

On Synthetic it also times a plain loop in NumPy, and two runs at a time, as a
grid of runs has them. --previous adds another version of this project, from a
checkout of its own. The speed of a large matrix product, measured in the same
run, says how much of what the cores can do is used.

`make bench` makes FedJAX's environment first; without one, FedJAX is left out.
"""

import contextlib
import os
import pathlib
import sys
import tempfile
import threading
import time
from typing import Any, NamedTuple, Optional

from absl import app
from absl import flags
import numpy as np
import pandas as pd
import tqdm

from benchmarks import machine
from benchmarks import round_time_chart
from benchmarks import tasks
from benchmarks import timed_process
from experiments import cli
from experiments import output_folder

_TASKS = flags.DEFINE_list(
  'tasks', ['synthetic', 'shakespeare', 'cifar100'], 'What to train.'
)
_DATA_DIR = flags.DEFINE_string(
  'data_dir', None, "Where the real data are; by default TFF's own cache."
)
_BLOCKS = flags.DEFINE_integer(
  'blocks', None, 'How many blocks each has.', lower_bound=1
)
_CONTENDERS = flags.DEFINE_list(
  'contenders',
  ['fedavg', 'f3ast', 'previous', 'stock', 'fedjax', 'numpy'],
  'Who is timed.',
)
_PREVIOUS = flags.DEFINE_string(
  'previous', None, 'A checkout of another version to be timed as well.'
)
_BY_SHARE = flags.DEFINE_bool(
  'by_share', False, 'Draw clients by their data, as FedAvg does.'
)
_FEDJAX_PYTHON = flags.DEFINE_string(
  'fedjax_python',
  '.venv-fedjax/bin/python',
  "The Python that has FedJAX's packages.",
)
_PATIENCE = flags.DEFINE_integer(
  'patience', 360, 'Seconds that a first round may take.', lower_bound=1
)
_COHORT = 10
_QUARTILES = ('quartile_1_ms', 'median_ms', 'quartile_3_ms')


class Plan(NamedTuple):
  """How much is timed.

  Attributes:
    warm: The numbers of the cohorts that all train with first, untimed.
    blocks: The numbers of the cohorts of each block.
  """

  warm: list[int]
  blocks: list[list[int]]


def plan(task: str, num_blocks: Optional[int]) -> Plan:
  """Returns how much is timed of a task.

  Args:
    task: The task.
    num_blocks: The number of blocks; None for as many as settle its ratios.

  Returns:
    The plan. On Synthetic every cohort is warmed up: FedJAX compiles for each
    size of a last batch. Other rounds take so long that a block is one.
  """
  if task == 'synthetic':
    cohorts = list(range(20))
    return Plan(cohorts, [cohorts] * (num_blocks or 9))
  return Plan([0], [[block + 1] for block in range(num_blocks or 3)])


def _work(task: str, timed: Plan, data_dir: str) -> timed_process.Work:
  """Draws the cohorts and gathers what the clients in them train on."""
  dataset = tasks.dataset(task, data_dir)
  rng = np.random.default_rng(1)
  share = dataset.p if _BY_SHARE.value else None
  cohorts = np.stack([
    rng.choice(len(dataset.train), _COHORT, replace=False, p=share)
    for _ in range(max(timed.warm + sum(timed.blocks, [])) + 1)
  ])
  augment = dataset.augment or (lambda examples, rng: examples)
  examples = {
    int(k): augment(dataset.train[k], rng) for k in np.unique(cohorts)
  }
  return timed_process.Work(task, tasks.BATCH_SIZES[task], cohorts, examples)


class _Command(NamedTuple):
  """How to start a contender, and where."""

  arguments: list[str]
  folder: str = '.'


def _ours(name: str, path: str, data_dir: str, folder: str = '.') -> _Command:
  """Returns the command of a contender on TFF."""
  module = 'benchmarks.tff_rounds'
  return _Command([sys.executable, '-m', module, name, path, data_dir], folder)


def _commands(task: str, path: str, data_dir: str) -> dict[str, _Command]:
  """Returns the command of each contender that can run here."""
  commands = {
    name: _ours(name, path, data_dir) for name in ('fedavg', 'f3ast', 'stock')
  }
  if _PREVIOUS.value:
    commands['previous'] = _ours('fedavg', path, data_dir, _PREVIOUS.value)
  fedjax = pathlib.Path(_FEDJAX_PYTHON.value)
  if fedjax.exists():
    commands['fedjax'] = _Command(
      [str(fedjax), '-m', 'benchmarks.fedjax_rounds', path]
    )
  if task == 'synthetic':
    commands['numpy'] = _Command(
      [sys.executable, '-m', 'benchmarks.numpy_rounds', path]
    )
  return {
    name: command
    for name, command in commands.items()
    if name == 'fedavg' or name in _CONTENDERS.value
  }


def _start(
  command: _Command, warm: list[int], log: Any
) -> Optional[timed_process.TimedProcess]:
  """Starts a contender; returns None if it is not warm in time."""
  started = timed_process.TimedProcess(command.arguments, log, command.folder)
  timer = threading.Timer(_PATIENCE.value, started.kill)
  timer.start()
  started.ask(warm)
  answer = started.answer()
  timer.cancel()
  if answer is None:
    started.stop()
    return None
  return started


def _time_turns(
  commands: dict[str, _Command], timed: Plan, log: Any, bar: Any
) -> pd.DataFrame:
  """Times contenders in turns; returns a row for each round."""
  rows: list[dict[str, Any]] = []
  with contextlib.ExitStack() as stack:
    running = {}
    for name, command in commands.items():
      bar.set_postfix_str(f'{name} warms up')
      started = _start(command, timed.warm, log)
      bar.update()
      if started is None:
        rows.append({'contender': name})
        continue
      stack.callback(started.stop)
      running[name] = started
    for block, cohorts in enumerate(timed.blocks):
      for name, one in running.items():
        bar.set_postfix_str(name)
        one.ask(cohorts)
        answer = one.answer()
        if answer is None:
          raise RuntimeError(f'{name} ended in the middle of its rounds.')
        rows += [
          {
            'contender': name,
            'block': block,
            'cohort': cohort,
            'seconds': seconds,
            **{f'{of}_mb': mb for of, mb in answer.megabytes.items()},
          }
          for cohort, seconds in zip(cohorts, answer.seconds)
        ]
        bar.update()
  return pd.DataFrame(rows)


def _time_pairs(
  commands: dict[str, _Command], timed: Plan, log: Any, bar: Any
) -> pd.DataFrame:
  """Times two runs at a time; returns a row for each block and contender."""
  rows = []
  with contextlib.ExitStack() as stack:
    pairs = {}
    for name, command in commands.items():
      started = [_start(command, timed.warm, log) for _ in range(2)]
      bar.update()
      pair = [one for one in started if one is not None]
      for one in pair:
        stack.callback(one.stop)
      if len(pair) == 2:
        pairs[name] = pair
    for block, cohorts in enumerate(timed.blocks):
      for name, pair in pairs.items():
        bar.set_postfix_str(f'two of {name}')
        began = time.perf_counter()
        for one in pair:
          one.ask(cohorts)
        answers = [one.answer() for one in pair]
        if None in answers:
          raise RuntimeError(f'{name} ended in the middle of its rounds.')
        seconds = (time.perf_counter() - began) / (2 * len(cohorts))
        rows.append({'contender': name, 'block': block, 'seconds': seconds})
        bar.update()
  return pd.DataFrame(rows)


def summarize(rounds: pd.DataFrame, base: str) -> pd.DataFrame:
  """Returns a row for each contender.

  Args:
    rounds: A row for each round: contender, block, cohort, seconds and the
      peaks of memory; one without seconds for a contender that was not warm in
      time.
    base: The contender to which all are compared.

  Returns:
    Medians and quartiles in milliseconds, the median ratio to `base` over
    rounds of the same block and cohort, and the peaks of memory.
  """
  keys = [key for key in ('block', 'cohort') if key in rounds]
  timed = rounds.dropna(subset=['seconds'])
  wide = timed.pivot_table(
    index=keys, columns='contender', values='seconds', sort=False
  )
  rows = []
  for name in rounds['contender'].unique():
    row: dict[str, Any] = {'contender': name}
    if name in wide:
      times = wide[name]
      quartiles = np.percentile(times, [25, 50, 75]) * 1000
      row |= dict(zip(_QUARTILES, quartiles))
      row['times_ours'] = (times / wide[base]).median()
      row['rounds'] = len(times)
      of_it = timed[timed['contender'] == name]
      for column in ('driver_mb', 'worker_mb'):
        if column in of_it:
          row[column] = of_it[column].max()
    rows.append(row)
  return pd.DataFrame(rows)


def _benchmark(task: str, data_dir: str, log: Any) -> pd.DataFrame:
  """Times a task; returns a row for each contender."""
  timed = plan(task, _BLOCKS.value)
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, 'work.npz')
    work = _work(task, timed, data_dir)
    timed_process.save(work, path)
    commands = _commands(task, path, data_dir)
    total = len(commands) * (1 + len(timed.blocks))
    with tqdm.tqdm(total=total, desc=task, disable=None) as bar:
      table = summarize(_time_turns(commands, timed, log, bar), 'fedavg')
    if task == 'synthetic':
      both = {'fedavg': _ours('fedavg-grid', path, data_dir)}
      if 'previous' in commands:
        both['previous'] = _ours(
          'fedavg-grid', path, data_dir, commands['previous'].folder
        )
      if 'fedjax' in commands:
        both['fedjax'] = commands['fedjax']
      total = len(both) * (1 + len(timed.blocks))
      with tqdm.tqdm(total=total, desc='pairs', disable=None) as bar:
        pairs = summarize(_time_pairs(both, timed, log, bar), 'fedavg')
      pairs['contender'] = 'two of ' + pairs['contender']
      table = pd.concat([table, pairs], ignore_index=True)
  num_examples = [
    sum(len(work.examples[int(k)]['y']) for k in cohort)
    for cohort in work.cohorts
  ]
  table.insert(0, 'task', task)
  table.insert(1, 'examples', int(np.mean(num_examples)))
  return table


# Floating-point operations of an example, forward and backward: three times
# those of the forward pass, in which each weight of a matrix or convolution
# counts two for each place it is applied at.
_GFLOP_AN_EXAMPLE = {'shakespeare': 0.394, 'cifar100': 2.42}


def _peak_gflops(size: int = 2048, times: int = 5) -> float:
  """Returns the speed of a large matrix product, the best of some times."""
  a = np.random.default_rng(0).random((size, size), np.float32)

  def seconds() -> float:
    began = time.perf_counter()
    np.dot(a, a)
    return time.perf_counter() - began

  return 2 * size**3 / min(seconds() for _ in range(times)) / 1e9


def describe(row: Any) -> str:
  """Returns a sentence about a row of the table."""
  if np.isnan(row.median_ms):
    return f'{row.contender:<14} no round within {_PATIENCE.value} s'
  memory = '' if np.isnan(row.driver_mb) else f'; {row.driver_mb:.0f} MB'
  if memory and not np.isnan(row.worker_mb):
    memory += f' + {row.worker_mb:.0f} MB in the worker'
  return (
    f'{row.contender:<14} {row.median_ms:9.1f} ms, quartiles '
    f'{row.quartile_1_ms:.1f} to {row.quartile_3_ms:.1f}; '
    f'{row.times_ours:.3g} times ours{memory}'
  )


def main(argv: list[str]) -> None:
  """Times all tasks and writes the table and the chart."""
  del argv
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
  data_dir = str(cli.data_dir(_DATA_DIR.value) or '')
  folder = cli.here(output_folder.OUTPUT_DIR.value or 'runs/benchmarks')
  folder.mkdir(parents=True, exist_ok=True)
  unknown = set(_TASKS.value) - set(tasks.BATCH_SIZES)
  tables = []
  with cli.one_sentence(ValueError, 2), open(folder / 'log.txt', 'w') as log:
    if unknown:
      raise ValueError(
        f'--tasks must be of {", ".join(tasks.BATCH_SIZES)}, but one is '
        f'{min(unknown)!r}.'
      )
    peak = _peak_gflops()
    print(f'A large float32 matrix product: {peak:.0f} GFLOP/s on all cores.')
    for task in _TASKS.value:
      table = _benchmark(task, data_dir, log)
      print(
        f'{task}: {_COHORT} clients and {table.examples[0]} examples a round, '
        f'batch {tasks.BATCH_SIZES[task]}'
      )
      for row in table.itertuples():
        print('  ' + describe(row))
      if task in _GFLOP_AN_EXAMPLE:
        work = _GFLOP_AN_EXAMPLE[task] * table.examples[0]
        speed = 1000 * work / table.median_ms[0]
        print(f'  ours: {speed:.0f} GFLOP/s, {speed / peak:.0%} of the product')
      tables.append(table)
      # What is there stays if a later task fails.
      results = pd.concat(tables, ignore_index=True)
      path = folder / 'round_time.csv'
      results.to_csv(path, index=False, float_format='%.5g')
      round_time_chart.draw(results, folder / 'round_time')
  machine.write(
    folder / 'round_time-machine.json', ['round_time', *sys.argv[1:]]
  )
  print(f'The table and the chart are in {folder}.')


if __name__ == '__main__':
  app.run(main, flags_parser=cli.parse_flags)
