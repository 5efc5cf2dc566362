"""Makes JSON of a trace that is a pickle, as FedScale's are; nothing is run.

For example: python -m experiments.convert_trace client_behave_trace out.json.xz

Reads pickles that hold dictionaries, lists, numbers and texts only, or a trace
in JSON, and leaves out the phones whose records are wrong: it names them. The
file to write is packed if its name ends in .xz or .gz, and must not exist yet.
"""

from collections.abc import Callable, Sequence
import functools
import gzip
import io
import json
import lzma
import pathlib
import pickle
from typing import Any

from absl import app

from experiments import cli
from f3ast_tff.runs import run_directory
from f3ast_tff.traces import files
from f3ast_tff.traces import json_formats
from f3ast_tff.traces import recording as recording_lib

# What is kept of a phone in a pickle.
_FIELDS = ('active', 'inactive', 'finish_time')
# How many phones that are left out are named.
_NAMED = 10
_PACK: dict[str, Callable[[bytes], bytes]] = {
  '.xz': lzma.compress, '.gz': gzip.compress
}


class _Unpickler(pickle.Unpickler):
  """Builds what a pickle needs no class or function for, and calls nothing."""

  def find_class(self, module: str, name: str) -> Any:
    raise pickle.UnpicklingError(f'it asks for {module}.{name}')


def _unpickled(content: bytes) -> dict[str, Any]:
  """Returns the phones of a pickle.

  Args:
    content: The pickle.

  Returns:
    What it maps phones to, as JSON would have it.

  Raises:
    WrongContent: If it is no such pickle.
  """
  try:
    phones = _Unpickler(io.BytesIO(content)).load()
  except MemoryError:
    raise
  except Exception as error:  # What a broken pickle raises is anyone's guess.
    reason = str(error).partition('\n')[0]
    raise recording_lib.WrongContent(
      f'is no pickle that is safe to read ({reason})'
    ) from error
  if not isinstance(phones, dict):
    raise recording_lib.WrongContent('does not map phones to what they did')
  # A pickle can name the same list a million times, at no cost. Without such
  # tricks it has a byte for each time at least.
  left = len(content)
  found: dict[str, Any] = {}
  for name, phone in phones.items():
    if isinstance(phone, dict):
      phone = {field: phone[field] for field in _FIELDS if field in phone}
      lists = [value for value in phone.values() if isinstance(value, list)]
      left -= sum(map(len, lists))
    if left < 0:
      raise recording_lib.WrongContent('holds more than its size allows')
    if type(name) not in (int, str) or str(name) in found:
      raise recording_lib.WrongContent(
        f'has {recording_lib.short(str(name))} twice, or not as a text or a '
        'whole number'
      )
    found[str(name)] = phone
  return found


def _right(phones: Any) -> tuple[dict[str, Any], list[str]]:
  """Returns the phones that can be used, and what is wrong with the others."""
  if not isinstance(phones, dict):
    raise recording_lib.WrongContent('does not map phones to what they did')
  kept, reasons = {}, []
  for name, phone in phones.items():
    try:
      recording_lib.checked(
        json_formats.recording_of({name: phone}, (recording_lib.READY,))
      )
      kept[name] = phone
    except recording_lib.WrongContent as error:
      reasons.append(str(error))
  return kept, reasons


def convert(
  source: pathlib.Path, target: pathlib.Path
) -> tuple[int, list[str]]:
  """Converts a trace.

  Args:
    source: A pickle, or a trace in JSON, packed or not.
    target: Where to write JSON; must not exist.

  Returns:
    How many phones it has, and what is wrong with those that it has not.

  Raises:
    TraceError: If there is nothing to convert, or `target` exists.
  """
  if target.exists():
    raise recording_lib.TraceError(
      f'{target} exists already; name another file to write.'
    )
  content = files.unpacked(source, files.content_of(source))
  try:
    is_json = content[:100].lstrip()[:1] == b'{'
    phones = json_formats.loads(content) if is_json else _unpickled(content)
    kept, reasons = _right(phones)
    if not kept:
      first = f' ({source} {reasons[0]})' if reasons else ''
      raise recording_lib.WrongContent(
        f'has no phones that can be used{first}'
      )
    text = json.dumps(kept, allow_nan=False)
  except (recording_lib.WrongContent, RecursionError) as error:
    raise recording_lib.TraceError(f'The trace {source} {error}.') from error
  except (TypeError, ValueError) as error:
    raise recording_lib.TraceError(
      f'The trace {source} holds what JSON has no word for ({error}).'
    ) from error
  packed = text.encode() + b'\n'
  if target.suffix in _PACK:
    packed = _PACK[target.suffix](packed)
  run_directory.write_atomically(target, packed)
  return len(kept), reasons


def main(argv: Sequence[str]) -> None:
  """Converts the trace and says what was left out."""
  if len(argv) != 3:
    cli.fail('name the trace to read and the file to write; see --help.', 2)
  source, target = map(cli.here, argv[1:])
  try:
    with cli.one_sentence(ValueError, 2):
      num_phones, reasons = convert(source, target)
  except OSError as error:
    cli.fail(f'cannot write {target} ({error.strerror}).', 2)
  except MemoryError:
    cli.fail(f'{source} does not fit into memory.', 2)
  for reason in reasons[:_NAMED]:
    print(f'Left out: the trace {reason}.')
  if len(reasons) > _NAMED:
    print(f'... and {len(reasons) - _NAMED} more.')
  print(f'{target} has {num_phones} phones.')


if __name__ == '__main__':
  app.run(
    main,
    flags_parser=functools.partial(
      cli.parse_flags_and_arguments, arguments='TRACE OUTPUT'
    ),
  )
