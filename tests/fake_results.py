"""Results for tests: cells of 200 rounds, tested every 50; benchmarks."""

import dataclasses
import math

import pandas as pd

from experiments.paper import design

REVISION = '0123456789abcdef0123456789abcdef01234567'


def result(key, accuracy=0.5, loss=1.0, weights=1.0, rounds=200, **changes):
  """Returns a result whose last 100 rounds have the given means."""
  tested = [rounds // 4 * i for i in range(1, 5)]
  settings = {
    'task': key.dataset,
    'algorithm': key.method,
    'avail': key.avail,
    'rounds': rounds,
    'seed': key.seed,
    'server_learning_rate': 1.0,
    'beta': 0.001,
    'parallel_clients': 1,
    **changes,
  }
  return {
    'cell': dataclasses.asdict(key),
    'command': f'.venv/bin/python -m experiments.{key.dataset} '
    f'--algorithm={key.method} --seed={key.seed}',
    'revision': REVISION,
    'versions': {},
    'settings': settings,
    'wall_seconds': 0.5 * rounds,
    'mean_sum_of_weights': weights,
    'rounds_with_fewer_than_k': 0,
    'empty_rounds': 0,
    'updates_left_out': 0,
    'metrics': {
      'round': tested,
      'accuracy': [0.0, 0.0, accuracy - 0.01, accuracy + 0.01],
      'loss': [9.0, 9.0, loss, loss],
      'user_accuracy': [0.0, 0.0, accuracy / 2, accuracy / 2],
      'user_loss': [9.0, 9.0, 2 * loss, 2 * loss],
      'sum_of_weights': [weights] * 4,
    },
  }


def seeds(preset, dataset, avail, method, accuracies, variant='', **rest):
  """Returns a result per accuracy, of seeds 0, 1 and so on."""
  return [
    result(
      design.Key(preset, dataset, avail, method, variant, seed),
      accuracy,
      **rest,
    )
    for seed, accuracy in enumerate(accuracies)
  ]


def synthetic(method, avail, accuracies, variant='', **rest):
  """Returns a result on Synthetic per accuracy."""
  return seeds('paper', 'synthetic', avail, method, accuracies, variant, **rest)


def trained(preset, dataset, avail, method, accuracies, examples):
  """Returns results that say how many examples there were between tests."""
  return [
    {**result, 'examples_trained': [examples * i for i in range(1, 5)]}
    for result in seeds(preset, dataset, avail, method, accuracies)
  ]


def row(tables, name, *labels):
  """Returns the texts of a table's row that begins with labels, by column."""
  (table,) = [table for table in tables if table.name == name]
  texts = table.frame.map(str).to_dict('records')
  (found,) = [
    row for row in texts if tuple(row.values())[: len(labels)] == labels
  ]
  return found


def benchmark(accuracies, avail='uneven'):
  """Returns a benchmark's table of runs with these accuracies by method."""
  return pd.DataFrame([
    {
      'avail': avail,
      'method': method,
      'seed': seed,
      'accuracy': accuracy,
      'loss': 1.0,
      'user_accuracy': accuracy,
      'sum_of_weights': 1.0,
      'misplaced': 0.25,
      'seconds_per_round': 0.1,
      'peak_memory_mb': math.nan,
      'diverged': 0,
      'rounds': 9,
      'revision': REVISION,
      'command': f'train --algorithm={method}',
    }
    for method, of_seeds in accuracies.items()
    for seed, accuracy in enumerate(of_seeds)
  ])
