"""Algorithm 2: a fixed policy that attains given rates, for many clients.

The policy. Clients are in priority classes (blocks). In a round, each client k
draws a clock T_k ~ Exp(exp(price_k)); blocks are served in their order, and in
a block those whose clock rings first, until K clients are selected. That is the
same as taking the largest price plus Gumbel noise. It sees who is available and
nothing else, so it is a static configuration-dependent policy.

Why this attains any r that uses up all there is: where r(U) = rho(U), the set U
must be served first, and `optimal_rates.share_out` finds these sets; they part
the blocks. Between them r is in the relative interior, and the rates of "the
largest price plus noise" are the gradient of a convex function of the prices
whose range is just that interior. So the right prices exist, and looking for
them is a convex problem.

Rates strictly inside R leave something over. They are attained by thinning: the
policy is made for rates base >= r that use up all there is, and each selected
client is kept with probability r_k / base_k. Rates outside of R are refused.

The prices are found by stochastic approximation on simulated rounds: of the
population's statistics, not the rounds of a run. A simulated round tells more
than who was selected: given the others, client k is selected with probability
q_k f P(T_k < the clock at which K others are served), and this is averaged in
place of 0 and 1. The rates of the result are measured in the same way on other
rounds and reported as `realised`.
"""

import dataclasses

import numpy as np

from f3ast_tff import randomness
from f3ast_tff.theory import optimal_rates
from f3ast_tff.theory import population as population_lib

_BATCH_NUMBERS = 200_000  # Simulated rounds in a batch times clients.
_MAX_BATCH = 4000
_MAX_PRICE = 20.0  # exp(20) times more often: as good as another block.
_FIRST_STEPS = 30  # With a constant step, to get near.
_STEP = 0.7


@dataclasses.dataclass(frozen=True, eq=False)
class FixedPolicy:
  """A static policy and how well it attains its target.

  Attributes:
    target: The rates r asked for.
    prices: The logarithm of each client's speed within its block.
    blocks: Each client's priority class; 0 is served first.
    keep: The probability that a selected client is kept; 1 for rates that use
      up all there is.
    realised: The rates it attains, measured on simulated rounds.
    errors: The standard errors of `realised`.
  """

  target: np.ndarray
  prices: np.ndarray
  blocks: np.ndarray
  keep: np.ndarray
  realised: np.ndarray
  errors: np.ndarray


def draw_rounds(
  population: population_lib.Population,
  num_rounds: int,
  rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Simulates who is available in independent rounds.

  Args:
    population: The statistics.
    num_rounds: How many rounds.
    rng: Draws them.

  Returns:
    The masks A_t, shape [rounds, N]; K_t; and the factor f_t of each round.
  """
  kind = rng.choice(population.k.size, num_rounds, p=population.shares)
  factors = population.factors[kind]
  chance = factors[:, None] * population.q
  return rng.random(chance.shape) < chance, population.k[kind], factors


def _keys(
  prices: np.ndarray,
  blocks: np.ndarray,
  available: np.ndarray,
  rng: np.random.Generator,
) -> np.ndarray:
  """Returns numbers, the smallest served first; infinity if not available.

  In block b they are b + T / (1 + T), between b and b + 1.
  """
  clocks = rng.standard_exponential(available.shape) * np.exp(-prices)
  return np.where(available, blocks + clocks / (1 + clocks), np.inf)


def _limits(keys: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the K-th and the (K+1)-th smallest key of each round."""
  most = min(int(k.max(initial=0)) + 1, keys.shape[1])
  smallest = np.sort(np.partition(keys, most - 1, axis=1)[:, :most], axis=1)
  none, all_ = np.full((len(keys), 1), -np.inf), np.full((len(keys), 1), np.inf)
  padded = np.concatenate([none, smallest, all_], axis=1)
  rows = np.arange(len(keys))
  k = np.minimum(k, most)
  return padded[rows, k], padded[rows, k + 1]


def _conditional_rates(
  population: population_lib.Population,
  prices: np.ndarray,
  blocks: np.ndarray,
  num_rounds: int,
  rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
  """Estimates the rates before thinning, and their slopes in the own price.

  Args:
    population: The statistics.
    prices: Log speeds.
    blocks: Priority classes.
    num_rounds: How many rounds to simulate.
    rng: Draws them.

  Returns:
    Per client the mean, over rounds, of its chance given all others; and the
    mean of the derivative of that chance in the client's price.
  """
  available, k, factors = draw_rounds(population, num_rounds, rng)
  keys = _keys(prices, blocks, available, rng)
  last, next_ = _limits(keys, k)
  # The K-th key among the others: for a selected client it is the one after.
  others = np.where(keys <= last[:, None], next_[:, None], last[:, None])
  place = np.clip(others - blocks, 0.0, 1.0)
  with np.errstate(divide='ignore'):
    exponent = place / (1 - place) * np.exp(prices)
  missed = np.exp(-exponent)
  chance = factors[:, None] * population.q
  slope = np.where(np.isinf(exponent), 0.0, exponent) * missed
  return (chance * (1 - missed)).mean(axis=0), (chance * slope).mean(axis=0)


def _batch(num_clients: int) -> int:
  return min(_MAX_BATCH, max(50, _BATCH_NUMBERS // num_clients))


def _fit_prices(
  population: population_lib.Population,
  base: np.ndarray,
  blocks: np.ndarray,
  seed: int,
  iterations: int,
) -> np.ndarray:
  """Returns the prices, by stochastic approximation with averaging."""
  sizes = np.bincount(blocks)
  # Alone in its block, a client's price changes nothing.
  moves = (sizes[blocks] > 1) & (base > 0)
  prices = np.zeros(base.size)
  # As long as clocks are short the chance is q times the speed times the time.
  prices[moves] = np.log(base[moves] / population.q[moves])
  total, weight = np.zeros(base.size), 0
  for i in range(iterations):
    rng = randomness.generator(seed, 'fitting of a fixed policy', i)
    estimate, slope = _conditional_rates(
      population, prices, blocks, _batch(base.size), rng
    )
    # A Newton step along each coordinate. Two clients alone would swing for
    # ever with a step of 1, so less than that.
    step = _STEP * min(1.0, _FIRST_STEPS / (i + 1)) ** 0.7
    move = (base - estimate)[moves] / np.maximum(slope, 0.05 * base)[moves]
    prices[moves] += step * np.clip(move, -1.0, 1.0)
    np.clip(prices, -_MAX_PRICE, _MAX_PRICE, out=prices)
    if 2 * i >= iterations:
      total, weight = total + prices, weight + 1
  mean = total / max(1, weight)
  # Only differences within a block matter.
  return mean - (np.bincount(blocks, weights=mean) / sizes)[blocks]


def fit(
  population: population_lib.Population,
  target: np.ndarray,
  seed: int = 0,
  iterations: int = 200,
  test_batches: int = 60,
) -> FixedPolicy:
  """Finds a policy that attains the target.

  Args:
    population: The statistics of availability and constraint.
    target: The rates r, in R.
    seed: Decides the simulated rounds.
    iterations: Batches of rounds to fit on.
    test_batches: Other batches, to measure the result on.

  Returns:
    The policy. Its `realised` rates are near the target, by how much they and
    their `errors` tell.

  Raises:
    ValueError: If the target is outside of R.
  """
  target = np.asarray(target, float)
  if iterations < 1 or test_batches < 2:
    raise ValueError(
      'A fit needs at least 1 iteration and 2 test batches, but they are '
      f'{iterations} and {test_batches}.'
    )
  too_much = optimal_rates.excess(population, target)
  if too_much > 1e-9:
    raise ValueError(
      'The target rates are not achievable: some clients together are to take '
      f'part {too_much:.3g} times a round more than they can.'
    )
  base, classes = optimal_rates.share_out(population, target)
  # Clients that are not to take part come last, and are not kept.
  blocks = np.full(target.size, len(classes))
  for place, members in enumerate(classes):
    blocks[members] = place
  wanted = target > 0
  keep = np.zeros(target.size)
  keep[wanted] = target[wanted] / base[wanted]
  keep[keep > 1 - 1e-9] = 1.0  # But for rounding.
  blocks = np.unique(blocks, return_inverse=True)[1]
  prices = _fit_prices(population, base, blocks, seed, iterations)
  measured = np.array([
    _conditional_rates(
      population,
      prices,
      blocks,
      _batch(target.size),
      randomness.generator(seed, 'measuring of a fixed policy', i),
    )[0]
    for i in range(test_batches)
  ])
  return FixedPolicy(
    target,
    prices,
    blocks,
    keep,
    realised=keep * measured.mean(axis=0),
    errors=keep * measured.std(axis=0, ddof=1) / np.sqrt(test_batches),
  )


def choose(
  policy: FixedPolicy,
  available: np.ndarray,
  k: np.ndarray,
  rng: np.random.Generator,
) -> np.ndarray:
  """Selects clients in many rounds at once.

  Args:
    policy: The policy.
    available: The masks A_t, shape [rounds, N].
    k: The constraints K_t.
    rng: Draws the clocks and who is kept.

  Returns:
    Who is selected, shape [rounds, N].
  """
  keys = _keys(policy.prices, policy.blocks, available, rng)
  last, _ = _limits(keys, np.asarray(k))
  selected = available & (keys <= last[:, None])
  if (policy.keep < 1).any():
    selected &= rng.random(selected.shape) < policy.keep
  return selected
