"""Tests of `communication`."""

import collections
import math
import sys

import numpy as np
import pytest

from f3ast_tff import communication


def test_fixed():
  constraint = communication.fixed(10)
  assert [constraint(t) for t in (1, 2, 500)] == [10, 10, 10]
  assert (constraint.mean, constraint.maximum) == (10, 10)
  assert constraint.minimum == 10


def test_schedule_starts_over():
  constraint = communication.Schedule((3, 1, 0))
  assert [constraint(t) for t in range(1, 8)] == [3, 1, 0, 3, 1, 0, 3]
  assert constraint.mean == pytest.approx(4 / 3)


def test_uniform_takes_all_values_equally_often():
  constraint = communication.Uniform(2, 5, seed=1)
  counts = collections.Counter(constraint(t) for t in range(1, 4001))
  assert set(counts) == {2, 3, 4, 5}
  # Four cells of 1,000; the chi-square is above 16.3 in one of 1,000 cases.
  assert sum((n - 1000) ** 2 / 1000 for n in counts.values()) < 16.3
  assert constraint.mean == 3.5


def test_markov_link_stays_as_long_as_it_should():
  constraint = communication.MarkovLink(10, 2, 0.1, 0.3, seed=4)
  k = np.array([constraint(t) for t in range(1, 4001)])
  assert set(k) == {2, 10}
  assert constraint.mean == pytest.approx(0.75 * 10 + 0.25 * 2)
  assert abs(k.mean() - constraint.mean) < 0.5
  good = k[:-1] == 10
  assert abs((k[1:][good] == 2).mean() - 0.1) < 0.02
  assert k[1999] == constraint(2000)


@pytest.mark.parametrize(
  'text, expected',
  [
    ('10', communication.fixed(10)),
    ('schedule:10,5,0', communication.Schedule((10, 5, 0))),
    ('uniform:5,15', communication.Uniform(5, 15, 3)),
    ('markov:10,2,0.1,0.3', communication.MarkovLink(10, 2, 0.1, 0.3, 3)),
  ],
)
def test_parse(text, expected):
  assert communication.parse(text, seed=3) == expected


@pytest.mark.parametrize(
  'text, message',
  [
    ('-1', 'whole number from 0'),
    ('ten', 'must read like'),
    ('', 'must read like'),
    ('uniform:5', 'must read like'),
    ('uniform:9,5', 'must not exceed'),
    ('schedule:1,-2', 'whole number from 0'),
    ('markov:10,2,0.1', 'must read like'),
    ('markov:10,2,0,0', 'not both'),
    ('markov:10,2,nan,0.5', 'probabilities in'),
    ('poisson:3', 'must read like'),
    (':10', 'must read like'),
    ('uniform:0,1e30', 'whole number from 0'),
  ],
)
def test_parse_says_what_is_wrong(text, message):
  with pytest.raises(ValueError, match=message):
    communication.parse(text)


@pytest.mark.parametrize('k', [10.0, 0.5, math.inf, math.nan, '3', None, 2**31])
def test_a_number_of_clients_is_a_whole_number(k):
  with pytest.raises(ValueError, match='whole number from 0 to 2147483647'):
    communication.fixed(k)


@pytest.mark.parametrize('text', ['3', 'uniform:1,2', 'markov:2,1,0.5,0.5'])
def test_rounds_count_from_1(text):
  with pytest.raises(ValueError, match='Rounds count from 1'):
    communication.parse(text)(0)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
