"""The achievable region R of a small system, exactly.

R holds every long-term participation rate r that some policy attains (the
paper's Section 3.1). Written with sums over a set U of clients,

  R = {r >= 0 : r(U) <= rho(U) for every U},
  rho(U) = sum over configurations C of pi_C min(K, |C n U|).

Why: given the available clients C, the feasible sets S are the independent sets
of a matroid with rank min(K, |C n U|), so what can be had in C is its matroid
polytope. R is the average of these over C, and a sum of such polytopes is the
polytope of the summed ranks (Edmonds). So R is a polymatroid: going through the
clients in any order and giving each all that is left reaches a vertex, and the
best order for a linear objective is by its coefficients.

With quotas of groups (`groups`) the feasible sets in C are a generalized
matroid: rho(U) is the mean of the most members of U in such a set, and

  R = {r : lambda(U) <= r(U) <= rho(U) for every U}

where lambda(U) is the mean of the fewest. The sum over C is again the polytope
of the sums (Frank). rho is still the rank of a polymatroid, and rates with r(V)
= rho(V), V all clients, keep the lower bounds: r(U) = rho(V) - r(V - U) >=
rho(V) - rho(V - U) >= lambda(U). H falls with every rate, so r* is among them
and is found in the same way.

All of this goes through all 2^N sets: for a handful of clients. For many, see
`optimal_rates`, which needs clients that are independent.
"""

from collections.abc import Sequence
import itertools

import numpy as np

from f3ast_tff import groups
from f3ast_tff import rates
from f3ast_tff.theory import small_system

_MAX_CLIENTS_FOR_VERTICES = 7  # 13,700 orders of subsets, 40,320 with quotas.


def _numbers(
  system: small_system.System, sets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns lambda(U) and rho(U) for each row U of a boolean matrix."""
  # Without quotas all are in one group without bounds.
  bounds = system.bounds or groups.Bounds(
    np.zeros(system.num_clients, int), np.array([0]), np.array([system.k])
  )
  fewest, needed, others = np.zeros((3, len(sets), len(system.masks)), int)
  room = np.full(len(system.masks), system.k)
  for g, (least, most) in enumerate(zip(bounds.least, bounds.most)):
    masks = system.masks & (bounds.group_of == g)
    available = masks.sum(axis=1)
    least = np.minimum(least, available)
    common = sets.astype(int) @ masks.T.astype(int)
    fewest += np.maximum(0, least - (available - common))
    # Members of U take the places that the group must fill anyway, and then
    # those that are left.
    needed += np.minimum(common, least)
    others += np.maximum(0, np.minimum(common, most) - least)
    room -= least
  largest = needed + np.minimum(others, room)
  return fewest @ system.probabilities, largest @ system.probabilities


def _ranks(system: small_system.System, sets: np.ndarray) -> np.ndarray:
  """Returns rho(U) for each row U of a boolean matrix."""
  return _numbers(system, sets)[1]


def rank(system: small_system.System, clients: Sequence[int]) -> float:
  """Returns rho(U), the most that the clients of U can be had together.

  Args:
    system: The system.
    clients: The members of U.

  Returns:
    The largest sum of their rates.
  """
  members = np.zeros((1, system.num_clients), bool)
  members[0, list(clients)] = True
  return float(_ranks(system, members)[0])


def check_rates(system: small_system.System, r: np.ndarray) -> np.ndarray:
  """Returns r as an array; raises unless it holds a number per client."""
  r = np.asarray(r, float)
  if r.shape != (system.num_clients,) or not np.isfinite(r).all():
    raise ValueError(
      f'r must hold one number for each of the {system.num_clients} clients, '
      f'but it is {r}.'
    )
  return r


def contains(
  system: small_system.System, r: np.ndarray, tolerance: float = 1e-9
) -> bool:
  """Returns whether r is in R: r >= 0, and the bounds hold for all 2^N sets U.

  Args:
    system: The system.
    r: One rate per client.
    tolerance: How far beyond a bound still counts as inside.

  Returns:
    Whether some policy attains r.
  """
  r = check_rates(system, r)
  sets = small_system.all_sets(system.num_clients)
  fewest, ranks = _numbers(system, sets)
  excess = np.maximum(sets @ r - ranks, fewest - sets @ r)
  return bool((r >= -tolerance).all() and (excess <= tolerance).all())


def _prefixes(system: small_system.System, order: Sequence[int]) -> np.ndarray:
  """Returns the sets of the first 0, 1, ... clients of an order, by row."""
  members = np.zeros((len(order) + 1, system.num_clients), bool)
  for place, client in enumerate(order):
    members[place + 1 :, client] = True
  return members


def greedy(
  system: small_system.System, order: Sequence[int], last: Sequence[int] = ()
) -> np.ndarray:
  """Returns the rates when clients are served strictly in the given order.

  Args:
    system: The system.
    order: Clients, the most important first.
    last: With quotas, all others, the most important first: those who take part
      only where a group must have more. Without quotas they get nothing.

  Returns:
    A vertex of R.
  """
  r = np.zeros(system.num_clients)
  r[list(order)] = np.diff(_numbers(system, _prefixes(system, order))[1])
  back = list(reversed(last))
  r[back] = np.diff(_numbers(system, _prefixes(system, back))[0])
  return r


def vertices(system: small_system.System) -> np.ndarray:
  """Returns the vertices of R, each once, in lexicographic order.

  They are the greedy rates of all orders of all sets of clients.

  Args:
    system: A system of at most 7 clients.

  Returns:
    An array with a vertex per row.
  """
  n = system.num_clients
  if n > _MAX_CLIENTS_FOR_VERTICES:
    raise ValueError(
      f'Listing the vertices needs at most {_MAX_CLIENTS_FOR_VERTICES} '
      f'clients, but there are {n}.'
    )
  has_least = system.bounds is not None and system.bounds.least.any()
  found = [
    greedy(system, order, last)
    for size in range(n + 1)
    for order in itertools.permutations(range(n), size)
    for last in (
      itertools.permutations(set(range(n)) - set(order)) if has_least else [()]
    )
  ]
  # Rounding would tell equal vertices apart; and no -0.
  return np.unique(np.round(found, 12) + 0.0, axis=0)


def naive_rates(system: small_system.System) -> np.ndarray:
  """Returns the rates when K of the available clients are drawn uniformly."""
  if system.bounds is not None:
    raise ValueError('The naive rates are those of a system without quotas.')
  counts = system.masks.sum(axis=1)
  chance = np.minimum(1.0, system.k / np.maximum(1, counts))
  return (system.probabilities * chance) @ system.masks


def minimise_h(
  system: small_system.System,
  p: np.ndarray,
  correlation: str = rates.UNCORRELATED,
) -> np.ndarray:
  """Returns r*, the minimiser of H over R, by Fujishige's decomposition.

  With c_k above r_k in H, it first shares rho(V) among all clients V as if only
  their sum were bounded: r_k proportional to sqrt(c_k). If some sets U have
  more than rho(U), the worst of them is a bottleneck: it gets rho(U), all of
  it, and the same problem is left inside of U and outside of it. Each step is
  exact and there are at most N.

  Args:
    system: The system.
    p: Each client's share of the data. A client without data gets rate 0.
    correlation: The form of H.

  Returns:
    One rate per client, exact but for rounding.

  Raises:
    ValueError: If H is infinite on all of R, because a client with data can
      never take part.
  """
  p = check_rates(system, p)
  rates.check(p, 1.0)
  wish = np.sqrt(rates.numerator(p, correlation))
  alone = _ranks(system, np.eye(system.num_clients, dtype=bool))
  never = np.flatnonzero((wish > 0) & (alone == 0))
  if never.size:
    raise ValueError(
      f'H is infinite for all achievable rates: client {never[0]} has data but '
      'can never take part.'
    )
  sets = small_system.all_sets(system.num_clients)
  ranks = _ranks(system, sets)
  # Sets as binary numbers, the first client in the highest bit, are row numbers
  # of `sets`.
  bits = 1 << np.arange(system.num_clients)[::-1]
  r = np.zeros(system.num_clients)
  # Pairs of clients to share among and of clients served before them.
  open_ = [(wish > 0, np.zeros(system.num_clients, bool))]
  while open_:
    members, before = open_.pop()
    inside = np.flatnonzero(~(sets & ~members).any(axis=1))
    base = before @ bits
    left = ranks[inside + base] - ranks[base]
    shares = wish * members * left[-1] / wish[members].sum()
    excess = sets[inside] @ shares - left
    worst = sets[inside[np.argmax(excess)]]
    is_split = excess.max() > 1e-12 and not (worst == members).all()
    if is_split:
      open_ += [(worst, before), (members & ~worst, before | worst)]
    else:
      r[members] = shares[members]
  return r


def duality_gap(
  system: small_system.System,
  p: np.ndarray,
  r: np.ndarray,
  correlation: str = rates.UNCORRELATED,
) -> float:
  """Returns a bound on H(r) - H(r*): the best linear improvement over R.

  H is convex, so H(s) >= H(r) + grad H(r) . (s - r) for all s in R.

  Args:
    system: The system.
    p: Each client's share of the data.
    r: Rates in R.
    correlation: The form of H.

  Returns:
    The largest -grad H(r) . (s - r), at least 0 for r in R.
  """
  scores = -rates.gradient(p, r, correlation)
  best = greedy(system, np.argsort(-scores, kind='stable').tolist())
  return float(scores @ (best - r))
