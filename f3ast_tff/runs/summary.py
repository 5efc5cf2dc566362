"""The picture and the closing words of one run, from its files."""

import io
import pathlib
import textwrap

from matplotlib import figure as figure_lib
import numpy as np

from f3ast_tff import wording
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import run_tables
from f3ast_tff.runs import trace_file

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
    folder / 'clients.csv',
    ('examples', 'times_available', 'times_selected', 'rate'),
  ).sort_values('examples')
  settings = run_directory.read_config(folder)['settings']
  num_rounds = settings['rounds']
  figure = figure_lib.Figure(figsize=(10, 4))
  left, right = figure.subplots(1, 2)
  # Places are fixed: Matplotlib would take as long again to find them.
  figure.subplots_adjust(0.06, 0.22, 0.99, 0.87, wspace=0.16)
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
  for axes in (left, right):
    axes.spines[['top', 'right']].set_visible(False)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(
      loc='upper center', bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False
    )
  title = (
    f'{config_lib.method_name(settings)} on {dataset_name}, '
    f'{config_lib.availability_name(settings)}, '
    f'K = {settings["clients_per_round"]}, seed {settings["seed"]}'
  )
  figure.suptitle(textwrap.fill(title, 90))
  content = io.BytesIO()
  figure.savefig(content, format='png', dpi=120)
  run_directory.write_atomically(folder / 'summary.png', content.getbuffer())


def _trace(folder: pathlib.Path) -> list[str]:
  """Returns what a summary has of a trace, if the run is on one."""
  if not (folder / trace_file.PHONES).exists():
    return []
  table = run_tables.read(
    folder / 'clients.csv', ('client', 'p', 'times_available')
  ).merge(
    run_tables.read(folder / trace_file.PHONES, ('client', 'share_of_rounds'))
  )
  came, did = 'times_available', 'were available'
  if 'times_delivered' in table:
    came, did = 'times_delivered', 'delivered'
  reachable, seen = (
    table['p'][table[column] > 0].sum() for column in ('share_of_rounds', came)
  )
  return [
    f'  trace: the reachable share of p is {reachable:.4f}; clients that {did} '
    f'in this run have {seen:.4f}'
  ]


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
  num_last = run_tables.num_last(settings['rounds'])
  mean_of = f'mean of the last {num_last} rounds'
  if num_last == 1:
    mean_of = 'last round'
  delivered = ''  # All who are selected, unless the table says otherwise.
  if 'delivered' in rounds:
    delivered = f'{rounds["delivered"].mean():.1f} delivered, '
  lines = [
    f'{config_lib.method_name(settings)} on {dataset_name}, '
    f'{config_lib.availability_name(settings)}, seed '
    f'{settings["seed"]}: {wording.count(settings["rounds"], "round")}',
    f'                    at the end   {mean_of}',
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
    f'{rounds["selected"].mean():.1f} selected, {delivered}{per_round:.0f} ms',
    f'  {wording.count(int(rounds["empty"].sum()), "empty round")}, '
    f'{wording.count(int(rounds["left_out"].sum()), "update")} left out',
    *_trace(folder),
    f'  trained for {seconds:.0f} s, '
    f'{wording.count(settings["parallel_clients"], "client")} at a time '
    f'(--parallel_clients)',
    f'  files in {folder}',
  ]
  return '\n'.join(lines)
