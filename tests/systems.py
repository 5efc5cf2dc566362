"""Systems that the theory is tested on."""

import dataclasses
import itertools

import numpy as np

from f3ast_tff import groups
from f3ast_tff.theory import population as population_lib
from f3ast_tff.theory import small_system

# The clients of the paper's introduction: K = 1, p = (1/2, 1/2).
TWO = small_system.introduction_example()
HALVES = np.array([0.5, 0.5])


def masks_of(n):
  """Returns all configurations of n clients, one per row."""
  return np.array(list(itertools.product((False, True), repeat=n)))


def random_system(seed, n=6):
  """A joint distribution in which clients may depend on each other, and p."""
  rng = np.random.default_rng(seed)
  probabilities = rng.dirichlet(np.full(2**n, 0.2))
  system = small_system.System(
    masks_of(n), probabilities, int(rng.integers(1, n))
  )
  return system, rng.dirichlet(np.full(n, 0.7))


def with_quotas(seed, n=5):
  """Returns a random system, p, and three groups with quotas that K allows."""
  system, p = random_system(seed, n)
  rng = np.random.default_rng(seed)
  group_of = rng.integers(0, 3, n)
  most = rng.integers(1, 4, 3)
  least = rng.integers(0, most + 1)
  while least.sum() > system.k:
    least[rng.integers(3)] = 0
  bounds = groups.Bounds(group_of, least, most)
  return dataclasses.replace(system, bounds=bounds), p


def feasible_sets(available, k, bounds):
  """Yields all sets of clients that quotas allow, as tuples."""
  clients = np.flatnonzero(available).tolist()
  of = bounds.group_of
  for size in range(min(k, len(clients)) + 1):
    for chosen in itertools.combinations(clients, size):
      is_feasible = True
      for g, (least, most) in enumerate(zip(bounds.least, bounds.most)):
        there = sum(of[c] == g for c in clients)
        count = sum(of[c] == g for c in chosen)
        is_feasible &= bool(min(least, there) <= count <= most)
      if is_feasible:
        yield chosen


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
  return small_system.System(masks, probabilities, int(population_.k[0]))
