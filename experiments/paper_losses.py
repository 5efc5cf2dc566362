"""Losses over what the paper's seem to be over, for the last models of runs.

For example: python -m experiments.paper_losses runs/shakespeare/*

On Shakespeare a run's losses are means over the characters of the test text.
Here all 80 positions of a sequence count, padding as a loss of 0. On CIFAR-100
they leave out the L2 penalty that clients train with; here it is added.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import pathlib
from typing import Any, NamedTuple, Optional
import zipfile

from absl import app
from absl import flags
import numpy as np

from experiments import cli
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import run_tables


class Losses(NamedTuple):
  """Losses of a model.

  Attributes:
    sample: Over all test examples.
    user: Over the test clients, of each one's own.
  """

  sample: float
  user: float


def _weights(folder: pathlib.Path, count: int) -> tuple[np.ndarray, ...]:
  """Returns the trainable weights of a run's last model."""
  path = folder / 'model.npz'
  try:
    with np.load(path, allow_pickle=False) as arrays:
      return tuple(arrays[f'trainable_{i}'] for i in range(count))
  except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
    raise ValueError(
      f'{path} cannot be read ({error}); run it again.'
    ) from error


def _over_positions(
  folder: pathlib.Path,
  settings: Mapping[str, Any],
  data_dir: Optional[pathlib.Path],
) -> Losses:
  """Returns losses on Shakespeare as means over positions."""
  # Here, because TensorFlow takes seconds to import.
  import tensorflow as tf

  from f3ast_tff.datasets import shakespeare
  from f3ast_tff.models import character_lstm
  from f3ast_tff.runs import evaluation

  model = character_lstm.build(variant=settings['model'])

  def per_example(output, y):
    sums, correct, _ = model.per_example(output, y)
    positions = tf.fill(tf.shape(sums), float(character_lstm.SEQUENCE_LENGTH))
    return sums, correct, positions

  evaluate = evaluation.build_evaluator(
    dataclasses.replace(model, per_example=per_example),
    shakespeare.load(settings['data_source'], data_dir, settings['seed']),
  )
  weights = _weights(folder, len(model.functional.initial_weights[0]))
  metrics = evaluate((weights, ()), None)
  return Losses(metrics.loss, metrics.user_loss)


def _with_penalty(
  folder: pathlib.Path,
  settings: Mapping[str, Any],
  data_dir: Optional[pathlib.Path],
) -> Losses:
  """Returns losses on CIFAR-100 with the L2 penalty."""
  del data_dir
  from f3ast_tff.models import resnet

  metrics = run_tables.read(folder / 'metrics.csv', ('loss', 'user_loss'))
  model = resnet.build(variant=settings['model'])
  count = len(model.functional.initial_weights[0])
  last, penalty = metrics.iloc[-1], resnet.penalty(_weights(folder, count))
  return Losses(last['loss'] + penalty, last['user_loss'] + penalty)


_LOSSES: Mapping[str, tuple[str, Callable[..., Losses]]] = {
  'shakespeare': ('a position', _over_positions),
  'cifar100': ('with the L2 penalty', _with_penalty),
}


def losses(
  folder: pathlib.Path, data_dir: Optional[pathlib.Path] = None
) -> tuple[str, Losses]:
  """Returns the losses of a finished run's last model.

  Args:
    folder: The run's folder.
    data_dir: Where the data are; None for TFF's own cache.

  Returns:
    Over what they are, and the losses.

  Raises:
    ValueError: If it is not the folder of a finished run on real data.
  """
  settings = run_directory.read_config(folder)['settings']
  task = settings.get('task')
  if task not in _LOSSES:
    raise ValueError(
      f'{folder} is not a run on Shakespeare or CIFAR-100; leave it out.'
    )
  if not (folder / 'model.npz').exists():
    raise ValueError(f'{folder} has no model.npz; let the run finish.')
  over, compute = _LOSSES[task]
  return over, compute(folder, settings, data_dir)


def define_flags() -> None:
  """Defines the flags: here, so that importing the module defines none."""
  flags.DEFINE_string(
    'data_dir', None, "Where the data are; by default TFF's own cache."
  )


def main(argv: Sequence[str]) -> None:
  """Prints a line for each run."""
  if not argv[1:]:
    cli.fail('name the folders of runs on real data; see --help.', 2)
  cli.before_tensorflow()
  for folder in argv[1:]:
    with cli.one_sentence(ValueError, 2):
      over, found = losses(cli.here(folder), cli.data_dir(flags.FLAGS.data_dir))
    print(
      f'{folder}: loss {over} {found.sample:.4f}, user loss {over} '
      f'{found.user:.4f}',
      flush=True,
    )


if __name__ == '__main__':
  define_flags()
  app.run(
    main,
    flags_parser=functools.partial(
      cli.parse_flags_and_arguments, arguments='RUN ...'
    ),
  )
