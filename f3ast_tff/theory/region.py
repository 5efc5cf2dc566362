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

All of this goes through all 2^N sets: for a handful of clients. For many, see
`optimal_rates`, which needs clients that are independent.
"""

from collections.abc import Sequence
import dataclasses
import itertools

import numpy as np

from f3ast_tff import randomness
from f3ast_tff import rates

_MAX_CLIENTS = 12  # 2^12 sets of clients times 2^12 configurations.
_MAX_CLIENTS_FOR_VERTICES = 7  # 13,700 orders of subsets.


@dataclasses.dataclass(frozen=True, eq=False)
class System:
  """Who is available together, and how many may take part.

  Attributes:
    masks: The configurations C, a boolean array of shape [number of C, N].
    probabilities: pi_C; they sum to 1.
    k: The constraint K.
  """

  masks: np.ndarray
  probabilities: np.ndarray
  k: int

  def __post_init__(self) -> None:
    if self.masks.ndim != 2 or self.masks.dtype != bool or not self.masks.size:
      raise ValueError(
        'masks must be a boolean array with a row per configuration and a '
        f'column per client, but it is {self.masks.dtype} of shape '
        f'{self.masks.shape}.'
      )
    if self.num_clients > _MAX_CLIENTS:
      raise ValueError(
        f'An exact region needs at most {_MAX_CLIENTS} clients, but there are '
        f'{self.num_clients}; use optimal_rates for more.'
      )
    if len(np.unique(self.masks, axis=0)) < len(self.masks):
      raise ValueError('masks must list each configuration once.')
    if self.probabilities.shape != self.masks.shape[:1]:
      raise ValueError(
        f'probabilities must hold one number for each of the '
        f'{len(self.masks)} configurations, but its shape is '
        f'{self.probabilities.shape}.'
      )
    is_distribution = (self.probabilities >= 0).all() and np.isclose(
      self.probabilities.sum(), 1.0, rtol=0, atol=1e-9
    )
    if not is_distribution:
      raise ValueError(
        'probabilities must be numbers >= 0 that sum to 1, but they are '
        f'{self.probabilities}.'
      )
    if self.k < 0 or self.k != int(self.k):
      raise ValueError(
        f'K must be a whole number >= 0, but it is {self.k}.'
      )

  @property
  def num_clients(self) -> int:
    """N."""
    return self.masks.shape[1]


@dataclasses.dataclass(frozen=True, eq=False)
class Configurations:
  """The availability model of a system: one of its configurations a round.

  Attributes:
    system: The system.
    seed: Decides the draws.
  """

  system: System
  seed: int = 0

  @property
  def num_clients(self) -> int:
    """N."""
    return self.system.num_clients

  @property
  def positively_correlated(self) -> bool:
    """False: H is the one of uncorrelated clients by default."""
    return False

  def probabilities(self, round_num: int) -> np.ndarray:
    """Returns P(client k is available), the same in every round."""
    randomness.check_round(round_num)
    return self.system.probabilities @ self.system.masks

  def __call__(self, round_num: int) -> np.ndarray:
    """Returns the boolean mask A_t."""
    rng = randomness.generator(self.seed, 'availability', round_num)
    c = rng.choice(len(self.system.masks), p=self.system.probabilities)
    return self.system.masks[c]


def all_sets(num_clients: int) -> np.ndarray:
  """Returns all 2^N subsets as a boolean matrix, one per row."""
  sets = itertools.product((False, True), repeat=num_clients)
  return np.array(list(sets), bool).reshape(-1, num_clients)


def independent(q: np.ndarray, k: int) -> System:
  """Returns the system of clients available independently with chance q_k."""
  q = np.asarray(q, float)
  if q.ndim != 1 or not q.size or not ((q >= 0) & (q <= 1)).all():
    raise ValueError(
      f'q must hold one probability per client, but it is {q}.'
    )
  if q.size > _MAX_CLIENTS:
    raise ValueError(
      f'An exact region needs at most {_MAX_CLIENTS} clients, but there are '
      f'{q.size}; use optimal_rates for more.'
    )
  masks = all_sets(q.size)
  return System(masks, np.where(masks, q, 1 - q).prod(axis=1), k)


def introduction_example() -> System:
  """Returns the two clients of the paper's introduction, Table 1, K = 1."""
  return System(
    np.array([[True, True], [True, False], [False, True], [False, False]]),
    np.array([0.3, 0.075, 0.5, 0.125]),
    1,
  )


def _ranks(system: System, sets: np.ndarray) -> np.ndarray:
  """Returns rho(U) for each row U of a boolean matrix."""
  common = sets.astype(int) @ system.masks.T.astype(int)
  return np.minimum(system.k, common) @ system.probabilities


def rank(system: System, clients: Sequence[int]) -> float:
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


def check_rates(system: System, r: np.ndarray) -> np.ndarray:
  """Returns r as an array; raises unless it holds a number per client."""
  r = np.asarray(r, float)
  if r.shape != (system.num_clients,) or not np.isfinite(r).all():
    raise ValueError(
      f'r must hold one number for each of the {system.num_clients} clients, '
      f'but it is {r}.'
    )
  return r


def contains(system: System, r: np.ndarray, tolerance: float = 1e-9) -> bool:
  """Returns whether r is in R: r >= 0, and r(U) <= rho(U) for all 2^N sets U.

  Args:
    system: The system.
    r: One rate per client.
    tolerance: How far beyond a bound still counts as inside.

  Returns:
    Whether some policy attains r.
  """
  r = check_rates(system, r)
  sets = all_sets(system.num_clients)
  excess = sets @ r - _ranks(system, sets)
  return bool((r >= -tolerance).all() and (excess <= tolerance).all())


def greedy(system: System, order: Sequence[int]) -> np.ndarray:
  """Returns the rates when clients are served strictly in the given order.

  Args:
    system: The system.
    order: Clients, the most important first; those left out get nothing.

  Returns:
    A vertex of R.
  """
  members = np.zeros((len(order) + 1, system.num_clients), bool)
  for place, client in enumerate(order):
    members[place + 1 :, client] = True
  r = np.zeros(system.num_clients)
  r[list(order)] = np.diff(_ranks(system, members))
  return r


def vertices(system: System) -> np.ndarray:
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
  found = [
    greedy(system, order)
    for size in range(n + 1)
    for order in itertools.permutations(range(n), size)
  ]
  # Rounding would tell equal vertices apart; and no -0.
  return np.unique(np.round(found, 12) + 0.0, axis=0)


def naive_rates(system: System) -> np.ndarray:
  """Returns the rates when K of the available clients are drawn uniformly."""
  counts = system.masks.sum(axis=1)
  chance = np.minimum(1.0, system.k / np.maximum(1, counts))
  return (system.probabilities * chance) @ system.masks


def minimise_h(
  system: System, p: np.ndarray, correlation: str = rates.UNCORRELATED
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
  never = np.flatnonzero((wish > 0) & (naive_rates(system) == 0))
  if never.size:
    raise ValueError(
      f'H is infinite for all achievable rates: client {never[0]} has data but '
      'can never take part.'
    )
  sets = all_sets(system.num_clients)
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
  system: System,
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
