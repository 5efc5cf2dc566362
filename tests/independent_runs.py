"""Whole runs on Synthetic(1,1) in plain NumPy, with draws of their own.

  python -m tests.independent_runs

compares their accuracy with that of the committed cells. They share the data of
a seed, and nothing else: who is available, who is selected, in which order a
client goes through its examples, the weights, the rates and the tests are
written here from the paper, and their random numbers are other ones. So single
runs differ, and means over seeds agree within their spread.
"""

from collections.abc import Callable
import json
import pathlib

import numpy as np

from f3ast_tff.datasets import synthetic

K, BETA, STEP_SIZE, BATCH_SIZE, NUM_ROUNDS = 10, 0.001, 0.01, 20, 500
AVAIL = ('always', 'scarce', 'home_devices', 'uneven', 'smartphones')
METHODS = ('fedavg', 'fedavg_with_replacement', 'f3ast')
CELLS = pathlib.Path(__file__).parents[1] / 'results/cells/paper/synthetic'


def chances(
  avail: str, p: np.ndarray, rng: np.random.Generator
) -> Callable[[int], np.ndarray]:
  """Returns how likely each client is to be available: a function of t."""
  if avail == 'uneven':
    q = p.min() / p
  elif avail in ('home_devices', 'smartphones'):
    sigma = 0.5 if avail == 'home_devices' else 0.25
    q = rng.lognormal(0.0, sigma, p.size)
    q /= q.max()
  else:
    q = np.full(p.size, {'always': 1.0, 'scarce': 0.2}[avail])
  if avail == 'smartphones':
    return lambda t: q * (0.4 * np.sin(2 * np.pi * t / 24) + 0.5)
  return lambda t: q


def train(w: np.ndarray, b: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
  """Does an epoch of SGD of softmax regression, in place."""
  for begin in range(0, len(y), BATCH_SIZE):
    xs, ys = x[begin : begin + BATCH_SIZE], y[begin : begin + BATCH_SIZE]
    logits = xs @ w + b
    error = np.exp(logits - logits.max(axis=1, keepdims=True))
    error /= error.sum(axis=1, keepdims=True)
    error[np.arange(len(ys)), ys] -= 1
    error *= STEP_SIZE / len(ys)
    w -= xs.T @ error
    b -= error.sum(axis=0)


def run(avail: str, method: str, seed: int) -> float:
  """Returns the mean accuracy of the tests in the last 100 of 500 rounds."""
  data = synthetic.load(seed=seed)
  sizes = np.array([len(examples['y']) for examples in data.train])
  p = sizes / sizes.sum()
  rng = np.random.default_rng([seed, 1])
  chance = chances(avail, p, rng)
  # sum p^2 / r has the slope (p / r)^2, sum p / r has p / r^2. From r(0) all
  # slopes are the same, but where a rate would be above 1.
  slope_of = p if avail == 'smartphones' else p**2
  r = np.minimum(K * np.sqrt(slope_of) / np.sqrt(slope_of).sum(), 1.0)
  w = np.zeros((synthetic.NUM_FEATURES, synthetic.NUM_CLASSES), np.float32)
  b = np.zeros(synthetic.NUM_CLASSES, np.float32)
  found = []
  for t in range(1, NUM_ROUNDS + 1):
    there = np.flatnonzero(rng.random(p.size) < chance(t))
    k = min(K, there.size)
    weight = np.zeros(p.size)
    if method == 'f3ast':
      slopes = slope_of[there] / r[there] ** 2
      order = np.lexsort((rng.random(there.size), -slopes))
      chosen = there[order[:k]]
      r *= 1 - BETA
      r[chosen] += BETA
      weight[chosen] = p[chosen] / r[chosen]
    elif k:
      replace = method == 'fedavg_with_replacement'
      drawn = rng.choice(
        there, K if replace else k, replace, p[there] / p[there].sum()
      )
      np.add.at(weight, drawn, 1 / len(drawn))
    step_w, step_b = np.zeros_like(w), np.zeros_like(b)
    for client in np.flatnonzero(weight):
      x, y = data.train[client]['x'], data.train[client]['y']
      order = rng.permutation(len(y))
      end_w, end_b = w.copy(), b.copy()
      train(end_w, end_b, x[order], y[order])
      step_w += np.float32(weight[client]) * (end_w - w)
      step_b += np.float32(weight[client]) * (end_b - b)
    w, b = w + step_w, b + step_b
    if t > NUM_ROUNDS - 100 and t % 10 == 0:
      labels = np.argmax(data.test['x'] @ w + b, axis=1)
      found.append((labels == data.test['y']).mean())
  return float(np.mean(found))


def of_cell(avail: str, method: str, seed: int) -> float:
  """Returns the same number of a committed cell."""
  path = CELLS / f'{avail}-{method}-seed={seed}.json'
  metrics = json.loads(path.read_text())['metrics']
  late = np.array(metrics['round']) > NUM_ROUNDS - 100
  return float(np.array(metrics['accuracy'])[late].mean())


def main() -> None:
  """Prints means and standard deviations over five seeds."""
  print('| availability | method | NumPy | cells | difference |')
  print('|---|---|---|---|---|')
  for avail in AVAIL:
    for method in METHODS:
      ours, cells = (
        np.array([source(avail, method, seed) for seed in range(5)])
        for source in (run, of_cell)
      )
      apart = ours - cells
      print(
        f'| {avail} | {method} | {ours.mean():.3f} ± {ours.std(ddof=1):.3f} '
        f'| {cells.mean():.3f} ± {cells.std(ddof=1):.3f} '
        f'| {apart.mean():+.3f} ± {apart.std(ddof=1):.3f} |',
        flush=True,
      )


if __name__ == '__main__':
  main()
