"""Tests of `excluded`."""

import sys

from absl import logging
import numpy as np
import pytest

from f3ast_tff import selection
from f3ast_tff.execution import rounds
from f3ast_tff.runs import excluded

# Client 3 has no examples, and one of 2 is infinite; 1 fails, and the update of
# 4 is not finite.
_NUM_EXAMPLES = np.array([5, 5, 5, 0, 5])
_TRAIN = [
  {'x': np.zeros((number, 3), np.float32), 'y': np.zeros(number, np.int32)}
  for number in _NUM_EXAMPLES
]
_TRAIN[2]['x'][4, 1] = -np.inf


def _round(clients=(0, 1, 3, 4), without_update=(1, 3, 4), failed=(1,)):
  mask = np.zeros(_NUM_EXAMPLES.size, bool)
  mask[list(without_update)] = True
  cohort = selection.Cohort(np.array(clients), np.ones(len(clients)))
  measured = {
    'excluded_clients': mask,
    'selected': len(clients),
    'excluded': len(without_update),
  }
  return rounds.Round(mask, cohort, {'selection': measured}, failed)


@pytest.fixture(name='lines')
def _lines(monkeypatch):
  lines = []
  monkeypatch.setattr(
    logging, 'warning', lambda text, *args: lines.append(text % args)
  )
  return lines


def test_each_client_is_named_once_for_each_reason(lines):
  clients = excluded.ExcludedClients(_TRAIN)
  clients.log(_round(), 7)
  for line, expected in zip(
    lines,
    (
      'whose training fails: 1.',
      'without examples: 3.',
      'whose update is not finite: 4.',
    ),
  ):
    assert 'Round 7' in line and expected in line
  clients.log(_round(), 8)
  assert len(lines) == 3
  clients.log(_round(clients=(0, 1), without_update=(0, 1), failed=()), 9)
  (line,) = lines[3:]
  assert 'Round 9' in line and 'whose update is not finite: 0, 1.' in line
  clients.log(_round(clients=(2,), without_update=(2,), failed=()), 10)
  assert 'whose examples are not finite: 2.' in lines[4]


def test_who_trained_and_to_a_finite_update():
  clients = excluded.ExcludedClients(_TRAIN)
  # Of 0, 1, 3 and 4 the third has nothing to train on.
  assert clients.expected_and_counted(_round()) == (3, 1)
  all_fail = _round((1, 4), without_update=(1, 4), failed=(1, 4))
  assert clients.expected_and_counted(all_fail) == (2, 0)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
