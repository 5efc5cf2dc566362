"""What bfloat16 would give the convolutions of ResNet-18 on this machine.

  python -m benchmarks.convolution_precision

Times the forward and backward passes of 3x3 convolutions with the shapes of the
ResNet's four stages, in turns, with one thread, as a client trains. A CPU that
has no instructions for bfloat16 converts each number instead.
"""

import os
import sys
import time

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')

from absl import app
import numpy as np
import pandas as pd
import tensorflow as tf

from benchmarks import machine
from experiments import cli
from experiments import output_folder

_BATCH, _PIXELS, _FILTERS, _REPEATS = 20, 6, (64, 128, 256, 512), 5


def _step(precision: tf.DType, filters: int):
  """Returns a function that takes the gradients of two convolutions."""
  rng = np.random.default_rng(0)
  images = rng.standard_normal((_BATCH, _PIXELS, _PIXELS, filters))
  kernel = rng.standard_normal((3, 3, filters, filters)) / filters
  x, w = (tf.constant(value, tf.float32) for value in (images, kernel))

  @tf.function
  def step():
    with tf.GradientTape() as tape:
      tape.watch([x, w])
      y = tf.cast(x, precision)
      for _ in range(2):
        y = tf.nn.conv2d(y, tf.cast(w, precision), 1, 'SAME')
      loss = tf.reduce_sum(tf.cast(y, tf.float32) ** 2)
    return tape.gradient(loss, [x, w])

  return lambda: step()[1].numpy()


def main(argv: list[str]) -> None:
  """Times both precisions and writes the table."""
  del argv
  tf.config.threading.set_intra_op_parallelism_threads(1)
  rows = []
  for filters in _FILTERS:
    steps = {
      'float32': _step(tf.float32, filters),
      'bfloat16': _step(tf.bfloat16, filters),
    }
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(1 + _REPEATS):
      for name, step in steps.items():
        began = time.perf_counter()
        step()
        if turn:  # The first one builds the graph.
          seconds[name].append(time.perf_counter() - began)
    medians = {name: np.median(times) * 1000 for name, times in seconds.items()}
    gain = medians['float32'] / medians['bfloat16']
    print(
      f'{filters} channels: float32 {medians["float32"]:.1f} ms, bfloat16 '
      f'{medians["bfloat16"]:.1f} ms: {gain:.2g} times as fast'
    )
    rows.append({
      'channels': filters,
      **{f'{name}_ms': value for name, value in medians.items()},
      'gain': gain,
    })
  folder = cli.here(output_folder.OUTPUT_DIR.value or 'runs/benchmarks')
  folder.mkdir(parents=True, exist_ok=True)
  table = pd.DataFrame(rows)
  table.to_csv(folder / 'precision.csv', index=False, float_format='%.4g')
  machine.write(
    folder / 'precision-machine.json',
    ['convolution_precision', *sys.argv[1:]],
  )
  print(f'The table is in {folder}.')


if __name__ == '__main__':
  app.run(main, flags_parser=cli.parse_flags)
