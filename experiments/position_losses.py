"""Losses on Shakespeare as means over positions, as the paper's seem to be.

For example: python -m experiments.position_losses runs/shakespeare/*

The losses of a run are means over the characters of the test text. Here all 80
positions of a sequence count, padding as a loss of 0, for the last model of
each run.
"""

from collections.abc import Sequence
import dataclasses
import pathlib
from typing import NamedTuple, Optional
import zipfile

from absl import app
from absl import flags
import numpy as np

from experiments import cli
from f3ast_tff.runs import run_directory


class Losses(NamedTuple):
  """Losses of a model, as means over positions.

  Attributes:
    sample: Over all sequences.
    user: Over the clients, of each one's own.
  """

  sample: float
  user: float


def losses(
  folder: pathlib.Path, data_dir: Optional[pathlib.Path] = None
) -> Losses:
  """Returns the losses of a finished run's last model.

  Args:
    folder: The run's folder.
    data_dir: Where the data are; None for TFF's own cache.

  Returns:
    The losses.

  Raises:
    ValueError: If it is not the folder of a finished run on Shakespeare.
  """
  settings = run_directory.read_config(folder)['settings']
  if settings.get('task') != 'shakespeare':
    raise ValueError(f'{folder} is not a run on Shakespeare; leave it out.')
  if not (folder / 'model.npz').exists():
    raise ValueError(f'{folder} has no model.npz; let the run finish.')

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
  try:
    with np.load(folder / 'model.npz', allow_pickle=False) as arrays:
      weights = tuple(
        arrays[f'trainable_{i}']
        for i in range(len(model.functional.initial_weights[0]))
      )
  except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
    raise ValueError(
      f'{folder / "model.npz"} cannot be read ({error}); run it again.'
    ) from error
  metrics = evaluate((weights, ()), None)
  return Losses(metrics.loss, metrics.user_loss)


def define_flags() -> None:
  """Defines the flags: here, so that importing the module defines none."""
  flags.DEFINE_string(
    'data_dir', None, "Where the data are; by default TFF's own cache."
  )


def main(argv: Sequence[str]) -> None:
  """Prints a line for each run."""
  if not argv[1:]:
    cli.fail('name the folders of runs on Shakespeare; see --help.', 2)
  cli.before_tensorflow()
  for folder in argv[1:]:
    with cli.one_sentence(ValueError, 2):
      found = losses(cli.here(folder), cli.data_dir(flags.FLAGS.data_dir))
    print(
      f'{folder}: loss a position {found.sample:.4f}, user loss a position '
      f'{found.user:.4f}',
      flush=True,
    )


if __name__ == '__main__':
  define_flags()
  app.run(main, flags_parser=cli.parse_flags_and_arguments)
