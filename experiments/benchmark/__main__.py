r"""Methods against each other under several availability models.

For example, three methods under two models, each with five seeds:

  python -m experiments.benchmark --task=synthetic \
    --methods=fedavg,f3ast,fedavg_with_replacement --avail=always,uneven

and a method of your own next to them, with the same seeds:

  python -m experiments.benchmark --add=examples/my_method.py \
    --methods=fedavg,f3ast,half_corrected --avail=always,uneven

Methods are values of --algorithm, models are values of --avail. A model with a
colon is given by itself: --avail=always,scarce --avail=trace:phones.json. All
other flags of the experiment have one value, the same for all runs. --dry_run
checks all of it and prints the commands.

All methods have the same seeds: data, availability and first weights. What was
interrupted continues when the same command is called again; more methods,
models or seeds are added to what is there.

The folder has benchmark.html, the page to read first; table.md and table.csv
(mean, spread and rank, bias of the weights, seconds, memory); differences.csv
(from --reference) and pairs.csv (all pairs), tested within seeds; runs.csv
(each run); accuracy.png and curves.png, also as .svg; curves.csv; and the runs.
docs/benchmark.md explains them.
"""

from collections.abc import Sequence
import shlex
import sys
from typing import Any

from absl import app
from absl import flags

from experiments import cli
from experiments import help as help_lib
from experiments.grid import combinations as combinations_lib
from experiments.grid import sweeps
from f3ast_tff import availability
from f3ast_tff import methods as methods_lib

_TASK = 'synthetic'
_REFERENCE = 'f3ast'
# Positively correlated clients, and clients that come and go.
_AVAILS = (*availability.PAPER, 'clusters', 'arrivals')
# What --methods and --seeds stand for.
_REPLACED = ('algorithm', 'seed')


def _own_flags() -> flags.FlagValues:
  """Returns the flags of the benchmark itself."""
  own = sweeps.own_flags(
    _TASK,
    'The folder of the benchmark; by default runs/benchmark-TASK-..., the same '
    'whatever the methods, models and seeds.',
  )
  flags.DEFINE_multi_string('methods', None, '', flag_values=own)
  own['methods'].help = (
    'The methods: values of --algorithm. By default all, and those of --add.'
  )
  flags.DEFINE_string(
    'reference',
    None,
    'The method that others are compared with; by default f3ast, or the first '
    'one if that is not among them.',
    flag_values=own,
  )
  own['seeds'].help = 'The seeds, which all methods share. By default 0..4.'
  return own


def _help(task: str) -> str:
  own = _own_flags()
  passed_on = sweeps.flags_of(task, {*own, *_REPLACED})
  return '\n\n'.join([
    (__doc__ or '').strip(),
    'Usage: python -m experiments.benchmark [--FLAG=VALUE,... ...]',
    help_lib.section('The benchmark', [own[name] for name in own]),
    *help_lib.sections(list(passed_on.values())),
  ])


def _values(task: str, own: flags.FlagValues) -> dict[str, list[Any]]:
  """Returns the values of the experiment's flags, checked."""
  named = {
    # The first one changes last: soon all methods have a run.
    'seed': ('seeds', own.seeds or ['0..4']),
    'avail': ('avail', own.avail or list(_AVAILS)),
    'algorithm': ('methods', own.methods or list(methods_lib.ALGORITHMS)),
  }
  values = {
    name: sweeps.values_of(task, name, *given) for name, given in named.items()
  }
  for name in sweeps.flags_of(task, {*_own_flags(), *_REPLACED, 'avail'}):
    if own[name].value is None:
      continue
    values[name] = sweeps.values_of(task, name, name, own[name].value)
    if len(values[name]) > 1:
      raise ValueError(
        f'--{name} is the same for all runs; give it once. A benchmark varies '
        '--methods, --avail and --seeds; experiments.sweep varies any flag.'
      )
  # A method that diverges is a result.
  return {**values, 'on_divergence': values.get('on_divergence', ['continue'])}


def _reference(own: flags.FlagValues, methods: Sequence[str]) -> str:
  """Returns the method that others are compared with."""
  if own.reference is None:
    return _REFERENCE if _REFERENCE in methods else methods[0]
  if own.reference not in methods:
    raise ValueError(
      f'reference must be one of the methods, {", ".join(methods)}, but it is '
      f'{own.reference!r}.'
    )
  return own.reference


def _run(
  sweep: sweeps.Sweep,
  own: flags.FlagValues,
  reference: str,
  command: str,
) -> bool:
  """Runs what is left and reports; returns whether all runs have finished."""
  places, output = sweep.places, sweep.places.runs.parent
  outcome = sweeps.run(sweep, own.jobs, own.cluster)
  from experiments.benchmark import report  # Slow to import.
  from experiments.benchmark import results

  if any(map(places.is_finished, sweep.runs)):
    constant = combinations_lib.label(sweep.constant)
    title = ', '.join(filter(None, [own.task, constant]))
    found = results.of_runs(
      own.task, sweep.runs, places, reference, title, command
    )
    print(report.write(found, output))
    if sweep.runs[0].settings.get('data_source') == 'sample':
      print('The data are a SAMPLE: this is a smoke test and not a result.')
    if not outcome.num_run:
      print('All runs had finished before; nothing was run.')
    print(f'The page is {output / "benchmark.html"}; all files in {output}')
  return outcome.is_complete


def main(argv: Sequence[str]) -> None:
  """Runs the benchmark."""
  task = sweeps.task_of(argv, _TASK) or _TASK
  if help_lib.is_asked_for(argv) or '--helpfull' in argv:
    help_lib.show(_help(task))
    return
  cli.add_methods(argv)
  own = _own_flags()
  passed_on = sweeps.flags_of(task, {*own, *_REPLACED})
  sweeps.parse(argv, own, passed_on)
  with sweeps.one_sentence(own.cluster):
    values = _values(task, own)
    reference = _reference(own, values['algorithm'])
    model = passed_on['model'].default if 'model' in passed_on else ''
    sweep = sweeps.build(
      task,
      values,
      model,
      own.output_dir,
      'benchmark',
      ('avail', 'algorithm'),
    )
    command = shlex.join(
      ['.venv/bin/python', '-m', 'experiments.benchmark', *argv[1:]]
    )
    if own.dry_run:
      print(sweeps.plan(sweep))
    elif not _run(sweep, own, reference, command):
      sys.exit(1)


def parse_flags(argv: Sequence[str]) -> list[str]:
  """Leaves all flags to `main`: which there are depends on the experiment."""
  flags.FLAGS.mark_as_parsed()
  return list(argv)


if __name__ == '__main__':
  app.run(main, flags_parser=parse_flags)
