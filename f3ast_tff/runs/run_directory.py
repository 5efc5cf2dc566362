"""The folder of a run: what it holds, and how not to lose it.

  config.json       every setting, versions, revision, the data
  metrics.csv       test metrics, one row per evaluated round
  rounds.csv        one row per round: how many were there, who trained, weights
  timing.csv        seconds, memory; apart: the other files repeat exactly
  clients.csv       each client's rate and participation at the end
  phones.csv        on a trace, which phone each client has
  model.npz         the weights and rates at the end
  summary.png       accuracy and participation
  checkpoints/      the state to resume from
  vectors/          clients' vectors, if the method has them and they are large
  tensorboard/      events
  *_run_id          what the run is called by a tracker
  temporary/        temporary files, as long as it runs

Rows are appended as rounds go by. A checkpoint knows what metrics.csv and
rounds.csv held when it was saved. After a crash they are cut back to that and
written on, so that a resumed run leaves the same files; only timing.csv and the
events tell that it was interrupted. So it is with a finished run that is given
more rounds.
"""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import csv
import fcntl
import hashlib
from importlib import metadata
import json
import os
import pathlib
import platform
import re
import subprocess
from typing import Any, NamedTuple, Union

from f3ast_tff import version

TEMPORARY = 'temporary'
_PACKAGES = ('tensorflow-federated', 'tensorflow', 'numpy')
_OURS = 'f3ast-tff'
# What a run writes when its last round is over.
_FINAL_FILES = ('clients.csv', 'fixed_policy.csv', 'model.npz', 'summary.png')
# What settings are in runs from before there were any such.
OLD_DEFAULTS: Mapping[str, Any] = {
  'local_steps': 0,
  'server_rate_file': '',
  'round_seconds': 600,
  'trace_start': 0,
  'trace_state': 'ready',
  'trace_assignment': 'random',
  'target': 'data',
  'groups': '',
  'group_quota': '',
  'delivery': '',
  'over_selection': 1.0,
  'rates_count': 'delivered',
  'delivery_in_score': False,
  'vectors_in': 'auto',
}


class RunDirectoryError(ValueError):
  """The folder cannot be used for this run."""


def revision() -> str:
  """Returns the git revision of the code, '+' when changed, '' if unknown.

  It is the last commit that changed the code, so that runs can continue, and
  are the same, after a change of a text or another result.
  """
  # What computes.
  code = '--', '.', '../experiments'
  folder = pathlib.Path(__file__).parents[1]
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
        ('rev-list', '-1', 'HEAD', *code),
        ('status', '--porcelain', '--untracked-files=no', *code),
      )
    )
  except (OSError, subprocess.SubprocessError):
    return ''
  # An installed package may lie in the repository of something else.
  return commit and commit + ('+' if changes else '')


def versions() -> dict[str, str]:
  """Returns the versions that decide what a run computes."""
  found = {_OURS: version.__version__}
  for package in _PACKAGES:
    with contextlib.suppress(metadata.PackageNotFoundError):
      found[package] = metadata.version(package)
  return found


def differences(
  there: Mapping[str, Any], here: Mapping[str, Any]
) -> list[str]:
  """Returns in words in what two mappings differ."""
  names = {**there, **here}
  unnamed = {
    name: value for name, value in OLD_DEFAULTS.items() if name in names
  }
  there, here = {**unnamed, **there}, {**unnamed, **here}
  return [
    f'{name} is {there.get(name)!r} there and {here.get(name)!r} here'
    for name in names
    if there.get(name) != here.get(name)
  ]


def sync(path: pathlib.Path) -> None:
  """Returns when a file or folder is on the disk."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)


def write_atomically(
  path: pathlib.Path, content: Union[str, bytes, memoryview]
) -> None:
  """Replaces a file so that a crash leaves the old one or the new one."""
  if isinstance(content, str):
    content = content.encode()
  temporary = path.with_name(path.name + '.tmp')
  try:
    with open(temporary, 'wb') as file:
      file.write(content)
      file.flush()
      os.fsync(file.fileno())
  except OSError:  # A full disk needs the space of what is no use.
    temporary.unlink(missing_ok=True)
    raise
  os.replace(temporary, path)
  sync(path.parent)


def remove_unfinished(folder: pathlib.Path) -> None:
  """Removes what kills in the middle of `write_atomically` left behind."""
  for path in folder.glob('*.tmp'):
    path.unlink()


def read_config(folder: pathlib.Path) -> dict[str, Any]:
  """Returns what `config.json` holds."""
  path = folder / 'config.json'
  try:
    config = json.loads(path.read_text())
    if not isinstance(config['settings'], dict):
      raise TypeError
    if not isinstance(config.get('versions', {}), dict):
      raise TypeError
  except (
    OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError
  ) as error:
    raise RunDirectoryError(
      f'{path} is not the config.json of a run; name another --output_dir or '
      'move that folder away.'
    ) from error
  return config


def check_same(
  folder: pathlib.Path,
  settings: Mapping[str, Any],
  but_for_rounds: bool = False,
) -> None:
  """Checks that the run of a folder is one of these settings and versions.

  Args:
    folder: The folder.
    settings: All settings of the run.
    but_for_rounds: Whether it may have another number of rounds.

  Raises:
    RunDirectoryError: If it holds another run, or one of another version.
  """
  found = read_config(folder)
  there = dict(found['settings'])
  if but_for_rounds:
    there['rounds'] = settings['rounds']
  different = differences(there, settings)
  if different:
    raise RunDirectoryError(
      f'{folder} holds another run ({"; ".join(different[:3])}); name another '
      '--output_dir.'
    )
  theirs = dict(found.get('versions', {}))
  theirs.pop('python', None)  # Makes no difference to the numbers.
  different = differences(theirs, versions())
  if different:
    raise RunDirectoryError(
      f'{folder} holds a run of another version ({"; ".join(different)}); go '
      'back to that version, or name another --output_dir.'
    )


@contextlib.contextmanager
def claim(
  folder: pathlib.Path, settings: Mapping[str, Any], resume: bool
) -> Iterator[None]:
  """Makes the folder this run's own for as long as the context lasts.

  Args:
    folder: The folder; made if it is not there.
    settings: All settings of the run.
    resume: Whether to continue the run that is there, if there is one.

  Yields:
    Nothing; the lock is held.

  Raises:
    RunDirectoryError: If the folder holds another run or one of another
      version, holds this one and `resume` is not set, is in use, or cannot be
      written.
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
    try:
      _check_or_write_config(folder, settings, resume)
    except OSError as error:  # A full disk, for example.
      raise RunDirectoryError(
        f'Cannot write to the folder {folder} ({error.strerror}); make space '
        'there, or name another --output_dir.'
      ) from error
    yield


def _write_config(path: pathlib.Path, config: Mapping[str, Any]) -> None:
  write_atomically(path, json.dumps(config, indent=2) + '\n')


def _check_or_write_config(
  folder: pathlib.Path, settings: Mapping[str, Any], resume: bool
) -> None:
  path = folder / 'config.json'
  ours = {'.lock', TEMPORARY, path.name, path.name + '.tmp'}
  others = {f.name for f in folder.iterdir()} - ours
  if not path.exists() and others:
    raise RunDirectoryError(
      f'{folder} holds files that are not of a run (e.g. {min(others)}); name '
      'an empty or new --output_dir.'
    )
  if not others:  # Nothing, or a run that ended before its first round.
    config = {
      'settings': dict(settings),
      'versions': {'python': platform.python_version(), **versions()},
      'revision': revision(),
    }
    _write_config(path, config)
    return
  found = read_config(folder)
  there, rounds = found['settings'].get('rounds'), settings.get('rounds', 0)
  is_longer_or_shorter = type(there) is int and there != rounds
  check_same(folder, settings, is_longer_or_shorter)
  if not resume:
    raise RunDirectoryError(
      f'{folder} already holds this run; give --resume to continue it, or '
      'name another --output_dir.'
    )
  if not is_longer_or_shorter:
    return
  done = rounds_done(folder)
  if done > rounds:
    raise RunDirectoryError(
      f'{folder} holds {done} rounds of this run already, but --rounds is '
      f'{rounds}; give at least {done}, or name another --output_dir.'
    )
  _write_config(path, {**found, 'settings': dict(settings)})


def record_data(folder: pathlib.Path, fingerprint: str, origin: str) -> None:
  """Adds to `config.json`, if there is one, which data the run is on."""
  path = folder / 'config.json'
  if not path.exists():  # A run of the library, without a program.
    return
  config, data = read_config(folder), f'{fingerprint}; {origin or "unknown"}'
  if config.get('data') != data:
    _write_config(path, {**config, 'data': data})


def rounds_done(folder: pathlib.Path) -> int:
  """Returns how many rounds a run has recorded."""
  try:
    with open(folder / 'rounds.csv', 'rb') as file:
      return max(0, sum(1 for _ in file) - 1)
  except OSError:
    return 0


def remove_final_files(folder: pathlib.Path) -> None:
  """Removes what a run of fewer rounds wrote at its end."""
  for name in _FINAL_FILES:
    (folder / name).unlink(missing_ok=True)


def append_row(path: pathlib.Path, row: Mapping[str, Any]) -> None:
  """Appends a row to a CSV file; the first row decides the header.

  A file that an older version began keeps its columns.

  Args:
    path: The file.
    row: The values by column.
  """
  with open(path, 'a+', newline='') as file:
    file.seek(0)
    header = file.readline().rstrip('\n').split(',')
    writer = csv.writer(file, lineterminator='\n')
    if header == ['']:
      header = list(row)
      writer.writerow(header)
    writer.writerow(row[name] for name in header)


class Content(NamedTuple):
  """What a file held at some time.

  Attributes:
    size: How many bytes.
    sha256: Their digest.
  """

  size: int
  sha256: str


def synced_content(path: pathlib.Path) -> Content:
  """Returns what a file holds, once that is on the disk; nothing if absent."""
  content = b''
  if path.exists():
    sync(path)
    content = path.read_bytes()
  return Content(len(content), hashlib.sha256(content).hexdigest())


def begins_with(path: pathlib.Path, content: Content) -> bool:
  """Returns whether a file to which rows were appended since is unharmed."""
  if content.size == 0:
    return True
  try:
    with open(path, 'rb') as file:
      found = file.read(content.size)
  except FileNotFoundError:
    return False
  return hashlib.sha256(found).hexdigest() == content.sha256


def cut_back(path: pathlib.Path, size: int) -> None:
  """Cuts a file back to its first bytes; to none means that it goes."""
  if size == 0:
    path.unlink(missing_ok=True)
  else:
    os.truncate(path, size)


def keep_rounds(
  path: pathlib.Path, columns: Sequence[str], last_round: int
) -> None:
  """Drops the rows of a CSV file of numbers beyond a round, and torn ones.

  Args:
    path: The file; may be absent. It goes if it has no whole row.
    columns: Its header; the first one is the round.
    last_round: The last round to keep.
  """
  if not path.exists():
    return
  header = ','.join(columns).encode() + b'\n'
  row = re.compile(rb'(\d{1,10})(,[0-9.]+){%d}\n' % (len(columns) - 1))
  first, *rows = path.read_bytes().splitlines(keepends=True) or [b'']
  size = len(header)
  for line in rows if first == header else []:
    match = row.fullmatch(line)
    if match is None or int(match[1]) > last_round:
      break
    size += len(line)
  cut_back(path, 0 if size == len(header) else size)


def write_table(
  path: pathlib.Path, header: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
  """Writes a whole CSV file atomically."""
  lines = [','.join(map(str, row)) + '\n' for row in (header, *rows)]
  write_atomically(path, ''.join(lines))
