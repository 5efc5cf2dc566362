"""Several machines: same result, what faults do, rounds a second, and cost.

  python -m benchmarks.workers same
  python -m benchmarks.workers faults
  python -m benchmarks.workers speed --task=synthetic
  python -m benchmarks.workers cost --task=shakespeare --data_dir=DIR

Each runs the real experiments, with workers in network namespaces of this
machine where it allows them (root may), on loopback otherwise, and writes
results/workers/*.csv, and beside it what it ran on.

  same    20 rounds of four methods with 2 and 3 workers beside a local run
  faults  one of two workers is killed in mid-round, or hangs, or all are lost
  speed   rounds a second with 1, 2 and 3 workers of one core each, in turns,
          so that a noisy neighbour hits all; they share the cores of this
          machine with the driver
  cost    bytes on the network and seconds of CPU for each client that trains,
          from the difference of a long run and a short one

"Speed" and "cost" want a machine that does nothing else.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple, Optional

from absl import app
from absl import flags
import numpy as np

from benchmarks import machine
from benchmarks import stand_ins
from experiments import cli
from f3ast_tff import run_directory

_TASK = flags.DEFINE_enum(
  'task', 'synthetic', ('synthetic', 'shakespeare'), 'For "speed" and "cost".'
)
_DATA_DIR = flags.DEFINE_string(
  'data_dir', None, "Where Shakespeare is; by default in TFF's own cache."
)
_WORKERS_ROUNDS = flags.DEFINE_integer(
  'rounds', 0, 'How many rounds; 0 for a number that fits.', lower_bound=0
)
_RESULTS = flags.DEFINE_string(
  'results', 'results/workers', 'The folder for the CSV files.'
)

_METHODS = ('fedavg', 'f3ast', 'f3ast_adam', 'power_of_choice')
_DEADLINE = 4
_NO_TEST = ('--eval_every=1000000', '--checkpoint_every=1000000')


def _command(
  task: str, folder: pathlib.Path, *more: str, workers: Sequence[Any] = ()
) -> list[str]:
  listed = ','.join(str(worker.address) for worker in workers)
  if task == 'shakespeare' and _DATA_DIR.value:
    more = (*more, f'--data_dir={cli.here(_DATA_DIR.value)}')
  return [
    sys.executable,
    '-m',
    f'experiments.{task}',
    f'--output_dir={folder}',
    f'--workers={listed}',
    *more,
  ]


class Done(NamedTuple):
  """An experiment that ended.

  Attributes:
    code: Its exit code.
    errors: What it wrote to standard error.
    cpu: The seconds of CPU that it and its own worker took.
  """

  code: int
  errors: str
  cpu: float


def _run(command: Sequence[str]) -> Done:
  with tempfile.TemporaryFile('w+') as errors:
    process = subprocess.Popen(
      command, stdout=subprocess.DEVNULL, stderr=errors, text=True
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    errors.seek(0)
    return Done(
      process.returncode, errors.read(), usage.ru_utime + usage.ru_stime
    )


def _run_well(command: Sequence[str]) -> Done:
  done = _run(command)
  if done.code:
    raise RuntimeError(f'{" ".join(command)} failed: {done.errors}')
  return done


@contextlib.contextmanager
def _networks(count: int) -> Iterator[list[stand_ins.Namespace]]:
  with contextlib.ExitStack() as stack:
    try:
      found = stack.enter_context(stand_ins.namespaces(count))
    except OSError as error:
      print(f'Loopback only: {error}', file=sys.stderr)
      found = [stand_ins.HERE] * count
    yield found


def _kind(networks: Sequence[stand_ins.Namespace]) -> str:
  return 'namespaces' if networks[0].name else 'loopback'


def _distance(one: pathlib.Path, other: pathlib.Path) -> tuple[float, float]:
  """Returns how far two runs' weights and rates are apart at most."""
  first, second = (
    np.load(run / 'model.npz', allow_pickle=False) for run in (one, other)
  )
  apart = {
    name: float(np.abs(first[name] - second[name]).max())
    for name in first.files
    if first[name].size
  }
  return max(v for k, v in apart.items() if k != 'rates'), apart['rates']


def _same(scratch: pathlib.Path) -> list[dict[str, Any]]:
  """Compares runs with several workers with local ones."""
  rounds = _WORKERS_ROUNDS.value or 20
  common = (f'--rounds={rounds}', '--eval_every=10')
  rows = []
  for method in _METHODS:
    chosen = (*common, f'--algorithm={method}')
    local = scratch / method
    _run_well(_command('synthetic', local, *chosen))
    for count in (2, 3):
      folder = scratch / f'{method}-{count}'
      with contextlib.ExitStack() as stack:
        networks = stack.enter_context(_networks(count))
        crew = [
          stack.enter_context(stand_ins.worker(where)) for where in networks
        ]
        _run_well(_command('synthetic', folder, *chosen, workers=crew))
      weights, rates = _distance(local, folder)
      cohorts = [
        [row['clients'] for row in _rows(run / 'rounds.csv')]
        for run in (local, folder)
      ]
      rows.append({
        'method': method,
        'workers': count,
        'network': _kind(networks),
        'rounds': rounds,
        'weights_apart': f'{weights:.2e}',
        'rates_apart': f'{rates:.2e}',
        'same_cohorts': cohorts[0] == cohorts[1],
      })
      print(rows[-1], flush=True)
  return rows


def _rows(path: pathlib.Path) -> list[dict[str, str]]:
  if not path.exists():
    return []
  with open(path, newline='') as file:
    return list(csv.DictReader(file))


def _harm_at(
  process: subprocess.Popen,
  folder: pathlib.Path,
  row: int,
  harm: Callable[[], None],
) -> float:
  """Does harm once there are so many rounds; returns the longest round's time.

  The longest round is the one in which the loss was noticed.

  Args:
    process: The experiment.
    folder: Its folder.
    row: After how many rounds.
    harm: What to do.

  Returns:
    Seconds.
  """
  while len(_rows(folder / 'rounds.csv')) < row and process.poll() is None:
    time.sleep(0.002)
  harm()
  process.wait()
  rounds = _rows(folder / 'timing.csv')[1:]
  return max(float(row['train_seconds']) for row in rounds)


def _faults(scratch: pathlib.Path) -> list[dict[str, Any]]:
  """Loses one worker of two in some ways, then both."""
  common = (
    '--rounds=60',
    '--checkpoint_every=7',
    f'--worker_deadline={_DEADLINE}',
  )
  rows = []

  def start(folder, crew, *more):
    return subprocess.Popen(
      _command('synthetic', folder, *common, *more, workers=crew),
      stdout=subprocess.DEVNULL,
      stderr=subprocess.PIPE,
      text=True,
    )

  def killed_in_mid_round(crew):
    crew[1].freeze()  # Its share of the next round stays with it.
    time.sleep(0.5)
    crew[1].kill()

  def cut_off(networks):
    subprocess.run(
      ['ip', 'link', 'set', networks[1].cable, 'down'], check=True
    )

  with _networks(2) as networks:
    harms: dict[str, Callable[[Any], None]] = {
      'one of two is killed in mid-round': killed_in_mid_round,
      'one of two hangs': lambda crew: crew[1].freeze(),
    }
    if networks[1].name:
      harms['the cable of one of two is cut'] = lambda crew: cut_off(networks)
    whole = scratch / 'whole'
    with stand_ins.worker(networks[0]) as one:
      with stand_ins.worker(networks[1]) as two:
        _run_well(_command('synthetic', whole, *common, workers=[one, two]))

    def is_same(folder):
      return all(
        (folder / name).read_bytes() == (whole / name).read_bytes()
        for name in ('model.npz', 'rounds.csv', 'metrics.csv', 'clients.csv')
      )

    for number, (name, harm) in enumerate(harms.items()):
      folder = scratch / f'fault{number}'
      with stand_ins.worker(networks[0]) as one:
        with stand_ins.worker(networks[1]) as two:
          process = start(folder, [one, two])
          seconds = _harm_at(process, folder, 20, lambda: harm([one, two]))  # noqa: B023
          errors = process.communicate()[1]
      rows.append({
        'fault': name,
        'network': _kind(networks),
        'exit_code': process.returncode,
        'noticed_after_seconds': f'{seconds:.1f}',
        'same_files_as_without': is_same(folder),
        'said': errors.strip().splitlines()[-1],
      })
      print(rows[-1], flush=True)
    subprocess.run(
      ['ip', 'link', 'set', networks[1].cable, 'up'], check=False
    )

    folder = scratch / 'both'
    with stand_ins.worker(networks[0]) as one:
      with stand_ins.worker(networks[1]) as two:
        process = start(folder, [one, two])

        def kill_both():
          one.kill()
          two.kill()

        _harm_at(process, folder, 20, kill_both)
        code, errors = process.returncode, process.communicate()[1]
    gone = _run(
      _command('synthetic', folder, *common, '--resume', workers=[one, two])
    )
    with stand_ins.worker(networks[0]) as one:
      with stand_ins.worker(networks[1]) as two:
        _run_well(
          _command('synthetic', folder, *common, '--resume', workers=[one, two])
        )
    for name, ended, text, same in (
      ('both are killed', code, errors, ''),
      ('resumed while they are away', gone.code, gone.errors, ''),
      ('resumed with new ones', 0, '-', is_same(folder)),
    ):
      rows.append({
        'fault': name,
        'network': _kind(networks),
        'exit_code': ended,
        'noticed_after_seconds': '',
        'same_files_as_without': same,
        'said': text.strip().splitlines()[-1],
      })
      print(rows[-1], flush=True)
  return rows


def _settings(rounds: int, clients: int, *more: str) -> tuple[str, ...]:
  extra = []
  if _TASK.value == 'synthetic' and clients > 50:
    extra = [f'--num_clients={10 * clients}']
  return (
    *_NO_TEST,
    f'--rounds={rounds}',
    f'--clients_per_round={clients}',
    '--avail=always',
    '--parallel_clients=1',
    *extra,
    *more,
  )


def _speed(scratch: pathlib.Path) -> list[dict[str, Any]]:
  """Times rounds with workers of one core each, in turns."""
  del scratch
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
  # Here, because TensorFlow reads the variable above when it is imported.
  from benchmarks import tasks
  from f3ast_tff import config as config_lib
  from f3ast_tff import crew as crew_lib
  from f3ast_tff import engine
  from f3ast_tff import runtime
  from f3ast_tff import server

  task = engine.Task(
    tasks.dataset(_TASK.value, _DATA_DIR.value or ''), tasks.model(_TASK.value)
  )
  config = config_lib.Config(
    selection='uniform',
    avail='always',
    batch_size=tasks.BATCH_SIZES[_TASK.value],
    parallel_clients=1,
    rounds=1,  # The last round prepares no next one, which would run beside.
  ).resolve({'sgd': config_lib.LearningRates(client=0.01, server=1.0)})
  cores = sorted(os.sched_getaffinity(0))
  rounds = _WORKERS_ROUNDS.value or (60 if _TASK.value == 'synthetic' else 12)
  with contextlib.ExitStack() as stack:
    networks = stack.enter_context(_networks(3))
    # In turns: three workers of which some have nothing to do.
    where = [
      stack.enter_context(
        stand_ins.worker(network, [cores[i % len(cores)]])
      ).address
      for i, network in enumerate(networks)
    ]
    local = stack.enter_context(runtime.worker(threads=1, parallel=1))
    servers = [server.Server(engine.build(config, task), local)]
    for count in (1, 2, 3):
      crew = stack.enter_context(crew_lib.connect(where[:count], 60))
      built = engine.build(config, task, count)
      servers.append(server.Server(built, local, crew))
    times = np.zeros((rounds, len(servers)))
    # The first rounds build what the later ones use.
    for t in range(-1, rounds + 1):
      for place, server in enumerate(servers):
        began = time.perf_counter()
        server.play(t + 2)
        if t >= 1:
          times[t - 1, place] = time.perf_counter() - began
  rows = []
  for count, own in enumerate(times.T):
    low, median, high = np.percentile(own, [25, 50, 75])
    rows.append({
      'task': _TASK.value,
      'workers': count or 'local',
      'cores_per_worker': 1,
      'cores_in_all': len(cores),
      'network': _kind(networks),
      'clients_per_round': 10,
      'rounds': rounds,
      'rounds_per_second': f'{1 / median:.3f}',
      'median_seconds': f'{median:.4f}',
      'quartiles': f'{low:.4f} to {high:.4f}',
      'times_one_worker': f'{np.median(own / times[:, 1]):.2f}',
    })
    print(rows[-1], flush=True)
  return rows


class _Spent(NamedTuple):
  """What a run cost."""

  clients: float
  examples: float
  sent: float
  received: float
  worker_cpu: float
  driver_cpu: float


def _spend(
  folder: pathlib.Path, networks: Sequence[stand_ins.Namespace], *chosen: str
) -> _Spent:
  before = [where.bytes_through() for where in networks]
  with contextlib.ExitStack() as stack:
    crew = [stack.enter_context(stand_ins.worker(where)) for where in networks]
    done = _run_well(_command(_TASK.value, folder, *chosen, workers=crew))
    times = [p.cpu_times() for worker in crew for p in worker.family()]
  after = [where.bytes_through() for where in networks]
  sent, received = (
    sum(b[way] - a[way] for a, b in zip(before, after)) for way in (0, 1)
  )
  examples = {
    row['client']: int(row['examples']) for row in _rows(folder / 'clients.csv')
  }
  cohorts = [row['clients'].split() for row in _rows(folder / 'rounds.csv')]
  return _Spent(
    clients=sum(map(len, cohorts)),
    examples=sum(examples[k] for cohort in cohorts for k in cohort),
    sent=sent,
    received=received,
    worker_cpu=sum(t.user + t.system for t in times),
    driver_cpu=done.cpu,
  )


def _cost(scratch: pathlib.Path) -> list[dict[str, Any]]:
  """Measures what one more client costs, at two sizes of a cohort."""
  rows = []
  with _networks(2) as networks:
    is_quick = _TASK.value == 'synthetic'
    for clients in (10, 100) if is_quick else (10, 30):
      many = _WORKERS_ROUNDS.value or (50 if is_quick else 120 // clients)
      short, long = (
        _spend(
          scratch / f'{clients}-{rounds}',
          networks,
          *_settings(rounds, clients, '--selection=uniform'),
        )
        for rounds in (2, 2 + many)
      )
      more = _Spent(*(b - a for a, b in zip(short, long)))
      rows.append({
        'task': _TASK.value,
        'workers': 2,
        'network': _kind(networks),
        'clients_per_round': clients,
        'rounds': many,
        'examples_per_client': f'{more.examples / more.clients:.1f}',
        'bytes_to_workers_per_client': round(more.sent / more.clients),
        'bytes_back_per_client': round(more.received / more.clients),
        'worker_cpu_seconds_per_client': (
          f'{more.worker_cpu / more.clients:.5f}'
        ),
        'driver_cpu_seconds_per_client': (
          f'{more.driver_cpu / more.clients:.5f}'
        ),
      })
      print(rows[-1], flush=True)
  return rows


_MEASURES: dict[str, Callable[[pathlib.Path], list[dict[str, Any]]]] = {
  'same': _same,
  'faults': _faults,
  'speed': _speed,
  'cost': _cost,
}


def main(argv: Sequence[str]) -> Optional[int]:
  """Measures what is asked for."""
  what = argv[1] if len(argv) == 2 else None
  if what not in _MEASURES:
    cli.fail(f'name one of {", ".join(_MEASURES)}; see --help.', 2)
  with tempfile.TemporaryDirectory() as scratch:
    rows = _MEASURES[what](pathlib.Path(scratch))
  name = what if what in ('same', 'faults') else f'{what}-{_TASK.value}'
  folder = cli.here(_RESULTS.value)
  folder.mkdir(parents=True, exist_ok=True)
  path = folder / f'{name}.csv'
  path.unlink(missing_ok=True)
  for row in rows:
    run_directory.append_row(path, row)
  command = [
    '--data_dir=DIR' if flag.startswith('--data_dir') else flag
    for flag in sys.argv[1:]
  ]
  machine.write(path.with_suffix('.json'), ['benchmarks.workers', *command])
  print(path)
  return None


if __name__ == '__main__':
  app.run(main, flags_parser=cli.parse_flags_and_arguments)
