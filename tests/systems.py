"""Systems that the theory is tested on."""

import itertools

import numpy as np

from f3ast_tff.theory import population as population_lib
from f3ast_tff.theory import region

# The clients of the paper's introduction: K = 1, p = (1/2, 1/2).
TWO = region.introduction_example()
HALVES = np.array([0.5, 0.5])


def masks_of(n):
  """Returns all configurations of n clients, one per row."""
  return np.array(list(itertools.product((False, True), repeat=n)))


def random_system(seed, n=6):
  """A joint distribution in which clients may depend on each other, and p."""
  rng = np.random.default_rng(seed)
  probabilities = rng.dirichlet(np.full(2**n, 0.2))
  system = region.System(masks_of(n), probabilities, int(rng.integers(1, n)))
  return system, rng.dirichlet(np.full(n, 0.7))


def population(q, k=1, factors=(1.0,), shares=None):
  """Returns a population whose kinds of rounds are alike by default."""
  factors = np.array(factors)
  if shares is None:
    shares = np.full(factors.size, 1 / factors.size)
  return population_lib.Population(
    np.asarray(q, float),
    factors,
    np.broadcast_to(k, factors.shape),
    np.asarray(shares),
  )


def random_population(seed, factors=1):
  """Returns a population of few clients, and p."""
  rng = np.random.default_rng(seed)
  n = int(rng.integers(2, 9))
  q = rng.uniform(0.02, 1, n)
  if seed % 3 == 0:
    q[rng.integers(n)] = 1.0
  drawn = population(
    q,
    int(rng.integers(1, n + 1)),
    rng.uniform(0.1, 1, factors),
    rng.dirichlet(np.ones(factors)),
  )
  return drawn, rng.dirichlet(np.full(n, 0.5))


def system_of(population_):
  """Returns the joint distribution of a population of a fixed K."""
  masks = masks_of(population_.num_clients)
  probabilities = np.zeros(len(masks))
  for factor, share in zip(population_.factors, population_.shares):
    chance = factor * population_.q
    probabilities += share * np.where(masks, chance, 1 - chance).prod(axis=1)
  return region.System(masks, probabilities, int(population_.k[0]))
