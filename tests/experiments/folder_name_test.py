"""Tests of `folder_name`."""

import sys

import hypothesis
from hypothesis import strategies as st
import pytest

from experiments import folder_name

_SETTINGS = {
  'task': 'synthetic',
  'algorithm': 'f3ast',
  'selection': 'f3ast',
  'server_optimizer': 'sgd',
  'proximal': 0.0,
  'avail': 'uneven',
  'clients_per_round': '10',
  'beta': 0.001,
  'seed': 3,
  'server_rate_file': '',
}


def _name(given=(), **changes):
  return folder_name.of({**_SETTINGS, **changes}, [*given, *changes])


@pytest.mark.parametrize(
  'changes, name',
  [
    ({}, 'f3ast-uneven-seed=3'),
    ({'seed': 1}, 'f3ast-uneven-seed=1'),
    ({'beta': 1e-05}, 'f3ast-uneven-beta=1e-05-seed=3'),
    (
      {'beta': 0.5, 'clients_per_round': 'schedule:10,5,0', 'proximal': 0.1},
      'f3ast-proximal=0.1-uneven-clients_per_round=schedule:10,5,0-beta=0.5-'
      'seed=3',
    ),
    ({'server_optimizer': 'yogi'}, 'f3ast-yogi-uneven-seed=3'),
    ({'sum_cap': 1.5, 'beta': 0.5}, 'f3ast-sum_cap=1.5-uneven-beta=0.5-seed=3'),
    # As f3ast_safe, but its algorithm is another flag: another name.
    (
      {'rate_step': 'annealed:10', 'sum_cap': 1.0},
      'f3ast_safe-uneven-rate_step=annealed:10-sum_cap=1.0-seed=3',
    ),
  ],
)
def test_few_flags_are_all_in_the_name(changes, name):
  assert _name(**changes) == name


def test_many_flags_are_a_digest():
  k = 'schedule:' + ','.join(map(str, range(300)))
  name = _name(clients_per_round=k)
  assert name.startswith('f3ast-uneven-settings=') and name.endswith('-seed=3')
  assert len(name) == len('f3ast-uneven-settings=-seed=3') + 16
  assert name == _name(clients_per_round=k)
  assert name != _name(clients_per_round=k + ',0')
  # A setting that came later and has its default changes no name.
  assert name == _name(['clients_per_round'], clients_per_round=k)
  later = {**_SETTINGS, 'clients_per_round': k, 'new': 0}
  assert name == folder_name.of(later, ['clients_per_round'])


_TEXT = st.text(st.sampled_from('ab/_=-., é\0\n0e'), max_size=60)
_CHANGES = st.fixed_dictionaries(
  {},
  optional={
    'selection': st.sampled_from(['f3ast', 'uniform']),
    'proximal': st.floats(0, 1),
    'weight_cap': st.floats(0, 1, exclude_min=True),
    'sum_cap': st.floats(0, 1, exclude_min=True),
    'rate_step': st.sampled_from(['annealed:10', 'annealed:2']),
    'avail': st.sampled_from(['always', 'scarce']),
    'clients_per_round': _TEXT,
    'beta': st.floats(0, 1),
    'seed': st.integers(0, 2**32),
    'server_rate_file': _TEXT,
    'of_a_task_of_your_own': _TEXT,
  },
)


@hypothesis.settings(max_examples=300)
@hypothesis.given(_CHANGES, _CHANGES)
@hypothesis.example({'proximal': 0.1}, {'proximal': 0.10000001})
@hypothesis.example({'sum_cap': 0.1}, {'sum_cap': 0.10000001})
@hypothesis.example({'server_rate_file': 'a/b'}, {'server_rate_file': 'a_b'})
@hypothesis.example(
  {'clients_per_round': '3-beta=0.5'}, {'clients_per_round': '3', 'beta': 0.5}
)
def test_names_are_short_and_no_two_runs_share_one(one, other):
  names = [_name(**one), _name(**other)]
  for name in names:
    assert 0 < len(name.encode()) <= 255
    assert not set(name) & set('/\0\n ')
  is_same = {**_SETTINGS, **one} == {**_SETTINGS, **other}
  if not is_same:
    assert names[0] != names[1]
  if one == other:
    assert names[0] == names[1]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
