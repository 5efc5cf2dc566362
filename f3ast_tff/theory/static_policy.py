"""Static policies of a small system, exactly: the paper's Definition 3.1.

Given who is available, such a policy draws the cohort from a fixed
distribution. Every achievable rate is attained by one.
"""

import dataclasses

import numpy as np
from scipy import optimize

from f3ast_tff.theory import region
from f3ast_tff.theory import small_system


@dataclasses.dataclass(frozen=True, eq=False)
class StaticPolicy:
  """A static configuration-dependent policy f, the paper's Definition 3.1.

  Attributes:
    system: The system it is for.
    sets: Per configuration, the sets S that may be drawn, one per row.
    probabilities: Per configuration, f_{C,S} of each of them.
  """

  system: small_system.System
  sets: tuple[np.ndarray, ...]
  probabilities: tuple[np.ndarray, ...]


def feasible_sets(
  system: small_system.System, available: np.ndarray
) -> np.ndarray:
  """Returns the sets that may take part when some clients are available.

  Args:
    system: The system.
    available: Their mask.

  Returns:
    A boolean matrix, one set per row.
  """
  sets = small_system.all_sets(system.num_clients)
  is_feasible = sets.sum(axis=1) <= system.k
  is_feasible &= ~(sets & ~available).any(axis=1)
  if system.bounds is not None:
    of, least, most = system.bounds
    for g in range(least.size):
      count = (sets & (of == g)).sum(axis=1)
      there = (available & (of == g)).sum()
      is_feasible &= (count >= min(least[g], there)) & (count <= most[g])
  return sets[is_feasible]


def policy_for(system: small_system.System, r: np.ndarray) -> StaticPolicy:
  """Returns a policy that attains r, by linear programming over f_{C,S}.

  Args:
    system: The system.
    r: The rates to attain.

  Returns:
    The policy.

  Raises:
    ValueError: If r is not in R.
  """
  r = region.check_rates(system, r)
  if not region.contains(system, r):
    raise ValueError(f'The rates {r} are not achievable: outside of R.')
  sets = [feasible_sets(system, mask) for mask in system.masks]
  owner = np.repeat(np.arange(len(sets)), [len(s) for s in sets])
  attained = system.probabilities[owner, None] * np.concatenate(sets)
  sums_to_one = owner == np.arange(len(sets))[:, None]
  # On the boundary of R, rounding can leave no exact solution: so what is
  # minimised is the distance to r, in both directions.
  n, num_sets = system.num_clients, owner.size
  slack = np.concatenate([np.eye(n), -np.eye(n)], axis=1)
  found = optimize.linprog(
    np.concatenate([np.zeros(num_sets), np.ones(2 * n)]),
    A_eq=np.block([
      [attained.T, slack], [sums_to_one, np.zeros((len(sets), 2 * n))]
    ]),
    b_eq=np.concatenate([r, np.ones(len(sets))]),
    method='highs',
  )
  if found.x is None or found.fun > 1e-7:
    raise RuntimeError(f'No policy was found: {found.message}')
  chances = np.maximum(0.0, found.x[:num_sets])
  f = [chances[owner == c] for c in range(len(sets))]
  kept = [row > 0 for row in f]
  return StaticPolicy(
    system,
    tuple(s[keep] for s, keep in zip(sets, kept)),
    tuple(row[keep] / row.sum() for row, keep in zip(f, kept)),
  )


def moments(policy: StaticPolicy) -> tuple[np.ndarray, np.ndarray]:
  """Returns mean and covariance of the selection vector 1_S, exactly.

  Args:
    policy: The policy.

  Returns:
    Its rates, shape [N], and Sigma, shape [N, N].
  """
  n = policy.system.num_clients
  mean, second = np.zeros(n), np.zeros((n, n))
  for weight, sets, f in zip(
    policy.system.probabilities, policy.sets, policy.probabilities
  ):
    mean += weight * f @ sets
    second += weight * (sets.T * f) @ sets
  return mean, second - np.outer(mean, mean)


def draw(
  policy: StaticPolicy, available: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
  """Returns the clients selected in one round, ascending.

  Args:
    policy: The policy.
    available: The mask A_t.
    rng: Draws the set.

  Returns:
    Client indices.
  """
  match = (policy.system.masks == available).all(axis=1)
  if not match.any():
    raise ValueError(
      f'The policy knows no configuration {np.asarray(available).astype(int)}.'
    )
  c = int(np.flatnonzero(match)[0])
  chosen = rng.choice(len(policy.sets[c]), p=policy.probabilities[c])
  return np.flatnonzero(policy.sets[c][chosen])
