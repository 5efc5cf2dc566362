"""What all experiments share: flags, messages, exit codes, the summary.

Usage errors end with one sentence and exit code 2, and nothing is overwritten.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import functools
import gc
import os
import pathlib
import sys
from typing import Any, NoReturn, Optional, Union

from absl import app
from absl import flags
from absl import logging

from experiments import help as help_lib
from f3ast_tff.execution.cluster import connection
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import server_rate_file

_OUTPUT_DIR = flags.DEFINE_string(
  'output_dir',
  None,
  'The folder for the results; by default runs/TASK/ALGORITHM-AVAIL-SEED...',
)
_RESUME = flags.DEFINE_bool(
  'resume',
  False,
  'Continue the run in --output_dir if there is one, from its checkpoint.',
)
_ON_DIVERGENCE = flags.DEFINE_enum(
  'on_divergence',
  'stop',
  ('stop', 'continue'),
  'What to do when losses or weights are not finite any more, or no update has '
  'been for ten rounds: stop with the last good state, or continue.',
)

# Settings that the name of a run's folder holds anyway.
_IN_NAME_ALREADY = (
  'task',
  'algorithm',
  'selection',
  'server_optimizer',
  'proximal',
  'avail',
  'seed',
)

_DEFINE = {
  'int': flags.DEFINE_integer,
  'float': flags.DEFINE_float,
  'str': flags.DEFINE_string,
}


def define_cluster(what: str) -> flags.FlagHolder:
  """Defines --cluster for a program that does something there."""
  return flags.DEFINE_string(
    'cluster',
    '',
    f'{what} on the Ray cluster of this environment or RAY_ADDRESS (auto), or '
    'on N workers of this machine (local:N); by default without Ray.',
  )


def define_flags(defaults: config_lib.Config) -> None:
  """Defines a flag for each setting of `config.Config`.

  Args:
    defaults: The experiment's own defaults.
  """
  flags.disclaim_key_flags()
  define_cluster('Train clients')
  for field in dataclasses.fields(defaults):
    value = getattr(defaults, field.name)
    text, choices = field.metadata['help'], field.metadata['choices']
    if choices:
      flags.DEFINE_enum(field.name, value, choices, text)
    else:
      kind = 'float' if value is None else type(value).__name__
      _DEFINE[kind](field.name, value, text)
  for name in ('output_dir', 'resume', 'on_divergence', 'cluster'):
    flags.declare_key_flag(name)


def config_from_flags() -> config_lib.Config:
  """Returns the settings that the parsed flags give."""
  names = [field.name for field in dataclasses.fields(config_lib.Config)]
  values = {name: flags.FLAGS[name].value for name in names}
  if values['server_rate_file']:
    values['server_rate_file'] = str(here(values['server_rate_file']))
  return config_lib.Config(**values)


def _settings(
  name: str, config: config_lib.Config, of_task: Mapping[str, Any]
) -> dict[str, Any]:
  """Returns all that `config.json` records, and --resume compares."""
  settings = {'task': name, **dataclasses.asdict(config), **of_task}
  factors = server_rate_file.of(config)
  if factors is not None:  # What is in the file belongs to the run.
    settings['server_rate_sha256'] = factors.sha256
  return settings


def before_tensorflow(verbose: bool = False, threads: int = 0) -> None:
  """Sets what TensorFlow reads when it is imported, later than here.

  Args:
    verbose: Whether its log is shown.
    threads: How many threads one of its operations may use; 0 for as many as
      there are cores.
  """
  gc.disable()  # A fifth of the time of the imports; `training` turns it on.
  os.environ['TF_CPP_MIN_LOG_LEVEL'] = '0' if verbose else '3'
  if threads:
    os.environ['TF_NUM_INTRAOP_THREADS'] = str(threads)
  # oneDNN halves the time of a test on images.
  os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')


def here(path: str) -> pathlib.Path:
  """Returns a path of the user's, who may stand elsewhere than the program."""
  # `bazel run` starts programs elsewhere and leaves the place in this variable.
  return pathlib.Path(os.environ.get('BUILD_WORKING_DIRECTORY', '.')) / path


def data_dir(path: Optional[str]) -> Optional[pathlib.Path]:
  """Returns the folder that --data_dir names, None for the default."""
  return None if path is None else here(path)


def _folder(task_name: str, settings: Mapping[str, Any]) -> pathlib.Path:
  """Returns the run's folder; relative ones are below where the user stands."""
  if _OUTPUT_DIR.value:
    return here(_OUTPUT_DIR.value)
  name = '-'.join([
    config_lib.method_name(settings),
    settings['avail'],
    *(
      f'{flag}={settings[flag]}'
      for flag in settings
      if flag not in _IN_NAME_ALREADY
      and flag in flags.FLAGS
      and flags.FLAGS[flag].present
    ),
    f'seed={settings["seed"]}',
  ])
  return here('runs') / task_name / name.replace('/', '_')


def fail(message: str, exit_code: int) -> NoReturn:
  """Prints one sentence and ends the program."""
  print(f'error: {message}', file=sys.stderr)
  sys.exit(exit_code)


def fail_at_once(message: str, exit_code: int) -> NoReturn:
  """As `fail`, without waiting for threads that still train."""
  print(f'error: {message}', file=sys.stderr)
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(exit_code)


@contextlib.contextmanager
def one_sentence(
  kind: Union[type[Exception], tuple[type[Exception], ...]], exit_code: int
) -> Iterator[None]:
  """Turns an error of a kind into one sentence and an exit code."""
  try:
    yield
  except kind as error:
    fail(str(error), exit_code)


def parse_flags_and_arguments(argv: Sequence[str]) -> list[str]:
  """Parses flags; a wrong one ends the program with exit code 2."""
  try:
    return flags.FLAGS(list(argv))
  except flags.Error as error:
    reason = ' '.join(str(error).split()).rstrip('.')
    fail(f'{reason}; see --help.', 2)
  except UnicodeDecodeError as error:
    fail(f'a --flagfile is not a text file ({error}); see --help.', 2)


def parse_flags(argv: Sequence[str]) -> list[str]:
  """Parses flags where nothing else is expected."""
  rest = parse_flags_and_arguments(argv)
  if len(rest) > 1:
    fail(f'unexpected argument {rest[1]!r}: flags begin with --; see --help', 2)
  return rest


def _parse_flags_or_help(name: str, argv: Sequence[str]) -> list[str]:
  """Parses flags, or prints the help of an experiment and ends."""
  if help_lib.is_asked_for(argv):
    what = sys.modules['__main__'].__doc__ or ''
    some_flags = flags.FLAGS.get_key_flags_for_module(argv[0])
    program = f'python -m experiments.{name}'
    here_, there = (pathlib.Path(f).resolve() for f in (__file__, argv[0]))
    if here_.parent != there.parent:
      program = f'python {argv[0]}'  # A program of the user's own.
    print(help_lib.text(program, what, some_flags))
    sys.exit(0)
  return parse_flags(argv)


def run(
  name: str,
  task_settings: Callable[[], Mapping[str, Any]],
  build_task: Callable[[config_lib.Config], Any],
  learning_rates: Mapping[str, config_lib.LearningRates],
) -> None:
  """Runs an experiment's program.

  Args:
    name: The task's name.
    task_settings: Returns the settings that only this task has, from its flags;
      they are recorded with the common ones.
    build_task: Maps the settings to the `engine.Task`. It may import
      TensorFlow; this module does not, so that `--help` and wrong flags answer
      at once.
    learning_rates: The default step sizes of each server optimizer.
  """

  def main(argv: Sequence[str]) -> None:
    del argv
    verbosity = flags.FLAGS['verbosity']
    verbose = verbosity.present and verbosity.value >= logging.INFO
    if not verbosity.present:
      logging.set_verbosity(logging.WARNING)
    with one_sentence(ValueError, 2):
      if flags.FLAGS.cluster:
        connection.check(flags.FLAGS.cluster)
      config = config_from_flags().resolve(learning_rates)
      settings = _settings(name, config, task_settings())
    before_tensorflow(verbose, config.threads_per_client)
    folder = _folder(name, settings)
    with one_sentence(run_directory.RunDirectoryError, 2):
      with run_directory.claim(folder, settings, _RESUME.value):
        try:
          with one_sentence(ValueError, 2):
            task = _with_tff(build_task, config)
          _train(config, task, folder)
        except KeyboardInterrupt:
          fail_at_once(f'interrupted; --resume continues {folder}.', 130)
        except OSError as error:  # A full disk, for example.
          fail(
            f'cannot continue ({error}); once that is mended, --resume '
            f'continues {folder}.',
            1,
          )

  app.run(
    main, flags_parser=functools.partial(_parse_flags_or_help, name)
  )


def _with_tff(
  build_task: Callable[[config_lib.Config], Any], config: config_lib.Config
) -> Any:
  """Returns the task, or ends the program where TFF cannot be imported."""
  try:
    return build_task(config)
  except ImportError as error:
    fail(
      f'TensorFlow Federated cannot be imported ({error}); run "make setup" '
      'and use .venv/bin/python.',
      2,
    )


def _train(
  config: config_lib.Config, task: Any, folder: pathlib.Path
) -> None:
  # Here, because TensorFlow takes seconds to import; see `run`.
  from f3ast_tff.execution import context
  from f3ast_tff.execution import rounds
  from f3ast_tff.execution.cluster import cluster as cluster_lib
  from f3ast_tff.runs import divergence
  from f3ast_tff.runs import loop
  from f3ast_tff.runs import summary
  from f3ast_tff.runs import task as task_lib

  # In the place of TFF's context, which complains when a program ends.
  context.set_in_process(config.parallel_clients)
  cluster, where = None, flags.FLAGS.cluster
  if where:
    with one_sentence(connection.UsageError, 2):
      cluster = cluster_lib.Cluster(where, config.threads_per_client)
    print(
      f'The cluster can train {cluster.size} clients at a time, and this run '
      f'trains {config.parallel_clients} (--parallel_clients).',
      flush=True,
    )
  else:
    compiled = ', compiled with XLA' if task.model.xla else ''
    print(
      f'{config.parallel_clients} at a time, clients train with '
      f'{config.threads_per_client} of {config_lib.num_cores()} cores each'
      f'{compiled}; --parallel_clients changes the number.',
      flush=True,
    )
  of_a_run = rounds.RoundError, divergence.DivergenceError
  try:
    with one_sentence(of_a_run, 1), one_sentence(task_lib.SettingsError, 2):
      seconds = loop.run(
        config, task, folder, _ON_DIVERGENCE.value == 'stop', cluster
      )
  except connection.ClusterError as error:
    fail_at_once(
      f'{error} --resume continues {folder}, on another cluster or without '
      '--cluster.',
      1,
    )
  summary.draw(folder, task.dataset.name)
  print(summary.text(folder, task.dataset.name, seconds))
  if task.dataset.is_sample:
    print('  The data are a SAMPLE: this is a smoke test and not a result.')
