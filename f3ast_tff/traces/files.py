"""Reads files of recorded availability: JSON or CSV, packed or not.

Files are not trusted. Nothing that they hold is executed; how much is read and
unpacked is bounded; what is wrong is one sentence. Which format it is follows
from the content: `json_formats`, or CSV with the columns client, start and end,
one interval per row.
"""

from collections.abc import Iterator, Sequence
import csv
import gzip
import io
import itertools
import lzma
import pathlib
import zlib

import numpy as np

from f3ast_tff.traces import intervals as intervals_lib
from f3ast_tff.traces import json_formats
from f3ast_tff.traces import recording as recording_lib

# How many bytes are read at most, as they are and unpacked.
MOST_BYTES = 256 * 2**20
# What unpacking an .xz file may take; `xz -9` needs 65 MB.
_MOST_MEMORY = 2**28

# How pickles begin; before protocol 2, those of a dictionary.
_PICKLES = (b'\x80', b'(d', b'}q')

_COLUMNS = ['client', 'start', 'end']
_ROWS_AT_A_TIME = 2**16


def content_of(path: pathlib.Path) -> bytes:
  """Returns the bytes of a file, if there are not too many.

  Args:
    path: The file.

  Returns:
    Its bytes as they are, packed or not.

  Raises:
    TraceError: If it cannot be read, or is too large.
  """
  if not path.is_file():  # A device would never end.
    raise recording_lib.TraceError(f'The trace {path} is not a file; name one.')
  try:
    if path.stat().st_size > MOST_BYTES:
      raise _too_large(path)
    with open(path, 'rb') as file:
      content = file.read(MOST_BYTES + 1)  # It may grow.
  except OSError as error:
    raise recording_lib.TraceError(
      f'The trace {path} cannot be read ({error.strerror}); name another file.'
    ) from error
  if len(content) > MOST_BYTES:
    raise _too_large(path)
  return content


def _too_large(path: pathlib.Path) -> recording_lib.TraceError:
  return recording_lib.TraceError(
    f'The trace {path} has more than {MOST_BYTES >> 20} MB, unpacked, which is '
    'the most that is read; leave some phones out, or make a CSV file with the '
    'columns client, start and end of the state that you need.'
  )


def unpacked(path: pathlib.Path, content: bytes) -> bytes:
  """Returns what is packed in a file, or the file itself if it is not.

  Args:
    path: The file, for messages only.
    content: Its bytes.

  Returns:
    The bytes in it.

  Raises:
    TraceError: If it is damaged, or too large when unpacked.
  """
  try:
    if content.startswith(b'\xfd7zXZ\0'):
      content = _unpacked_xz(content)
    elif content.startswith(b'\x1f\x8b'):
      with gzip.open(io.BytesIO(content)) as file:
        content = file.read(MOST_BYTES + 1)
  except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
    raise recording_lib.TraceError(
      f'The trace {path} cannot be unpacked ({error}); get it again.'
    ) from error
  if len(content) > MOST_BYTES:
    raise _too_large(path)
  return content


def _unpacked_xz(content: bytes) -> bytes:
  """Returns what the streams of a file hold, not much more than is allowed."""
  parts: list[bytes] = []
  left = MOST_BYTES + 1
  while content and left:
    stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, _MOST_MEMORY)
    parts.append(stream.decompress(content, left))
    left -= len(parts[-1])
    if left and not stream.eof:
      raise EOFError('its end is missing')
    content = stream.unused_data.lstrip(b'\0')  # Which may stand between.
  return b''.join(parts)


def parse(
  path: pathlib.Path,
  content: bytes,
  states: Sequence[str] = (recording_lib.READY,),
) -> recording_lib.Recording:
  """Reads a trace.

  Args:
    path: The file, for messages only.
    content: Its bytes, packed or not.
    states: Which states to read.

  Returns:
    What it holds, checked.

  Raises:
    TraceError: If it is none.
  """
  content = unpacked(path, content)
  try:
    if not content:
      raise recording_lib.WrongContent('is empty')
    if content.startswith(_PICKLES):
      raise recording_lib.WrongContent(
        'is a pickle, which could run a program; make JSON of it with python '
        f'-m experiments.convert_trace {path} OUT.json'
      )
    if content[:100].lstrip()[:1] in (b'{', b'['):
      phones = json_formats.loads(content)
      recording = json_formats.recording_of(phones, states)
    else:
      recording = _read_csv(content, states)
    return recording_lib.checked(recording)
  except recording_lib.WrongContent as error:
    raise recording_lib.TraceError(f'The trace {path} {error}.') from error
  except MemoryError as error:
    raise recording_lib.TraceError(
      f'The trace {path} does not fit into memory; leave some phones out.'
    ) from error


def _rows(content: bytes) -> Iterator[list[str]]:
  text = io.TextIOWrapper(io.BytesIO(content), 'utf-8-sig', newline='')
  rows = csv.reader(text, strict=True)
  try:
    yield from (row for row in rows if row)
  except (UnicodeDecodeError, csv.Error) as error:
    raise recording_lib.WrongContent(
      f'is neither JSON nor CSV (after line {rows.line_num}: {error})'
    ) from error


def _number(text: str) -> float:
  try:
    return float(text)
  except ValueError:
    return np.nan


def _read_csv(
  content: bytes, states: Sequence[str]
) -> recording_lib.Recording:
  """Reads rows of client, start, end; all recordings are of the same days."""
  rows = _rows(content)
  header = next(rows, [])
  if [name.strip().lower() for name in header] != _COLUMNS:
    raise recording_lib.WrongContent(
      'is neither JSON nor CSV that begins with client,start,end'
    )
  recording_lib.check_only_ready(states, 'CSV')
  index: dict[str, int] = {}
  parts = []
  while some := list(itertools.islice(rows, _ROWS_AT_A_TIME)):
    for row in some:
      if len(row) != len(_COLUMNS):
        raise recording_lib.WrongContent(
          f'has for phone {recording_lib.short(row[0])} a row of {len(row)} '
          f'columns instead of {len(_COLUMNS)}'
        )
    names, starts, ends = zip(*some)
    parts.append((
      np.array([index.setdefault(name, len(index)) for name in names]),
      np.array([_number(text) for text in starts]),
      np.array([_number(text) for text in ends]),
    ))
  if not parts:
    raise recording_lib.WrongContent('has no phones')
  found = intervals_lib.Intervals(*map(np.concatenate, zip(*parts)))
  # Nothing says when recordings began: at a midnight, so that hours stay hours.
  # What is no time is refused later, by phone.
  day, latest = intervals_lib.DAY, intervals_lib.LATEST
  times = np.nan_to_num(np.concatenate([found.starts, found.ends]))
  times = np.clip(times, 0, latest - 1)
  begin = day * (times.min() // day)
  end = max(begin + day, day * np.ceil(times.max() / day))
  return recording_lib.Recording(
    list(index),
    np.full(len(index), begin),
    np.full(len(index), end),
    {recording_lib.READY: found},
  )
