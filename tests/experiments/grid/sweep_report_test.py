"""Tests of `sweep_report`; `sweep_test` has those of its tables."""

import sys

import pytest

from experiments.grid import combinations
from experiments.grid import sweep_report


def _styles(**values):
  varied = {
    combinations.label(each): each for each in combinations.product(values)
  }
  found = sweep_report.styles(varied)
  assert [name for name, _, _ in found.values()] == list(found) == list(varied)
  # Nobody has to guess which line it is.
  looks = {label: look for label, (_, *look) in found.items()}
  assert len({tuple(look) for look in looks.values()}) == len(looks)
  return looks


def test_what_belongs_together_looks_alike():
  looks = _styles(algorithm=['fedavg', 'f3ast'], beta=[0.1, 0.2])
  color, dash = looks['fedavg, beta=0.1']
  assert looks['fedavg, beta=0.2'][0] == color
  assert looks['f3ast, beta=0.1'][1] == dash


def test_more_colours_than_dashes():
  looks = _styles(algorithm=['fedavg', 'f3ast'], beta=range(7))
  assert len({dash for _, dash in looks.values()}) == 2
  looks = _styles(beta=range(7), algorithm=['fedavg', 'f3ast'])
  assert len({dash for _, dash in looks.values()}) == 2


def test_many_of_everything():
  assert len(_styles(beta=range(5), rounds=range(5))) == 25
  assert len(_styles(a=[1, 2], b=[1, 2], c=[1, 2])) == 8
  assert len(_styles(beta=range(8))) == 8


def test_a_single_one():
  assert sweep_report.styles({'f3ast': {}})['f3ast'][0] == 'f3ast'


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
