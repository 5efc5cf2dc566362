"""Who is available when: a picture of a population, without training.

For example: python -m experiments.availability --avail=time_zones:3

The rounds are those that a run with the same flags has. Prints what they come
to, and writes

  availability.png, .svg   clients over rounds; how many are available, and K_t;
                           how often a client is, and for how long
  availability.csv         a row for each client
"""

from collections.abc import Sequence
import pathlib
from typing import Any

from absl import app
from absl import flags

from experiments import cli
from experiments import help as help_lib
from experiments import population
from experiments import theory
from f3ast_tff import availability
from f3ast_tff.datasets import federated
from f3ast_tff.runs import config as config_lib

# The settings of a run that matter here.
_SETTINGS = (
  'avail',
  'clients_per_round',
  'rounds',
  'seed',
  'round_seconds',
  'trace_start',
  'trace_state',
  'trace_assignment',
)
# What --all_models shows of a model whose parameters have no defaults.
_EXAMPLES = {'markov': 'markov:0.2,0.1'}


def define_flags() -> None:
  """Defines the flags: here, so that importing the module defines none."""
  defaults = config_lib.Config(rounds=200)
  for name in _SETTINGS:
    cli.define_setting(name, defaults)
  flags.DEFINE_enum(
    'task', 'synthetic', ('synthetic', 'shakespeare', 'cifar100'),
    'Whose clients; synthetic needs no TensorFlow.',
  )
  flags.DEFINE_float(
    'alpha', 1.0, 'For synthetic: how much clients differ.', lower_bound=0
  )
  flags.DEFINE_integer(
    'num_clients', 100, 'For synthetic: the number of clients N.', lower_bound=1
  )
  flags.DEFINE_string(
    'data_source', 'tff', 'For the others: where the data are from, as there.'
  )
  flags.DEFINE_string('data_dir', None, 'For the others: where the data are.')
  flags.DEFINE_bool(
    'all_models',
    False,
    'Draw a small picture of every model, instead of --avail.',
  )


def _dataset(given: Any) -> federated.FederatedDataset:
  """Returns the data set that the flags name."""
  if given.task == 'synthetic':
    from f3ast_tff.datasets import synthetic

    return synthetic.load(
      given.alpha, given.alpha, given.num_clients, given.seed
    )
  print('Loading TensorFlow ...', flush=True)
  cli.before_tensorflow()
  where = given.data_source, cli.data_dir(given.data_dir), given.seed
  if given.task == 'shakespeare':
    from f3ast_tff.datasets import shakespeare

    return shakespeare.load(*where)
  from f3ast_tff.datasets import cifar100

  return cifar100.load(*where)


def _config(given: Any, avail: str) -> config_lib.Config:
  settings = {name: given[name].value for name in _SETTINGS}
  return config_lib.Config(**{**settings, 'avail': avail})


def _draw_all(given: Any, folder: pathlib.Path) -> None:
  """Draws a small picture of every model that has defaults or an example."""
  from experiments.paper import population_figures
  from f3ast_tff.runs import run_directory

  dataset = _dataset(given)
  for usage in availability.usages():
    name, colon, _ = usage.partition('[')[0].partition(':')
    if colon and name not in _EXAMPLES:
      continue
    config = _config(given, _EXAMPLES.get(name, name))
    picture = population_figures.draw_small(
      population.observe(config, dataset)
    )
    run_directory.write_atomically(
      folder / f'{name}.png', population_figures.png(picture)
    )
    print(f'{folder / name}.png')


def main(argv: Sequence[str]) -> None:
  """Prints and draws a population."""
  del argv
  given = flags.FLAGS
  name = config_lib.availability_name({'avail': given.avail})
  name = 'all_models' if given.all_models else name.replace('/', '_')[:100]
  with cli.one_sentence(ValueError, 2):
    config = _config(given, cli.avail_here(given.avail))
    folder = theory.output_dir(f'runs/availability/{name}')
    if given.all_models:
      return _draw_all(given, folder)
    shown = population.observe(config, _dataset(given))
  help_lib.show(population.text(shown))  # Also to a pipe that closes.
  from experiments.grid import plots  # Slow to import.
  from experiments.paper import population_figures

  try:
    theory.write_csv(folder / 'availability.csv', population.rows(shown))
    plots.save(population_figures.draw(shown), folder / 'availability')
  except OSError as error:
    cli.fail(
      f'cannot write to the folder {folder} ({error.strerror}); make room, or '
      'name another --output_dir.',
      2,
    )
  print(f'  {"files":<16} availability.png, .svg and .csv in {folder}')


if __name__ == '__main__':
  define_flags()
  app.run(main, flags_parser=cli.parse_flags)
