"""How long a round takes: ours beside TFF's own FedAvg, in one run.

  python -m benchmarks.round_time

Same machine, same model, same ten clients, same batches of 20, the same number
of local steps. The two are timed alternately, so that a noisy neighbour hits
both, and what counts is the ratio of the medians.
"""

import os
import statistics
import time

from absl import app
from absl import flags

from experiments import cli

_REPEATS = flags.DEFINE_integer(
  'repeats', 30, 'How often each is timed.', lower_bound=1
)
_SEED = flags.DEFINE_integer('seed', 0, 'Of the data.', lower_bound=0)


def main(argv: list[str]) -> None:
  """Times both and prints the ratio."""
  del argv
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
  # Here, because TensorFlow reads the variable above when it is imported.
  import numpy as np
  import tensorflow as tf
  import tensorflow_federated as tff

  from f3ast_tff import packing
  from f3ast_tff import process as process_lib
  from f3ast_tff import runtime
  from f3ast_tff.datasets import synthetic
  from f3ast_tff.models import softmax

  dataset = synthetic.load(seed=_SEED.value)
  model = softmax.build().functional
  layout = packing.layout_of(dataset.train[0])
  sgd = tff.learning.optimizers.build_sgdm
  ours = process_lib.build_packed_f3ast(
    model,
    dataset.p,
    np.full(100, 0.1),
    layout,
    20,
    client_optimizer=sgd(0.01),
  )
  stock = tff.learning.algorithms.build_weighted_fed_avg(
    model, sgd(0.01), sgd(1.0)
  )
  rng = np.random.default_rng(_SEED.value)
  cohorts = [rng.choice(100, 10, replace=False) for _ in range(_REPEATS.value)]
  rows = [packing.to_rows(layout, examples) for examples in dataset.train]

  def bring_packed(cohort):
    return [
      packing.pack(rows[k][rng.permutation(len(rows[k]))], k, 0.1, 20)
      for k in cohort
    ]

  def bring_datasets(cohort):
    return [
      tf.data.Dataset.from_tensor_slices(
        (dataset.train[k]['x'], dataset.train[k]['y'])
      )
      .shuffle(len(rows[k]))
      .batch(20)
      for k in cohort
    ]

  contenders = {
    'ours': (ours, bring_packed),
    'stock TFF': (stock, bring_datasets),
  }
  seconds: dict[str, list[float]] = {name: [] for name in contenders}
  with runtime.worker():
    states = {name: p.initialize() for name, (p, _) in contenders.items()}
    for name, (process, bring) in contenders.items():  # Compiles.
      for cohort in cohorts:
        process.next(states[name], bring(cohort))
    for cohort in cohorts:
      for name, (process, bring) in contenders.items():
        began = time.perf_counter()
        states[name] = process.next(states[name], bring(cohort)).state
        seconds[name].append(time.perf_counter() - began)
  examples = statistics.mean(len(rows[k]) for c in cohorts for k in c) * 10
  print(
    f'Synthetic(1,1), 10 clients a round, {examples:.0f} examples on average, '
    f'batch 20, {_REPEATS.value} repeats'
  )
  for name, times in seconds.items():
    low, _, high = statistics.quantiles(times, n=4)
    print(
      f'  {name:<10} median {1000 * statistics.median(times):7.1f} ms, '
      f'quartiles {1000 * low:.1f} to {1000 * high:.1f}'
    )
  ratio = statistics.median(seconds['stock TFF']) / statistics.median(
    seconds['ours']
  )
  print(f'  ours : stock TFF = 1 : {ratio:.1f}')


if __name__ == '__main__':
  app.run(main, flags_parser=cli.parse_flags)
