"""Pachinko allocation: labelled examples to clients that differ.

How Reddi et al., "Adaptive Federated Optimization" (2020), appendix on data
sets, split CIFAR-100. The labels form a tree, root -> coarse -> fine. Each
client in turn draws

  theta_root ~ Dirichlet(alpha) over the coarse labels that have examples left,
  theta_c ~ Dirichlet(beta) over the fine labels of c that have examples left,

and takes its examples one by one: a coarse label by theta_root, a fine label by
theta_c, and any remaining example of that label. A label without examples left
leaves the tree, and the probabilities of the others grow in proportion.
NumPy only.
"""

import bisect
from collections.abc import Sequence
import itertools

import numpy as np

from f3ast_tff import randomness


def _cumulative(weights: Sequence[float]) -> list[float]:
  """Returns the cumulative weights; equal ones if all of them are 0."""
  # A small alpha makes weights that round to 0. If only such labels are left,
  # nothing tells them apart.
  if not sum(weights) > 0:
    weights = [1.0] * len(weights)
  return list(itertools.accumulate(weights))


def _pick(cumulative: list[float], uniform: float) -> int:
  """Returns the index that a uniform number in [0, 1) falls on."""
  position = bisect.bisect_right(cumulative, uniform * cumulative[-1])
  return min(position, len(cumulative) - 1)


def _take(
  tree: dict[int, dict[int, list[int]]],
  num_examples: int,
  rng: np.random.Generator,
  alpha: float,
  beta: float,
) -> list[int]:
  """Takes one client's examples out of the tree.

  Args:
    tree: By coarse label, by fine label, the rows that are left; shrinks.
    num_examples: How many to take; as many must be left.
    rng: Decides which.
    alpha: The Dirichlet parameter over coarse labels.
    beta: The Dirichlet parameter over fine labels.

  Returns:
    The rows taken.
  """
  coarse = list(tree)
  root = list(rng.dirichlet([alpha] * len(coarse)))
  fine = [list(tree[c]) for c in coarse]
  leaves = [list(rng.dirichlet([beta] * len(labels))) for labels in fine]
  uniforms = rng.random((num_examples, 2)).tolist()

  # Between two labels running out the probabilities stay the same.
  root_sums = _cumulative(root)
  leaf_sums = [_cumulative(weights) for weights in leaves]
  taken = []
  for first, second in uniforms:
    i = _pick(root_sums, first)
    j = _pick(leaf_sums[i], second)
    rows = tree[coarse[i]][fine[i][j]]
    taken.append(rows.pop())
    if rows:
      continue
    del tree[coarse[i]][fine[i][j]], fine[i][j], leaves[i][j]
    if fine[i]:
      leaf_sums[i] = _cumulative(leaves[i])
      continue
    del tree[coarse[i]], coarse[i], fine[i], leaves[i], leaf_sums[i], root[i]
    if coarse:
      root_sums = _cumulative(root)
  return taken


def allocate(
  coarse: np.ndarray,
  fine: np.ndarray,
  num_clients: int,
  examples_per_client: int,
  seed: int = 0,
  alpha: float = 0.1,
  beta: float = 10.0,
  purpose: str = 'pachinko allocation',
) -> list[np.ndarray]:
  """Divides labelled examples among clients.

  Args:
    coarse: The coarse label of each example.
    fine: The fine label of each example; it determines the coarse one.
    num_clients: The number of clients.
    examples_per_client: The number of examples of each client.
    seed: Decides everything.
    alpha: The smaller, the fewer coarse labels a client has.
    beta: The smaller, the fewer fine labels of each coarse one a client has.
    purpose: What to call the random numbers, so that two allocations of one
      seed can be independent.

  Returns:
    Per client the row numbers of its examples; no row is given twice.
  """
  for name, value in (('alpha', alpha), ('beta', beta)):
    if not (np.isfinite(value) and value > 0):
      raise ValueError(f'{name} must be a number > 0, but it is {value}.')
  if len(coarse) != len(fine):
    raise ValueError(
      'Every example needs a coarse and a fine label, but there are '
      f'{len(coarse)} coarse and {len(fine)} fine ones.'
    )
  if num_clients < 1 or examples_per_client < 1:
    raise ValueError(
      'There must be at least 1 client with at least 1 example, but '
      f'{num_clients} clients with {examples_per_client} were asked for.'
    )
  if num_clients * examples_per_client > len(fine):
    raise ValueError(
      f'{num_clients} clients with {examples_per_client} examples each need '
      f'more than the {len(fine)} examples there are.'
    )
  rng = randomness.generator(seed, f'{purpose}: order')
  tree: dict[int, dict[int, list[int]]] = {}
  for label in np.unique(fine):
    rows = np.flatnonzero(fine == label)
    parents = np.unique(coarse[rows])
    if len(parents) > 1:
      raise ValueError(
        f'Fine label {label} must have one coarse label, but it has '
        f'{parents.tolist()}.'
      )
    # Taking the last of a shuffled list is taking any of those left.
    leaf = tree.setdefault(int(parents[0]), {})
    leaf[int(label)] = rng.permutation(rows).tolist()
  return [
    np.array(
      _take(
        tree,
        examples_per_client,
        randomness.generator(seed, purpose, client=k),
        alpha,
        beta,
      )
    )
    for k in range(num_clients)
  ]
