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

# Slopes this close (relatively) are equal: they differ by rounding only.
_TIE = 1e-10
# Shares sum to 1 but for this much, which NumPy's `choice` lets pass.
_SUM = 1e-9


@dataclasses.dataclass(frozen=True, eq=False)
class Population:
  """N clients that are independent given the kind of the round.

  Attributes:
    q: One probability per client.
    factors: Per kind of round, the factor f common to all clients.
    k: Per kind of round, how many clients may take part.
    shares: Per kind of round, its long-term share of the rounds; sums to 1.
  """

  q: np.ndarray
  factors: np.ndarray
  k: np.ndarray
  shares: np.ndarray

  def __post_init__(self) -> None:
    if self.q.ndim != 1 or not self.q.size:
      raise ValueError(
        'q must hold one number for each of N >= 1 clients, but its shape is '
        f'{self.q.shape}.'
      )
    shapes = {self.factors.shape, self.k.shape, self.shares.shape}
    if len(shapes) > 1 or self.k.ndim != 1 or not self.k.size:
      raise ValueError(
        'factors, k and shares must hold one number for each kind of round, '
        f'but their shapes are {self.factors.shape}, {self.k.shape} and '
        f'{self.shares.shape}.'
      )
    for name in ('q', 'factors'):
      values = getattr(self, name)
      if not ((values >= 0) & (values <= 1)).all():
        raise ValueError(
          f'{name} must hold numbers in [0, 1], but ranges from {values.min()} '
          f'to {values.max()}.'
        )
    if self.k.dtype.kind not in 'iu' or (self.k < 0).any():
      raise ValueError(f'K must be whole numbers >= 0, but it is {self.k}.')
    if not ((self.shares >= 0).all() and abs(self.shares.sum() - 1) < _SUM):
      raise ValueError(
        'shares must be numbers >= 0 that sum to 1, but they are '
        f'{self.shares}.'
      )

  @property
  def num_clients(self) -> int:
    """N."""
    return self.q.size


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


def _distribution_of_k(
  constraint: communication.Constraint,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the values of K_t and how often each comes, when it is random."""
  if isinstance(constraint, communication.Uniform):
    values = np.arange(constraint.low, constraint.high + 1)
    return values, np.full(values.size, 1 / values.size)
  if isinstance(constraint, communication.MarkovLink):
    turn_bad, turn_good = constraint.good_to_bad, constraint.bad_to_good
    return (
      np.array([constraint.good, constraint.bad]),
      np.array([turn_good, turn_bad]) / (turn_bad + turn_good),
    )
  raise ValueError(
    'The distribution of K is known for Schedule, Uniform and MarkovLink, but '
    f'the constraint is a {type(constraint).__name__}.'
  )


def population_of(
  model: availability.Availability, constraint: communication.Constraint
) -> Population:
  """Returns the long-term statistics of a model and a constraint.

  A schedule of K and a day of factors both repeat, so their joint period is
  gone through: a K that is small at the good hours is seen as such.

  Args:
    model: `availability.Independent` or `availability.Markov`.
    constraint: `communication.Schedule`, `Uniform` or `MarkovLink`.

  Returns:
    The population.

  Raises:
    ValueError: For other models and constraints, and for chains that turn in
      every round: who meets whom is then decided once and for ever.
  """
  if isinstance(model, availability.Independent):
    q, factors = model.q, model.factors
  elif isinstance(model, availability.Markov):
    if (model.on_to_off + model.off_to_on == 2).any():
      client = np.argmax(model.on_to_off + model.off_to_on == 2)
      raise ValueError(
        'The best rates are not known where a client turns in every round, as '
        f'client {client} does; make one of its probabilities less than 1.'
      )
    q, factors = model.probabilities(1), np.ones(1)
  else:
    raise ValueError(
      'The best rates are known for Independent and Markov availability, but '
      f'the model is a {type(model).__name__}.'
    )
  if isinstance(constraint, communication.Schedule):
    t = np.arange(math.lcm(factors.size, len(constraint.values)))
    f = factors[t % factors.size]
    k = np.array(constraint.values)[t % len(constraint.values)]
    shares = np.full(t.size, 1 / t.size)
  else:
    is_alternating = (
      isinstance(constraint, communication.MarkovLink)
      and constraint.good_to_bad + constraint.bad_to_good == 2
    )
    if is_alternating and factors.size > 1:
      raise ValueError(
        'The best rates are not known where the link turns in every round and '
        'availability has a day; make one of its probabilities less than 1.'
      )
    values, chances = _distribution_of_k(constraint)
    f = np.repeat(factors, values.size)
    k = np.tile(values, factors.size)
    shares = np.tile(chances, factors.size) / factors.size
  # A sine has each of its values twice, but for rounding.
  pairs = np.stack([np.round(f, 14), k])
  kinds, kind = np.unique(pairs, axis=1, return_inverse=True)
  return Population(
    np.asarray(q, float),
    kinds[0],
    kinds[1].astype(int),
    np.bincount(kind.ravel(), weights=shares),
  )


def gains(population: Population, order: np.ndarray) -> np.ndarray:
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
  population: Population, weights: np.ndarray
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
  population: Population, weights: np.ndarray
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


def check_shape(population: Population, values: np.ndarray, name: str) -> None:
  """Raises a `ValueError` unless there is one finite number per client."""
  if values.shape != population.q.shape or not np.isfinite(values).all():
    raise ValueError(
      f'{name} must hold one finite number for each of the '
      f'{population.num_clients} clients, but its shape is {values.shape}'
      f'{"" if np.isfinite(values).all() else " and some are not finite"}.'
    )


def excess(population: Population, r: np.ndarray) -> float:
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
  population: Population,
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
  population: Population,
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
    model: `availability.Independent` or `availability.Markov`.
    constraint: `communication.Schedule`, `Uniform` or `MarkovLink`.
    p: Each client's share of the data.
    correlation: The form of H.

  Returns:
    The optimum with its certificate.
  """
  return solve(population_of(model, constraint), p, correlation)
