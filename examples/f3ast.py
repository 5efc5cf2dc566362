"""F3AST on one page: Algorithm 1 of the paper, from top to bottom.

  python examples/f3ast.py

100 clients with unequal data are available at times; 10 of them may take part
in a round. The server learns how often each takes part (r), selects those that
lower the variance bound H(r) the most, and weights their updates by p / r. The
model is softmax regression in plain NumPy, so that nothing is hidden;
`f3ast_tff.build_training` does the same for any TFF model, and faster.

The lines are those of Algorithm 1.
"""

import argparse

from matplotlib import figure
import numpy as np
import tqdm

import f3ast_tff
from f3ast_tff import randomness
from f3ast_tff.datasets import synthetic

NUM_ROUNDS = 200
K = 10  # How many clients may take part in a round.
BETA = 0.001  # The step of the rates.
LEARNING_RATE, BATCH_SIZE = 0.01, 20  # Of local SGD.
SEED = 0


def gradient(w, x, y):
  """Returns the gradient of the mean cross-entropy of a batch."""
  logits = x @ w['kernel'] + w['bias']
  error = np.exp(logits - logits.max(axis=1, keepdims=True))
  error /= error.sum(axis=1, keepdims=True)
  error[np.arange(len(y)), y] -= 1
  return {'kernel': x.T @ error / len(y), 'bias': error.mean(axis=0)}


def local_update(w, examples, round_num, client):
  """Lines 6 to 8: one pass of SGD over a client's data; returns v_k."""
  trained = {name: weights.copy() for name, weights in w.items()}
  # All random numbers are a function of (seed, purpose, round, client).
  rng = randomness.generator(SEED, 'shuffling in epoch 0', round_num, client)
  order = rng.permutation(len(examples['y']))
  for batch in np.split(order, range(BATCH_SIZE, order.size, BATCH_SIZE)):
    slope = gradient(trained, examples['x'][batch], examples['y'][batch])
    for name in trained:
      trained[name] -= LEARNING_RATE * slope[name]
  return {name: trained[name] - w[name] for name in w}


def accuracy(w, test):
  """Returns the share of test examples that the model gets right."""
  logits = test['x'] @ w['kernel'] + w['bias']
  return (logits.argmax(axis=1) == test['y']).mean()


def train(dataset, num_rounds):
  """Runs Algorithm 1; returns the model, r, and the accuracy by round."""
  p = dataset.p  # Each client's share of the data.
  availability = f3ast_tff.availability.home_devices(p.size, SEED)
  # Line 1: any r(0); with K p all clients have the same score at first.
  r = f3ast_tff.rates.initial(p, K, 'kp')
  w = {'kernel': np.zeros((60, 10)), 'bias': np.zeros(10)}
  accuracies = []
  progress = tqdm.trange(1, num_rounds + 1, unit='round', disable=None)
  for t in progress:  # Line 2.
    available = availability(t)  # Line 3: who is available, A_t.
    # Line 4: S_t maximises -grad H(r(t-1)) . 1_S over the feasible sets.
    scores = -f3ast_tff.rates.gradient(p, r)
    rng = randomness.generator(SEED, 'selection', t)  # Breaks ties.
    selected = f3ast_tff.selection.top_k(scores, available, K, rng)
    # Line 5: r(t) = (1 - beta) r(t-1) + beta 1_S.
    r = f3ast_tff.rates.update(r, np.isin(np.arange(p.size), selected), BETA)
    # Line 9: Delta = sum over S_t of p_k / r_k(t) v_k.
    delta = {name: np.zeros_like(weights) for name, weights in w.items()}
    for k in selected:
      v = local_update(w, dataset.train[k], t, k)
      for name in delta:
        delta[name] += p[k] / r[k] * v[name]
    # Line 10: ServerOpt, here SGD with a learning rate of 1.
    w = {name: w[name] + delta[name] for name in w}
    accuracies.append(accuracy(w, dataset.test))
    progress.set_postfix(accuracy=f'{accuracies[-1]:.3f}')
  return w, r, accuracies


def main():
  """Trains, prints the accuracy, and draws it next to the rates."""
  parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
  parser.add_argument('--rounds', type=int, default=NUM_ROUNDS)
  parser.add_argument('--picture', default='f3ast.png')
  flags = parser.parse_args()
  dataset = synthetic.load(seed=SEED)
  _, r, accuracies = train(dataset, flags.rounds)
  picture = figure.Figure(figsize=(9, 3.5), layout='constrained')
  left, right = picture.subplots(1, 2)
  left.plot(range(1, flags.rounds + 1), accuracies)
  left.set(xlabel='round', ylabel='test accuracy')
  right.loglog(dataset.p, r, '.')
  right.set(xlabel='share of the data p', ylabel='participation rate r')
  picture.savefig(flags.picture, dpi=150)
  print(f'Test accuracy {accuracies[-1]:.3f}; picture: {flags.picture}')


if __name__ == '__main__':
  main()
