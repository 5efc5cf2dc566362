"""The folder of a run: what it holds, and how not to lose it.

  config.json       every setting, versions, revision
  metrics.csv       test metrics, one row per evaluated round
  rounds.csv        one row per round: how many were there, who trained, weights
  timing.csv        seconds, memory; apart: the other files repeat exactly
  clients.csv       each client's rate and participation at the end
  model.npz         the weights and rates at the end
  summary.png       accuracy and participation
  checkpoints/      the state to resume from
  tensorboard/      events

Rows are appended as rounds go by. After a crash the rows beyond the checkpoint
are dropped and written again, so that a resumed run leaves the same files; only
timing.csv and the events tell that it was interrupted.
"""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import csv
import fcntl
from importlib import metadata
import json
import os
import pathlib
import platform
import subprocess
from typing import Any

from f3ast_tff import version

_PACKAGES = ('tensorflow-federated', 'tensorflow', 'numpy')


class RunDirectoryError(ValueError):
  """The folder cannot be used for this run."""


def revision() -> str:
  """Returns the git revision of the code, '+' when changed, '' if unknown."""
  folder = pathlib.Path(__file__).parent
  try:
    commit, changes = (
      subprocess.run(
        ['git', *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
      ).stdout.strip()
      for arguments in (
        ('rev-parse', 'HEAD'),
        # What computes; a report that was written anew changes nothing.
        (
          'status',
          '--porcelain',
          '--untracked-files=no',
          '--',
          ':/f3ast_tff',
          ':/experiments',
        ),
      )
    )
  except (OSError, subprocess.SubprocessError):
    return ''
  return commit + ('+' if changes else '')


def _versions() -> dict[str, str]:
  versions = {'python': platform.python_version()}
  versions['f3ast-tff'] = version.__version__
  for package in _PACKAGES:
    with contextlib.suppress(metadata.PackageNotFoundError):
      versions[package] = metadata.version(package)
  return versions


def sync(path: pathlib.Path) -> None:
  """Returns when a file or folder is on the disk."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)


def write_atomically(path: pathlib.Path, text: str) -> None:
  """Replaces a file so that a crash leaves the old one or the new one."""
  temporary = path.with_name(path.name + '.tmp')
  with open(temporary, 'w') as file:
    file.write(text)
    file.flush()
    os.fsync(file.fileno())
  os.replace(temporary, path)


def read_config(folder: pathlib.Path) -> dict[str, Any]:
  """Returns what `config.json` holds."""
  path = folder / 'config.json'
  try:
    config = json.loads(path.read_text())
    if not isinstance(config['settings'], dict):
      raise TypeError
  except (OSError, ValueError, KeyError, TypeError) as error:
    raise RunDirectoryError(
      f'{path} is not the config.json of a run; name another --output_dir or '
      'move that folder away.'
    ) from error
  return config


@contextlib.contextmanager
def claim(
  folder: pathlib.Path, settings: Mapping[str, Any], resume: bool
) -> Iterator[None]:
  """Makes the folder this run's own for as long as the context lasts.

  Args:
    folder: The folder; made if it is not there.
    settings: All settings of the run.
    resume: Whether to go on with the run that is there, if there is one.

  Yields:
    Nothing; the lock is held.

  Raises:
    RunDirectoryError: If the folder holds another run, holds this one and
      `resume` is not set, is in use, or cannot be written.
  """
  try:
    folder.mkdir(parents=True, exist_ok=True)
    lock = open(folder / '.lock', 'a')
  except OSError as error:
    raise RunDirectoryError(
      f'Cannot write to the folder {folder} ({error.strerror}); name another '
      '--output_dir.'
    ) from error
  with lock:
    try:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
      raise RunDirectoryError(
        f'{folder} is in use by a run that is still going; wait for it or name '
        'another --output_dir.'
      ) from error
    _check_or_write_config(folder, settings, resume)
    yield


def _check_or_write_config(
  folder: pathlib.Path, settings: Mapping[str, Any], resume: bool
) -> None:
  path = folder / 'config.json'
  ours = {'.lock', path.name, path.name + '.tmp'}
  others = {f.name for f in folder.iterdir()} - ours
  if not path.exists() and others:
    raise RunDirectoryError(
      f'{folder} holds files that are not of a run (e.g. {min(others)}); name '
      'an empty or new --output_dir.'
    )
  if not others:  # Nothing, or a run that ended before its first round.
    config = {
      'settings': dict(settings),
      'versions': _versions(),
      'revision': revision(),
    }
    write_atomically(path, json.dumps(config, indent=2) + '\n')
    return
  found = read_config(folder)['settings']
  names = {**found, **settings}
  different = [
    f'{name} is {found.get(name)!r} there and {settings.get(name)!r} here'
    for name in names
    if found.get(name) != settings.get(name)
  ]
  if different:
    raise RunDirectoryError(
      f'{folder} holds another run ({"; ".join(different[:3])}); name another '
      '--output_dir.'
    )
  if not resume:
    raise RunDirectoryError(
      f'{folder} already holds this run; give --resume to go on with it, or '
      'name another --output_dir.'
    )


def append_row(path: pathlib.Path, row: Mapping[str, Any]) -> None:
  """Appends a row to a CSV file; the first row decides the header."""
  is_new = not path.exists()
  with open(path, 'a', newline='') as file:
    writer = csv.writer(file, lineterminator='\n')
    if is_new:
      writer.writerow(row)
    writer.writerow(row.values())


def sync_rows(path: pathlib.Path) -> None:
  """Returns when the rows are on the disk, so that a checkpoint may follow."""
  if path.exists():
    sync(path)


def keep_rounds(path: pathlib.Path, last_round: int) -> None:
  """Drops the rows of a CSV file beyond a round, and a torn last row.

  The first column is the round. A file without a whole row goes.

  Args:
    path: The file; may be absent.
    last_round: The last round to keep.
  """
  if not path.exists():
    return
  lines = path.read_text().splitlines(keepends=True)
  kept: list[str] = []
  for row in lines[1:]:
    round_text = row.split(',', 1)[0]
    if not (row.endswith('\n') and round_text.isdigit()):
      break
    if int(round_text) > last_round:
      break
    kept.append(row)
  if kept:
    write_atomically(path, ''.join([lines[0], *kept]))
  else:
    path.unlink()


def write_table(
  path: pathlib.Path, header: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
  """Writes a whole CSV file atomically."""
  lines = [','.join(map(str, row)) + '\n' for row in (header, *rows)]
  write_atomically(path, ''.join(lines))
