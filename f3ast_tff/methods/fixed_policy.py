"""Fixed-policy F3AST, Algorithm 2: rates that were found beforehand."""

import dataclasses

import numpy as np

from f3ast_tff import availability as availability_lib
from f3ast_tff import communication
from f3ast_tff import rates
from f3ast_tff import selection
from f3ast_tff.theory import fixed_policy
from f3ast_tff.theory import optimal_rates
from f3ast_tff.theory import population as population_lib


@dataclasses.dataclass(frozen=True, eq=False)
class FittedPolicy:
  """A policy that selects so that the long-term rates are given ones.

  Attributes:
    fitted: How it selects, and the rates that it aims at.
  """

  fitted: fixed_policy.FixedPolicy

  def __call__(
    self, s: selection.Situation, rng: np.random.Generator
  ) -> selection.Cohort:
    """Returns the cohort S_t with weights p_k / r_k of the rates aimed at."""
    selected = fixed_policy.choose(
      self.fitted, s.available[None], np.array([s.k]), rng
    )[0]
    clients = np.flatnonzero(selected)
    return selection.Cohort(
      clients, rates.weights(s.p[clients], self.fitted.target[clients])
    )


def build(
  availability: availability_lib.Availability,
  constraint: communication.Constraint,
  p: np.ndarray,
  correlation: str,
  seed: int = 0,
) -> FittedPolicy:
  """Returns the policy of the best rates r*, which minimise H.

  Args:
    availability: Who is available.
    constraint: How many may take part.
    p: Each client's share of the data.
    correlation: The form of H.
    seed: Decides the rounds on which the policy is fitted.

  Returns:
    The policy.
  """
  population = population_lib.population_of(availability, constraint)
  best = optimal_rates.solve(population, p, correlation)
  return FittedPolicy(fixed_policy.fit(population, best.rates, seed))
