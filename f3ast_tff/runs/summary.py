"""The picture and the closing words of one run, from its files."""

import io
import pathlib

import matplotlib

matplotlib.use('Agg')

import matplotlib.pyplot as plt
import numpy as np

from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import run_tables

# Okabe and Ito's colours, which people with any colour vision can tell apart.
BLUE, ORANGE, GREEN, PINK, GREY = (
  '#0072B2', '#D55E00', '#009E73', '#CC79A7', '#555555'
)


def draw(folder: pathlib.Path, dataset_name: str) -> None:
  """Draws `summary.png`: accuracy over rounds, and who took part."""
  metrics = run_tables.read(
    folder / 'metrics.csv', ('round', 'accuracy', 'user_accuracy')
  )
  clients = run_tables.read(
    folder / 'clients.csv', ('p', 'times_available', 'times_selected', 'rate')
  ).sort_values('p')
  settings = run_directory.read_config(folder)['settings']
  num_rounds = settings['rounds']
  figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 3.8), layout='constrained'
  )
  left.plot(
    metrics['round'], metrics['accuracy'], color=BLUE, label='sample average'
  )
  left.plot(
    metrics['round'],
    metrics['user_accuracy'],
    color=ORANGE,
    linestyle='--',
    label='user average',
  )
  left.set(xlabel='round', ylabel='test accuracy', ylim=(0, 1))
  left.legend(loc='lower right', frameon=False)
  rank = np.arange(len(clients))
  available = clients['times_available'] / num_rounds
  selected = clients['times_selected'] / num_rounds
  right.fill_between(
    rank, available, step='mid', color=GREY, alpha=0.25, label='available'
  )
  right.plot(rank, selected, '.', color=BLUE, label='took part')
  right.plot(rank, clients['rate'], '_', color=ORANGE, label='rate r at end')
  right.set(
    xlabel='clients, least data first', ylabel='share of rounds', ylim=(0, 1)
  )
  right.legend(loc='best', frameon=False)
  for axes in (left, right):
    axes.spines[['top', 'right']].set_visible(False)
  figure.suptitle(
    f'{config_lib.method_name(settings)} on {dataset_name}, '
    f'{settings["avail"]}, '
    f'K = {settings["clients_per_round"]}, seed {settings["seed"]}'
  )
  content = io.BytesIO()
  figure.savefig(content, format='png', dpi=120)
  run_directory.write_atomically(folder / 'summary.png', content.getbuffer())
  plt.close(figure)


def text(folder: pathlib.Path, dataset_name: str, seconds: float) -> str:
  """Returns the summary that a run prints at its end."""
  metrics, rounds, timing = (
    run_tables.read(folder / f'{name}.csv', ('round',))
    for name in ('metrics', 'rounds', 'timing')
  )
  settings = run_directory.read_config(folder)['settings']
  end, late = metrics.iloc[-1], run_tables.last_rounds(metrics)
  per_round = 1000 * timing['train_seconds'].median()
  late_rounds = run_tables.last_rounds(rounds)
  lines = [
    f'{config_lib.method_name(settings)} on {dataset_name}, '
    f'{settings["avail"]}, seed '
    f'{settings["seed"]}: {settings["rounds"]} rounds',
    f'                    at the end   mean of the last '
    f'{run_tables.num_last(settings["rounds"])} rounds',
    *(
      f'  {name:<16}  {end[column]:10.4f}   {late[column].mean():10.4f}'
      for name, column in (
        ('test accuracy', 'accuracy'),
        ('test loss', 'loss'),
        ('user accuracy', 'user_accuracy'),
        ('user loss', 'user_loss'),
      )
    ),
    f'  sum of weights                 '
    f'{late_rounds["sum_of_weights"].mean():10.4f}',
    f'  per round: {rounds["available"].mean():.1f} available, '
    f'{rounds["selected"].mean():.1f} selected, {per_round:.0f} ms; '
    f'{int(rounds["empty"].sum())} empty rounds, '
    f'{int(rounds["left_out"].sum())} updates left out',
    f'  trained for {seconds:.0f} s, '
    f'{settings["parallel_clients"]} clients at a time '
    f'(--parallel_clients); files in {folder}',
  ]
  return '\n'.join(lines)
