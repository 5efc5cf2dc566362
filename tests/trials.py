"""What runs that are disturbed leave, compared with one that is not."""

from collections.abc import Callable, Mapping, Sequence
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any, Optional

ROOT = pathlib.Path(__file__).parents[1]
# What has to be equal, byte for byte.
FILES = ('metrics.csv', 'rounds.csv', 'clients.csv', 'model.npz')


def start(
  folder: pathlib.Path,
  *arguments: str,
  program: str = 'experiments.synthetic',
  log: Any = subprocess.DEVNULL,
  env: Optional[Mapping[str, str]] = None,
) -> subprocess.Popen:
  """Starts a run as a program, in a process of its own."""
  return subprocess.Popen(
    [sys.executable, '-m', program, *arguments, f'--output_dir={folder}'],
    stdin=subprocess.DEVNULL,
    stdout=subprocess.DEVNULL if log == subprocess.PIPE else log,
    stderr=log,
    env=env,
    cwd=ROOT,
    text=True,
  )


def num_rounds(folder: pathlib.Path) -> int:
  """Returns how many rounds a run has recorded."""
  try:
    text = (folder / 'rounds.csv').read_bytes()
  except FileNotFoundError:
    return 0
  return max(0, text.count(b'\n') - 1)


def contents(folder: pathlib.Path) -> dict[str, bytes]:
  """Returns the names of all files of a run, and what is to be exact."""
  found = {
    path.relative_to(folder).as_posix(): b''
    for path in folder.rglob('*')
    if path.is_file() and 'tensorboard' not in path.parts
  }
  checkpoints = [name for name in found if name.startswith('checkpoints/')]
  newest = max(
    checkpoints,
    key=lambda name: int(re.sub(r'\D', '', name) or 0),
    default=FILES[0],
  )
  for name in (*FILES, newest):
    found[name] = (folder / name).read_bytes()
  return found


def difference(folder: pathlib.Path, reference: Mapping[str, bytes]) -> str:
  """Returns in what a run differs from the reference, as text."""
  try:
    found = contents(folder)
  except OSError as error:
    return str(error)
  names = sorted(
    name
    for name in {**found, **reference}
    if found.get(name) != reference.get(name)
  )
  return f'other content: {", ".join(names)}' if names else ''


def last_line(log: str) -> str:
  """Returns the last line of a log."""
  return log.strip().rpartition('\n')[2]


def report(problems: Sequence[str]) -> int:
  """Prints how many trials went well; returns how many did not."""
  num_failed = sum(map(bool, problems))
  print(
    f'{len(problems) - num_failed} of {len(problems)} trials equal the '
    'reference'
  )
  return num_failed


def main(
  run_trials: Callable[[pathlib.Path], int], keep: Optional[str]
) -> None:
  """Runs trials and exits with code 1 if one has failed.

  Args:
    run_trials: Runs them below a folder; returns how many have failed.
    keep: The folder; None for one that is thrown away.
  """
  with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(keep or scratch)
    folder.mkdir(parents=True, exist_ok=True)
    failures = run_trials(folder)
  sys.exit(1 if failures else 0)
