"""What all experiments share: flags, messages, exit codes, the summary.

Usage errors end with one sentence and exit code 2, and nothing is overwritten.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import gc
import os
import pathlib
import re
import shutil
import sys
import tempfile
import textwrap
import typing
from typing import Any, NamedTuple, NoReturn, Optional, Union

from absl import app
from absl import flags
from absl import logging

from experiments import added
from experiments import folder_name
from experiments import help as help_lib
from experiments import interrupts
from experiments import plain_warnings
from f3ast_tff import checks
from f3ast_tff import vector_files
from f3ast_tff import wording
from f3ast_tff.execution.cluster import connection
from f3ast_tff.runs import client_files
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import server_rate_file
from f3ast_tff.runs import trace_file
from f3ast_tff.runs import trackers

# What this module defines are the flags of the program that asks for them.
flags.disclaim_key_flags()

_COLUMNS = 80

# What Python and absl say of the value of a flag, and what to say instead.
_PLAIN_WORDS = {
  r'invalid literal for int.*': 'it must be a whole number',
  r'could not convert string to float.*': 'it must be a number',
  r"\('Non-boolean argument.*": 'it must be true or false',
  r'^ERROR:: ': '',
}

# Of the folder of a run, so that TFF need not be imported before.
ReleaseManagers = Callable[[pathlib.Path], Sequence[Any]]

_DEFINE = {
  bool: flags.DEFINE_bool,
  int: flags.DEFINE_integer,
  float: flags.DEFINE_float,
  str: flags.DEFINE_string,
}


class Experiment(NamedTuple):
  """An experiment's program; `run` says what its parts are."""

  name: str
  task_settings: Callable[[], Mapping[str, Any]]
  build_task: Callable[[config_lib.Config], Any]
  learning_rates: Mapping[str, config_lib.LearningRates]


def define_cluster(
  what: str, flag_values: flags.FlagValues = flags.FLAGS
) -> flags.FlagHolder:
  """Defines --cluster for a program that does something there."""
  return flags.DEFINE_string(
    'cluster',
    '',
    f'{what} on the Ray cluster of this environment or RAY_ADDRESS (auto), or '
    'on N workers of this machine (local:N); by default without Ray.',
    flag_values=flag_values,
  )


def define_flags(defaults: config_lib.Config) -> None:
  """Defines the flags of a run, one of them for each setting.

  Args:
    defaults: The experiment's own defaults.
  """
  define_cluster('Train clients')
  for field in dataclasses.fields(defaults):
    define_setting(field.name, defaults)
  # Here, because importing it defines the flag: not all programs have it.
  from experiments import output_folder

  flags.declare_key_flag(output_folder.OUTPUT_DIR.name)
  flags.FLAGS[output_folder.OUTPUT_DIR.name].help = (
    'The folder for the results; by default runs/TASK/ALGORITHM-AVAIL-SEED...'
  )
  flags.DEFINE_bool(
    'resume',
    False,
    'Continue the run in --output_dir if there is one, from its checkpoint; '
    'with a larger --rounds it becomes longer.',
  )
  flags.DEFINE_enum(
    'on_divergence',
    'stop',
    ('stop', 'continue'),
    'What to do when losses or weights are not finite any more, a test loss is '
    'above 1e10, or no update has been for ten rounds: stop with the last good '
    'state, or continue.',
  )
  flags.DEFINE_string(
    'tracker',
    '',
    'Log settings and metrics to mlflow or wandb (Weights & Biases) too, or to '
    'several, with commas; they are installed apart.',
  )
  flags.DEFINE_string(
    added.FLAG,
    '',
    'A Python file with methods of your own. It is executed, and what it gives '
    'to methods.register is a value of --algorithm: docs/benchmark.md.',
  )


def define_setting(name: str, defaults: config_lib.Config) -> None:
  """Defines the flag of one setting."""
  field, value = defaults.__dataclass_fields__[name], getattr(defaults, name)
  text, choices = config_lib.help_of(field), field.metadata['choices']
  if choices:
    flags.DEFINE_enum(name, value, choices, text)
  else:
    # Of `Optional[float]` the first argument, also where the value is None.
    kind = (*typing.get_args(field.type), field.type)[0]
    _DEFINE[kind](name, value, text)


def avail_here(text: str) -> str:
  """Returns --avail with the file of a trace where the user means it."""
  model, _, file = text.partition(':')
  return f'trace:{here(file)}' if model == 'trace' and file else text


def config_from_flags() -> config_lib.Config:
  """Returns the settings that the parsed flags give."""
  names = [field.name for field in dataclasses.fields(config_lib.Config)]
  values = {name: flags.FLAGS[name].value for name in names}
  if values['server_rate_file']:
    values['server_rate_file'] = str(here(values['server_rate_file']))
  for name in client_files.COLUMNS:
    kind, colon, path = values[name].partition(':')
    if kind == 'file' and path:
      values[name] = kind + colon + str(here(path))
  values['avail'] = avail_here(values['avail'])
  return config_lib.Config(**values)


def _settings(
  name: str, config: config_lib.Config, of_task: Mapping[str, Any]
) -> dict[str, Any]:
  """Returns all that `config.json` records, and --resume compares."""
  settings = {'task': name, **dataclasses.asdict(config), **of_task}
  # What is in the files belongs to the run.
  settings |= client_files.digests(config)
  factors = server_rate_file.of(config)
  if factors is not None:
    settings['server_rate_sha256'] = factors.sha256
  trace = trace_file.of(config)
  if trace is not None:
    settings['trace_sha256'] = trace.sha256
  file = flags.FLAGS[added.FLAG].value
  if file:
    found = added.load(here(file))
    settings |= {added.FLAG: found.file, f'{added.FLAG}_sha256': found.sha256}
  return settings


def settings_of(
  experiment: Experiment, arguments: Sequence[str]
) -> dict[str, Any]:
  """Returns what a run with some flags would record; nothing is run.

  Args:
    experiment: The experiment.
    arguments: Its flags. Wrong ones end the program as they would end its own.

  Returns:
    The settings.
  """
  for name in flags.FLAGS:
    if flags.FLAGS[name].present:  # Of an earlier call.
      flags.FLAGS[name].unparse()
  parse_flags([experiment.name, *arguments])
  with one_sentence(ValueError, 2):
    trackers.parse(flags.FLAGS.tracker)
    config = config_from_flags().resolve(experiment.learning_rates)
    return _settings(experiment.name, config, experiment.task_settings())


def before_tensorflow(verbose: bool = False, threads: int = 0) -> None:
  """Sets what TensorFlow reads when it is imported, later than here.

  Args:
    verbose: Whether its log is shown.
    threads: How many threads one of its operations may use; 0 for as many as
      there are cores.
  """
  gc.disable()  # A fifth of the time of the imports; `loop.run` turns it on.
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
  if flags.FLAGS.output_dir:
    return here(flags.FLAGS.output_dir)
  given = [
    name
    for name in settings
    if name not in flags.FLAGS or flags.FLAGS[name].present
  ]
  return here('runs') / task_name / folder_name.of(settings, given)


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


@contextlib.contextmanager
def _flag_errors() -> Iterator[None]:
  """Ends the program with exit code 2 where flags are wrong."""
  try:
    yield
  except flags.Error as error:
    reason = ' '.join(str(error).split()).rstrip('.')
    for theirs, ours in _PLAIN_WORDS.items():
      reason = re.sub(theirs, ours, reason)
    fail(f'{reason}; see --help.', 2)
  except UnicodeDecodeError as error:
    fail(f'a --flagfile is not a text file ({error}); see --help.', 2)


def _program(argv: Sequence[str]) -> str:
  """Returns how this program is called."""
  spec = sys.modules['__main__'].__spec__
  if spec is None:  # A program of the user's own.
    return f'python {argv[0]}'
  return f'python -m {spec.name.removesuffix(".__main__")}'


def parse_flags_and_arguments(
  argv: Sequence[str],
  flag_values: flags.FlagValues = flags.FLAGS,
  arguments: str = '',
) -> list[str]:
  """Parses flags, or prints the help and ends.

  Args:
    argv: The command line; a wrong flag ends the program with exit code 2.
    flag_values: The flags.
    arguments: What else the program is given, for its help.

  Returns:
    The program's name and what is no flag.
  """
  if flag_values is flags.FLAGS and help_lib.is_asked_for(argv):
    program = ' '.join(filter(None, [_program(argv), arguments]))
    what = sys.modules['__main__'].__doc__ or ''
    help_lib.show(help_lib.text(program, what, help_lib.flags_of_program()))
    sys.exit(0)
  with _flag_errors():
    return flag_values(list(argv))


def parse_flags(
  argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS
) -> list[str]:
  """Parses flags where nothing else is expected."""
  rest = parse_flags_and_arguments(argv, flag_values)
  if len(rest) > 1:
    fail(f'unexpected argument {rest[1]!r}: flags begin with --; see --help', 2)
  return rest


def add_methods(argv: Sequence[str]) -> tuple[str, ...]:
  """Executes the file of --add, if there is one, before flags are checked.

  Args:
    argv: The command line.

  Returns:
    The algorithms that it adds.
  """
  with _flag_errors():
    path = added.path_of(argv)
  with one_sentence(ValueError, 2):
    return added.load(here(path)).names if path else ()


def _parse_flags_of_run(argv: Sequence[str]) -> list[str]:
  """Parses flags of an experiment, with the methods that --add gives."""
  add_methods(argv)
  return parse_flags(argv)


def run(
  name: str,
  task_settings: Callable[[], Mapping[str, Any]],
  build_task: Callable[[config_lib.Config], Any],
  learning_rates: Mapping[str, config_lib.LearningRates],
  release_managers: Optional[ReleaseManagers] = None,
) -> None:
  """Runs an experiment's program.

  Args:
    name: The task's name.
    task_settings: Returns the settings that only this task has, from its flags;
      they are recorded with the common ones.
    build_task: Maps the settings to the `task.Task`. It may import
      TensorFlow; this module does not, so that `--help` and wrong flags answer
      at once.
    learning_rates: The default step sizes of each server optimizer.
    release_managers: Maps the run's folder to `tff.program.ReleaseManager`s of
      the experiment's own; `runs.releases` describes what they are given.
  """

  def main(argv: Sequence[str]) -> None:
    del argv
    verbosity = flags.FLAGS['verbosity']
    verbose = verbosity.present and verbosity.value >= logging.INFO
    if not verbosity.present:
      logging.set_verbosity(logging.WARNING)
    if not verbose:
      plain_warnings.show()
    with one_sentence(ValueError, 2):
      if flags.FLAGS.cluster:
        connection.check(flags.FLAGS.cluster)
      tracker_names = trackers.parse(flags.FLAGS.tracker)
      config = config_from_flags().resolve(learning_rates)
      settings = _settings(name, config, task_settings())
    before_tensorflow(verbose, config.threads_per_client)
    folder = _folder(name, settings)
    with one_sentence(run_directory.RunDirectoryError, 2):
      with run_directory.claim(folder, settings, flags.FLAGS.resume):
        interrupts.advise(f'--resume continues {folder}.')
        try:
          with _temporary_files_in(folder / run_directory.TEMPORARY):
            print('Loading TensorFlow ...', flush=True)
            with one_sentence(ValueError, 2):
              task = _with_tff(build_task, config)
              managers = _managers(release_managers, folder)
            with one_sentence(trackers.TrackerError, 2):
              with trackers.started(tracker_names, folder, settings) as others:
                _train(config, task, folder, [*managers, *others])
        except OSError as error:  # A full disk, for example.
          fail(
            f'cannot continue ({error}); once that is mended, --resume '
            f'continues {folder}.',
            1,
          )

  interrupts.install()
  interrupts.advise('the same command with --resume continues.')
  app.run(
    main, flags_parser=_parse_flags_of_run
  )


@contextlib.contextmanager
def _temporary_files_in(folder: pathlib.Path) -> Iterator[None]:
  """Has this process keep its temporary files in a folder, which then goes.

  TensorFlow writes the functions that it converts to such files. In the folder
  of the run they are gone after a crash, too, as soon as it is resumed.
  """
  shutil.rmtree(folder, ignore_errors=True)
  folder.mkdir()
  interrupts.remove_at_end(str(folder))
  tempfile.tempdir = str(folder)
  try:
    yield
  finally:
    tempfile.tempdir = None
    shutil.rmtree(folder, ignore_errors=True)
    interrupts.remove_at_end('')


def _with_tff(
  build_task: Callable[[config_lib.Config], Any], config: config_lib.Config
) -> Any:
  """Returns the task, or ends the program where TFF cannot be imported."""
  if sys.flags.optimize > 1:
    fail('TensorFlow needs docstrings, which -OO drops; leave it out.', 2)
  try:
    from f3ast_tff.execution import context
    from f3ast_tff.runs import task as task_lib

    # In the place of TFF's context, which complains when a program ends.
    context.set_in_process(config.parallel_clients)
    return task_lib.checked(build_task(config), build_task)
  except ImportError as error:
    fail(
      f'TensorFlow Federated cannot be imported ({error}); run "make setup" '
      'and use .venv/bin/python.',
      2,
    )


def _managers(
  build: Optional[ReleaseManagers], folder: pathlib.Path
) -> Sequence[Any]:
  """Returns the release managers of the experiment's own."""
  if build is None:
    return ()
  from f3ast_tff.runs import releases  # With TFF, which is slow to import.

  return releases.checked(build(folder), build)


def _in_columns(text: str) -> str:
  """Returns a text in lines of a terminal's width; a long path stays whole."""
  return textwrap.fill(
    text, _COLUMNS, break_long_words=False, break_on_hyphens=False
  )


def _what_runs(config: config_lib.Config, dataset: Any) -> str:
  """Returns in words what is going to run."""
  method = config_lib.method_name(dataclasses.asdict(config))
  return (
    f'{method} on {dataset.name}: {wording.count(config.rounds, "round")} with '
    f'K = {config.clients_per_round} of '
    f'{wording.count(len(dataset.train), "client")}, {config.avail}, '
    f'seed {config.seed}.'
  )


def _train(
  config: config_lib.Config,
  task: Any,
  folder: pathlib.Path,
  managers: Sequence[Any],
) -> None:
  # Here, because TensorFlow takes seconds to import; see `run`.
  from f3ast_tff.execution import rounds
  from f3ast_tff.execution.cluster import cluster as cluster_lib
  from f3ast_tff.runs import divergence
  from f3ast_tff.runs import loop
  from f3ast_tff.runs import summary
  from f3ast_tff.runs import task as task_lib

  cluster, where = None, flags.FLAGS.cluster
  at_a_time = (
    f'{wording.count(config.parallel_clients, "client")} at a time, each on '
    f'{config.threads_per_client} of {config_lib.num_cores()} cores '
    '(--parallel_clients).'
  )
  if where:
    with one_sentence(connection.UsageError, 2):
      cluster = cluster_lib.Cluster(where, config.threads_per_client)
    at_a_time = (
      f'The cluster can train {wording.count(cluster.size, "client")} at a '
      'time, and this run '
      f'trains {config.parallel_clients} (--parallel_clients).'
    )
  for line in (_what_runs(config, task.dataset), at_a_time):
    print(_in_columns(line), flush=True)
  print(_in_columns(f'Files go to {folder}.'), flush=True)
  of_a_run = (
    rounds.RoundError,
    divergence.DivergenceError,
    vector_files.VectorFileError,
  )
  of_usage = task_lib.SettingsError, checks.ResultError
  try:
    with one_sentence(of_a_run, 1), one_sentence(of_usage, 2):
      seconds = loop.run(
        config,
        task,
        folder,
        flags.FLAGS.on_divergence == 'stop',
        cluster,
        managers,
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
