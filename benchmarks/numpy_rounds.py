"""A plain NumPy loop as a contender: FedAvg on Synthetic, nothing around it.

It shows how long the arithmetic of a round takes that nobody has compiled.
"""

import sys

import numpy as np

from benchmarks import timed_process

_LEARNING_RATE = 0.01


def train(
  kernel: np.ndarray,
  bias: np.ndarray,
  x: np.ndarray,
  y: np.ndarray,
  batch_size: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns softmax regression after one pass over the examples."""
  kernel, bias = kernel.copy(), bias.copy()
  for first in range(0, len(y), batch_size):
    batch = slice(first, first + batch_size)
    inputs, labels = x[batch], y[batch]
    logits = inputs @ kernel + bias
    logits -= logits.max(axis=1, keepdims=True)
    error = np.exp(logits)
    error /= error.sum(axis=1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    error *= _LEARNING_RATE / len(labels)
    kernel -= inputs.T @ error
    bias -= error.sum(axis=0)
  return kernel, bias


def main() -> None:
  """Serves rounds of the work in the file that is named."""
  work = timed_process.load(sys.argv[1])
  rng = np.random.default_rng(0)
  model = np.zeros((60, 10), np.float32), np.zeros(10, np.float32)

  def run_round(cohort):
    nonlocal model
    trained = []
    for k in cohort:
      x, y = work.examples[int(k)]['x'], work.examples[int(k)]['y']
      order = rng.permutation(len(y))
      trained.append(train(*model, x[order], y[order], work.batch_size))
    kernels, biases = zip(*trained)
    model = np.mean(kernels, axis=0), np.mean(biases, axis=0)

  timed_process.serve(run_round, work.cohorts)


if __name__ == '__main__':
  main()
