"""r*, the best participation rates, for many clients: exact, with a proof.

The clients are independent given the round: in a round of factor f client k is
available with probability q_k f, and K of them may take part. That covers the
models of `availability` (Markov chains are independent of each other, so only
their stationary probabilities matter) and the constraints of `communication`.

R is a polymatroid (see `region`), with rho(U) = E min(K, |A n U|). What client
k adds to a set U is

  rho(U + k) - rho(U) = q_k g(U),   g(U) = E[f 1(|A n U| < K)],

and g falls as U grows. So for any r the set U with the largest excess r(U) -
rho(U) is a prefix of the clients sorted by r_k / q_k, the largest first. Proof:
take the largest such U, a client i in it and j with r_j / q_j >= r_i / q_i.
Leaving out i does not help, so r_i >= q_i g(U - i) >= q_i g(U). Then also
r_j >= q_j g(U): adding j does not hurt, so j is in U already.

Fujishige's decomposition (see `region.minimise_h`) looks for such sets, for r_k
proportional to w_k = sqrt(c_k), where c_k stands above r_k in H. Its sets are
all prefixes of ONE order, that by w_k / q_k. So r* is read off the points

  (w(U), rho(U)) for the prefixes U of that order:

r_k = w_k times the slope, at k, of the greatest convex function below them. Its
straight pieces are the priority classes ("blocks"): a block is served only by
what the blocks before it leave over, and inside a block r_k / w_k is constant.
The cost is a sort and one pass over the clients that tracks the distribution of
min(K, |A n U|), O(N K) per factor.

That r* is optimal need not be believed: `duality_gap` bounds H(r) - H(r*) for
any r.
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import rates
from f3ast_tff.theory import population as population_lib

# Slopes this close (relatively) are equal: they differ by rounding only.
_TIE = 1e-10


class Optimum(NamedTuple):
  """The best rates.

  Attributes:
    rates: r*, one per client.
    blocks: The priority classes, the first served first; arrays of clients.
    variance_bound: H(r*).
    duality_gap: At most this much above the minimum of H.
  """

  rates: np.ndarray
  blocks: tuple[np.ndarray, ...]
  variance_bound: float
  duality_gap: float


def gains(
  population: population_lib.Population, order: np.ndarray
) -> np.ndarray:
  """Returns what each client adds when they are served in the given order.

  Args:
    population: The population.
    order: Clients, the most important first.

  Returns:
    q_k g(those before k), in the given order: the rates of a strict priority.
  """
  factors, kind = np.unique(population.factors, return_inverse=True)
  # More than N are never served.
  most = min(int(population.k.max()), population.num_clients)
  # value[f, m]: what an available client is worth (its f times the share of
  # such rounds) if m others were served before it: nothing from m = K on.
  value = np.zeros((factors.size, most))
  for f, k, share in zip(kind, population.k, population.shares):
    value[f, :k] += share * factors[f]
  # count[f, m]: the probability that m of those before are available.
  count = np.zeros((factors.size, most))
  count[:, :1] = 1.0
  result = np.empty(len(order))
  for place, q in enumerate(population.q[order]):
    result[place] = q * np.vdot(count, value)
    chance = (q * factors)[:, None]
    step = chance * count
    count -= step
    count[:, 1:] += step[:, :-1]
  return result


def _slopes(
  population: population_lib.Population, weights: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
  """Returns r_k / w_k and the blocks of the best rates for given weights.

  Pieces of equal slope stay apart: the clients before the joint have all that
  they can have together, so they must be served first.

  Args:
    population: The population; q_k > 0 for all clients.
    weights: w_k > 0.

  Returns:
    A slope per client, and the blocks in the order of priority.
  """
  order = np.argsort(-weights / population.q, kind='stable')
  # Pooling adjacent violators: (first place, width, height) of each piece.
  pieces: list[tuple[int, float, float]] = []
  heights = gains(population, order)
  for place, (width, height) in enumerate(zip(weights[order], heights)):
    first = place
    while pieces:
      before, its_width, its_height = pieces[-1]
      if its_height / its_width <= height / width * (1 + _TIE):
        break
      pieces.pop()
      first, width, height = before, width + its_width, height + its_height
    pieces.append((first, width, height))
  ends = [first for first, _, _ in pieces[1:]] + [len(order)]
  slopes = np.empty(len(order))
  blocks = []
  for (first, width, height), end in zip(pieces, ends):
    block = order[first:end]
    slopes[block] = height / width
    blocks.append(np.sort(block))
  return slopes, tuple(blocks)


def share_out(
  population: population_lib.Population, weights: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
  """Returns the rates in R that share all there is, by the given weights.

  The smallest r_k / w_k is as large as can be, then the next smallest, and so
  on. The same rates minimise the sum of w_k^2 / r_k. If `weights` are rates in
  R, the result is at least as large in every component, and equal to them if
  they already use up all there is; they are in R just if no r_k / w_k < 1.

  Args:
    population: The population.
    weights: w_k >= 0; a client with weight 0 gets rate 0.

  Returns:
    The rates, and the clients with positive weight in blocks of priority.

  Raises:
    ValueError: If a client of positive weight can never take part.
  """
  check_shape(population, weights, 'weights')
  if not (weights >= 0).all():
    raise ValueError('weights must hold numbers >= 0, but some are not.')
  wanted = weights > 0
  chance = population.q * (
    population.shares * population.factors * (population.k > 0)
  ).sum()
  never = np.flatnonzero(wanted & (chance == 0))
  if never.size:
    raise ValueError(
      f'Client {never[0]} can never take part, so its rate can only be 0 (and '
      'H is infinite if it has data).'
    )
  result = np.zeros(weights.size)
  clients = np.flatnonzero(wanted)
  if not clients.size:
    return result, ()
  some = dataclasses.replace(population, q=population.q[clients])
  slopes, blocks = _slopes(some, weights[clients])
  result[clients] = weights[clients] * slopes
  return result, tuple(clients[block] for block in blocks)


def check_shape(
  population: population_lib.Population, values: np.ndarray, name: str
) -> None:
  """Raises a `ValueError` unless there is one finite number per client."""
  if values.shape != population.q.shape or not np.isfinite(values).all():
    raise ValueError(
      f'{name} must hold one finite number for each of the '
      f'{population.num_clients} clients, but its shape is {values.shape}'
      f'{"" if np.isfinite(values).all() else " and some are not finite"}.'
    )


def excess(population: population_lib.Population, r: np.ndarray) -> float:
  """Returns the largest r(U) - rho(U) over all sets U; r is in R if it is 0.

  Args:
    population: The population.
    r: One rate >= 0 per client.

  Returns:
    A number >= 0; 0 for the empty set.
  """
  check_shape(population, r, 'r')
  if not (r >= 0).all():
    raise ValueError('r must hold numbers >= 0, but some are not.')
  with np.errstate(divide='ignore', invalid='ignore'):
    urgency = np.where(r == 0, 0.0, r / population.q)
  order = np.argsort(-urgency, kind='stable')
  overdrawn = np.cumsum(r[order] - gains(population, order))
  return float(max(0.0, overdrawn.max()))


def duality_gap(
  population: population_lib.Population,
  p: np.ndarray,
  r: np.ndarray,
  correlation: str = rates.UNCORRELATED,
) -> float:
  """Returns a bound on H(r) - H(r*): the best linear improvement over R.

  H is convex, so H(s) >= H(r) + grad H(r) . (s - r) for all s in R, and the
  best s serves clients strictly by their score -dH/dr_k.

  Args:
    population: The population.
    p: Each client's share of the data.
    r: Rates in R, positive for clients with data.
    correlation: The form of H.

  Returns:
    The largest -grad H(r) . (s - r), at least 0; infinity where H(r) is.
  """
  scores = -rates.gradient(p, r, correlation)
  if not np.isfinite(scores).all():
    return math.inf
  order = np.argsort(-scores, kind='stable')
  gap = scores[order] @ (gains(population, order) - r[order])
  return max(0.0, float(gap))  # Rounding can give -1e-16.


def solve(
  population: population_lib.Population,
  p: np.ndarray,
  correlation: str = rates.UNCORRELATED,
) -> Optimum:
  """Returns r*, the minimiser of H over R.

  Args:
    population: The population.
    p: Each client's share of the data. A client without data gets rate 0.
    correlation: The form of H.

  Returns:
    The optimum with its certificate.

  Raises:
    ValueError: If H is infinite on all of R, because a client with data can
      never take part.
  """
  p = np.asarray(p, float)
  check_shape(population, p, 'p')
  rates.check(p, 1.0)
  weights = np.sqrt(rates.numerator(p, correlation))
  best, blocks = share_out(population, weights)
  return Optimum(
    best,
    blocks,
    rates.variance_bound(p, best, correlation),
    duality_gap(population, p, best, correlation),
  )


def for_model(
  model: availability.Availability,
  constraint: communication.Constraint,
  p: np.ndarray,
  correlation: str = rates.UNCORRELATED,
) -> Optimum:
  """Returns r* for an availability model and a communication constraint.

  Args:
    model: As for `population.population_of`.
    constraint: `communication.Schedule`, `Uniform` or `MarkovLink`.
    p: Each client's share of the data.
    correlation: The form of H.

  Returns:
    The optimum with its certificate.
  """
  return solve(population_lib.population_of(model, constraint), p, correlation)
