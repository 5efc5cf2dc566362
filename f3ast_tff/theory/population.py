"""What availability and constraint come to in the long run.

The clients are independent given the round: in a round of factor f client k is
available with probability q_k f, and K of them may take part.
"""

import dataclasses
import math

import numpy as np

from f3ast_tff import availability
from f3ast_tff import communication

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


def _distribution_of_k(
  constraint: communication.Constraint,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the values of K_t and how often each comes."""
  if isinstance(constraint, communication.Schedule):
    length = len(constraint.values)
    return np.array(constraint.values), np.full(length, 1 / length)
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


def long_run_of(model: availability.Availability) -> availability.LongRun:
  """Returns the long run of a model; raises a ValueError if it has none."""
  if not hasattr(model, 'long_run'):
    raise ValueError(
      'The best rates need what long_run() of an availability model returns, '
      f'but the model is a {type(model).__name__}, which has none.'
    )
  return model.long_run()


def population_of(
  model: availability.Availability, constraint: communication.Constraint
) -> Population:
  """Returns the long-term statistics of a model and a constraint.

  A schedule of K and a day of factors both repeat, so their joint period is
  gone through: a K that is small at the good hours is seen as such.

  Args:
    model: One whose clients all have the same good rounds.
    constraint: `communication.Schedule`, `Uniform` or `MarkovLink`.

  Returns:
    The population.

  Raises:
    ValueError: For other models and constraints, and where there is no long
      run, or it is not known.
  """
  found = long_run_of(model)
  columns = np.unique(found.groups)
  if columns.size > 1:
    raise ValueError(
      'The best rates of many clients are known where all of them have the '
      'same good rounds, but the groups of this availability model have '
      'different ones; theory.small_system.of_model takes it, for few clients.'
    )
  q, factors = found.q, found.factors[:, columns[0]]
  if isinstance(constraint, communication.Schedule) and found.is_cycle:
    t = np.arange(math.lcm(factors.size, len(constraint.values)))
    f = factors[t % factors.size]
    k = np.array(constraint.values)[t % len(constraint.values)]
    shares = np.full(t.size, 1 / t.size)
  else:
    is_alternating = (
      isinstance(constraint, communication.MarkovLink)
      and constraint.good_to_bad + constraint.bad_to_good == 2
    )
    if is_alternating and factors.size > 1 and found.is_cycle:
      raise ValueError(
        'The best rates are not known where the link turns in every round and '
        'availability has a day; make one of its probabilities less than 1.'
      )
    values, chances = _distribution_of_k(constraint)
    f = np.repeat(factors, values.size)
    k = np.tile(values, factors.size)
    shares = np.tile(chances, factors.size) / factors.size
    if not found.is_cycle:
      shares = np.outer(found.shares, chances).ravel()
  # A sine has each of its values twice, but for rounding.
  pairs = np.stack([np.round(f, 14), k])
  kinds, kind = np.unique(pairs, axis=1, return_inverse=True)
  return Population(
    np.asarray(q, float),
    kinds[0],
    kinds[1].astype(int),
    np.bincount(kind.ravel(), weights=shares),
  )
