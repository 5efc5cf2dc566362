"""Tests of `population` against the rounds that it sums up."""

import sys

import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff.theory import population as population_lib
from tests import systems


@pytest.mark.parametrize(
  'constraint',
  [
    communication.Schedule((3, 1, 0, 2)),
    communication.Uniform(1, 4, seed=2),
    communication.MarkovLink(4, 1, 0.2, 0.4, seed=2),
  ],
)
def test_statistics_are_those_of_the_rounds(constraint):
  model = availability.smartphones(5, seed=1, period=6)
  population = population_lib.population_of(model, constraint)
  rounds = range(1, 3001)
  seen = np.array([
    (model.probabilities(t)[0] / model.q[0], constraint(t)) for t in rounds
  ])
  for factor, k, share in zip(
    population.factors, population.k, population.shares
  ):
    here = np.isclose(seen[:, 0], factor) & (seen[:, 1] == k)
    # MarkovLink's rounds depend on each other, hence the wide margin.
    assert here.mean() == pytest.approx(share, abs=0.03), (factor, k)
  assert population.shares.sum() == pytest.approx(1)
  assert population.shares @ population.k == pytest.approx(constraint.mean)


def test_random_kinds_of_rounds_meet_a_schedule_by_chance():
  # A cluster that is on for 1/4 of the rounds, K = 2 in every other round.
  population = population_lib.population_of(
    availability.clusters(np.full(2, 0.5), 0, 1, 0.3, 0.1),
    communication.Schedule((2, 0)),
  )
  found = zip(population.factors, population.k, population.shares)
  assert sorted(found) == [
    (0, 0, pytest.approx(3 / 8)),
    (0, 2, pytest.approx(3 / 8)),
    (1, 0, pytest.approx(1 / 8)),
    (1, 2, pytest.approx(1 / 8)),
  ]


def test_a_link_that_alternates_is_known_without_a_day():
  population = population_lib.population_of(
    availability.scarce(2), communication.MarkovLink(4, 0, 1.0, 1.0)
  )
  assert sorted(zip(population.k, population.shares)) == [(0, 0.5), (4, 0.5)]


@pytest.mark.parametrize(
  'arguments, message',
  [
    (([0.5, 1.1],), 'q must hold numbers in'),
    (([0.5, np.nan],), 'q must hold numbers in'),
    (([],), 'N >= 1'),
    (([0.5], 1.5), 'whole numbers'),
    (([0.5], 2.0), 'whole numbers'),
    (([0.5], 1, [1.0], [0.5]), 'sum to 1'),
    (([0.5], 1, [1.0], [1.000004]), 'sum to 1'),
    (([0.5], 1, [1.0, 1.0], [1.0]), 'each kind of round'),
  ],
)
def test_bad_values_are_named(arguments, message):
  with pytest.raises(ValueError, match=message):
    systems.population(*arguments)


@pytest.mark.parametrize(
  'model, constraint, message',
  [
    (object(), communication.fixed(1), 'the model is a object'),
    (availability.always(2), lambda t: 1, 'the constraint is a function'),
    (
      availability.Independent(np.ones(2), np.array([1.0, 0.0])),
      communication.MarkovLink(4, 0, 1.0, 1.0),
      'the link turns in every round',
    ),
    (
      availability.Markov(np.array([0.5, 1.0]), np.ones(2)),
      communication.fixed(1),
      'as client 1 does',
    ),
    (
      availability.time_zones(np.ones(4)),
      communication.fixed(1),
      'the groups of this availability model have different ones',
    ),
    (
      availability.arrivals(availability.always(2)),
      communication.fixed(1),
      'have no long-run rates',
    ),
  ],
)
def test_what_has_no_known_statistics_is_named(model, constraint, message):
  with pytest.raises(ValueError, match=message):
    population_lib.population_of(model, constraint)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
