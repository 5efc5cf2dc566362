"""The text that `--help` prints: flags in groups, with choices and defaults.

absl sorts the flags of a program by name. Here they stand by what they are
about; one that no group names comes last, so that none is lost.
"""

from collections.abc import Iterator, Sequence
import dataclasses
import os
import sys
import textwrap

from absl import flags

from f3ast_tff.runs import config

_SETTINGS = dataclasses.fields(config.Config)

# By what they are about; flags that are no settings of all runs come first.
GROUPS = tuple(
  (title, (*own, *(f.name for f in _SETTINGS if f.metadata['group'] == title)))
  for title, own in (
    ('What to train on', (
      'task', 'data_source', 'data_dir', 'alpha', 'num_clients', 'model'
    )),
    (config.METHOD, ('add',)),
    (config.AVAILABILITY, ()),
    (config.RATES, ()),
    (config.TRAINING, ('on_divergence',)),
    (config.MACHINES, ('cluster',)),
    (config.TESTS, ()),
    (config.OUTPUT, ('output_dir', 'resume', 'tracker', 'output', 'title')),
  )
)
_OTHERS = 'Others'

_HELP = ('--help', '-help', '--helpshort', '-helpshort', '-h', '-?')
_WIDTH = 79


def is_asked_for(argv: Sequence[str]) -> bool:
  """Returns whether a command line asks for help."""
  arguments = list(argv[1:])
  if '--' in arguments:
    arguments = arguments[: arguments.index('--')]
  return any(argument in _HELP for argument in arguments)


def flags_of_program() -> list[flags.Flag]:
  """Returns the flags of a program, wherever they are defined.

  absl's own list is that of the main module, but a program of the user's may
  leave flags to an experiment that it imports.
  """
  by_module = flags.FLAGS.flags_by_module_dict()
  return [
    flag
    for module, some_flags in by_module.items()
    if module.partition('.')[0] != 'absl'
    for flag in some_flags
  ]


def grouped(names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
  """Yields the groups that hold some of the flags, with these."""
  left = set(names)
  for title, members in GROUPS:
    present = [name for name in members if name in left]
    left -= set(present)
    if present:
      yield title, present
  if left:
    yield _OTHERS, sorted(left)


def _choices(flag: flags.Flag) -> Sequence[str]:
  return getattr(flag.parser, 'enum_values', None) or ()


def _values(flag: flags.Flag) -> str:
  """Returns what a flag can be, and what it is by default."""
  choices = _choices(flag)
  if choices:
    return ', '.join(
      f'{choice} (default)' if choice == flag.default else choice
      for choice in choices
    )
  kind = flag.parser.syntactic_help
  default = '' if flag.default in (None, '') else f'default {flag.default}'
  if flag.boolean:
    kind, default = '', f'default {str(flag.default).lower()}'
  return ', '.join(part for part in (kind, default) if part)


def _entry(flag: flags.Flag) -> str:
  name = f'--[no]{flag.name}' if flag.boolean else f'--{flag.name}'
  values = _values(flag)
  head = textwrap.fill(
    f'{name}: {values}' if values else name,
    _WIDTH,
    initial_indent='  ',
    subsequent_indent='    ',
    break_on_hyphens=False,
  )
  # absl puts the choices in front of the text, which the head has already.
  what = flag.help.removeprefix(f'<{"|".join(_choices(flag))}>: ')
  text = textwrap.fill(
    what,
    _WIDTH,
    initial_indent='      ',
    subsequent_indent='      ',
    break_on_hyphens=False,
  )
  return f'{head}\n{text}'


def section(title: str, some_flags: Sequence[flags.Flag]) -> str:
  """Returns the help of some flags, with a title."""
  return '\n'.join([f'{title}:', *map(_entry, some_flags)])


def sections(some_flags: Sequence[flags.Flag]) -> list[str]:
  """Returns the help of a program's flags by what they are about."""
  by_name = {flag.name: flag for flag in some_flags}
  return [
    section(title, [by_name[name] for name in names])
    for title, names in grouped(list(by_name))
  ]


def text(program: str, what: str, some_flags: Sequence[flags.Flag]) -> str:
  """Returns the help of a program.

  Args:
    program: How it is called, e.g. `python -m experiments.cifar100`.
    what: What it does, with an example: its docstring.
    some_flags: Its flags.

  Returns:
    The text.
  """
  return '\n\n'.join([
    what.strip(),
    f'Usage: {program} [--FLAG=VALUE ...]',
    *sections(some_flags),
    'Others: --flagfile=FILE reads flags from a file, one per line;\n'
    '--verbosity=0 shows the logs; --helpfull lists every flag there is.',
  ])


def show(text: str) -> None:
  """Prints a help; who reads only its beginning (`| head`) may close it."""
  try:
    print(text, flush=True)
  except BrokenPipeError:
    # Else Python would write the rest when it ends, and fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
