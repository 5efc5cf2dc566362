"""Tests of `combinations`."""

import sys

import hypothesis
from hypothesis import strategies as st
import pytest

from experiments.grid import combinations


@pytest.mark.parametrize(
  'texts, is_whole, values',
  [
    (['.001,.01'], False, ['.001', '.01']),
    (['0..4'], False, ['0', '1', '2', '3', '4']),
    (['0..1,7', '9'], False, ['0', '1', '7', '9']),
    (['-1..1'], False, ['-1', '0', '1']),
    (['3..3'], False, ['3']),
    (['fedavg,f3ast'], False, ['fedavg', 'f3ast']),
    # A number is no range, and an empty value is the experiment's to refuse.
    (['1.5,1..'], False, ['1.5', '1..']),
    (['.1,'], False, ['.1', '']),
    # Commas behind a colon are the value's own.
    (['5,10', 'uniform:5,15'], False, ['5', '10', 'uniform:5,15']),
    (['schedule:10,5,0'], False, ['schedule:10,5,0']),
    (['always,markov:.1,.2'], False, ['always,markov:.1,.2']),
    (['one_availability,divide_by_k'], True, ['one_availability,divide_by_k']),
    (['0..4'], True, ['0', '1', '2', '3', '4']),
  ],
)
def test_split(texts, is_whole, values):
  assert combinations.split('flag', texts, is_whole) == values


@pytest.mark.parametrize(
  'text, message',
  [
    ('4..0', '--seeds has the range 4..0, which is empty'),
    ('0..10000', '10,001 runs, and a sweep has 10,000 at most'),
    ('0..99999999999999', 'at most'),  # And it is not tried.
  ],
)
def test_ranges_that_are_refused(text, message):
  with pytest.raises(ValueError, match=message):
    combinations.split('seeds', [text])
  assert len(combinations.split('seeds', ['1..10000'])) == 10_000


@hypothesis.given(
  st.lists(
    st.integers(-99, 99).flatmap(
      lambda first: st.tuples(st.just(first), st.integers(first, first + 9))
    ),
    min_size=1,
    max_size=5,
  )
)
def test_numbers_and_ranges_are_what_they_stand_for(ends):
  text = ','.join(str(a) if a == b else f'{a}..{b}' for a, b in ends)
  numbers = [n for a, b in ends for n in range(a, b + 1)]
  assert list(map(int, combinations.split('flag', [text]))) == numbers


def test_product_by_hand():
  assert combinations.product({'seed': [0, 1], 'a': ['x', 'y'], 'b': [3]}) == [
    {'seed': 0, 'a': 'x', 'b': 3},
    {'seed': 0, 'a': 'y', 'b': 3},
    {'seed': 1, 'a': 'x', 'b': 3},
    {'seed': 1, 'a': 'y', 'b': 3},
  ]
  with pytest.raises(ValueError, match='--a has 1 twice'):
    combinations.product({'a': [1, 2, 1]})
  with pytest.raises(ValueError, match='10,200 runs'):
    combinations.product({'a': range(102), 'b': range(100)})


# All of one kind, as the values of a flag are.
_VALUES = st.one_of(
  st.lists(kind, min_size=1, max_size=3, unique=True)
  for kind in (
    st.integers(), st.floats(allow_nan=False), st.text(max_size=300)
  )
)
# As the names of flags are.
_NAMES = st.text('abc_', min_size=1, max_size=20)


@hypothesis.given(
  st.dictionaries(_NAMES, _VALUES, min_size=1, max_size=3)
)
def test_each_combination_has_a_name_of_its_own(values):
  found = combinations.product(values)
  names = {combinations.file_name(each) for each in found}
  assert len(names) == len(found)
  for name in names:
    assert '/' not in name and len(name.encode()) < 200


def test_labels_and_names():
  chosen = {
    'algorithm': 'f3ast', 'beta': 0.01, 'clients_per_round': 'uniform:5,15'
  }
  assert combinations.label(chosen) == (
    'f3ast, beta=0.01, clients_per_round=uniform:5,15'
  )
  assert combinations.file_name(chosen) == (
    'algorithm=f3ast-beta=0.01-clients_per_round=uniform:5,15'
  )
  assert combinations.file_name({'f': '../x y'}) == 'f=..%2Fx%20y'
  assert combinations.label({}) == ''


def test_digests_tell_values_apart():
  one = combinations.digest({'beta': [0.1, 0.2]})
  assert one == combinations.digest({'beta': [0.1, 0.2]}) and len(one) == 8
  assert one != combinations.digest({'beta': [0.2, 0.1]})


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
