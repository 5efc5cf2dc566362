"""Tests of runs that are given more rounds, with a stand-in for training."""

import pathlib
import sys
import tempfile
import types
from unittest import mock

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pandas as pd
import pytest
import tensorflow_federated as tff

from f3ast_tff.execution import rounds as rounds_lib
from f3ast_tff.learning import server as server_lib
from f3ast_tff.runs import evaluation
from f3ast_tff.runs import loop
from f3ast_tff.runs import selector as selector_lib
from f3ast_tff.runs import task as task_lib

_FILES = ('rounds.csv', 'metrics.csv', 'clients.csv', 'model.npz')


class _Rounds:
  """In the place of `rounds.Rounds`: rounds of which each changes the state.

  The state after round t depends on all rounds up to t, so that one that is
  missing, or is run twice, shows.
  """

  crash_in: int = 0

  def __init__(self, training, num_rounds, runner_of):
    del num_rounds, runner_of
    self._selector = training.selector
    rates = training.selector.initial_rates
    self.state = self._state_of(np.zeros(3, np.float32), rates)

  def _state_of(self, weights, rates):
    model = tff.learning.models.ModelWeights((weights,), ())
    return server_lib.ServerState(model, rates, (), (), (np.float32(1),))

  def run(self, round_num):
    if round_num == self.crash_in:
      raise rounds_lib.RoundError('A crash.')
    rates = self.state.rates
    available, cohort, lost, *_ = self._selector.select(round_num, rates)
    (weights,) = self.state.global_model_weights.trainable
    self.state = self._state_of(
      np.float32(0.7) * weights + np.float32(round_num),
      self._selector.next_rates(rates, cohort),
    )
    measured = {
      'selected': cohort.clients.size,
      'excluded': 0,
      'excluded_clients': np.zeros(rates.size, bool),
      'sum_of_weights': cohort.weights.sum(),
      'variance_bound': rates.sum(),
    }
    metrics = {
      'selection': measured,
      'client_work': {'train': {'loss': float(weights[0])}},
    }
    return rounds_lib.Round(available, cohort, metrics, lost=lost)


def _build(config, task, vectors_folder):
  """In the place of `task.build`: a training without a process."""
  dataset = task.dataset
  selector = selector_lib.build(
    config, dataset.num_examples, dataset.num_predictions
  )
  data = types.SimpleNamespace(num_examples=dataset.num_examples)
  assert vectors_folder is None
  return types.SimpleNamespace(selector=selector, cohort_data=data, files=None)


def _build_evaluator(model, dataset, num_threads):
  """In the place of `evaluation.build_evaluator`: what was tested shows."""
  del model, num_threads

  def evaluate(weights, rows=None):
    rows = np.arange(len(dataset.test_owner)) if rows is None else rows
    loss = float(weights[0][0][0]) + rows.sum() / 1000
    return evaluation.Metrics(0.5, loss, 0.5, loss, len(rows))

  return evaluate


@pytest.fixture(name='run', scope='module')
def _run(task, make_config):
  """Runs settings, given by keyword, in a folder."""

  def run(folder, **changes):
    loop.run(make_config(**changes), task, folder)

  with (
    mock.patch.object(task_lib, 'build', _build),
    mock.patch.object(rounds_lib, 'Rounds', _Rounds),
    mock.patch.object(evaluation, 'build_evaluator', _build_evaluator),
  ):
    yield run


def _contents(folder):
  return {name: (folder / name).read_bytes() for name in _FILES}


@st.composite
def _lengths(draw):
  """Draws ascending numbers of rounds, and a round to crash in or 0."""
  lengths = draw(st.lists(st.integers(1, 14), min_size=2, max_size=3))
  return [(n, draw(st.integers(0, n))) for n in sorted(set(lengths))]


@hypothesis.settings(max_examples=25)
@hypothesis.given(
  lengths=_lengths(),
  eval_every=st.integers(1, 6),
  checkpoint_every=st.integers(2, 8),
  eval_examples=st.sampled_from([0, 5]),
)
@hypothesis.example([(4, 0), (9, 0)], 2, 4, 5)  # A checkpoint at its last.
@hypothesis.example([(4, 0), (9, 0)], 100, 100, 0)  # No other than the last.
def test_the_files_are_those_of_a_run_that_had_all_rounds_from_the_start(
  run, lengths, eval_every, checkpoint_every, eval_examples
):
  same = {
    'eval_every': eval_every,
    'checkpoint_every': checkpoint_every,
    'eval_examples': eval_examples,
  }
  with tempfile.TemporaryDirectory() as scratch:
    at_once, in_parts = (pathlib.Path(scratch) / name for name in 'ab')
    for rounds, crash_in in lengths:
      if crash_in:
        with mock.patch.object(_Rounds, 'crash_in', crash_in):
          try:
            run(in_parts, rounds=rounds, **same)
          except rounds_lib.RoundError:
            assert not (in_parts / 'model.npz').exists()
      run(in_parts, rounds=rounds, **same)
    run(at_once, rounds=rounds, **same)
    assert _contents(in_parts) == _contents(at_once)
    found = pd.read_csv(in_parts / 'rounds.csv')['round'].tolist()
    assert found == list(range(1, rounds + 1))


def test_the_last_test_is_another_one_than_at_the_same_round_of_more(
  run, tmp_path
):
  # Else the test above could not fail.
  run(tmp_path / 'a', rounds=4, eval_examples=5)
  run(tmp_path / 'b', rounds=8, eval_examples=5)
  short, long_ = (
    (tmp_path / name / 'metrics.csv').read_text().splitlines() for name in 'ab'
  )
  assert short[:2] == long_[:2] and short[2] != long_[2]


def test_the_old_number_of_rounds_gives_the_old_files_again(run, tmp_path):
  run(tmp_path, rounds=3, checkpoint_every=2)
  old = _contents(tmp_path)
  with mock.patch.object(_Rounds, 'crash_in', 3):
    with pytest.raises(rounds_lib.RoundError):
      run(tmp_path, rounds=6, checkpoint_every=2)
  assert pd.read_csv(tmp_path / 'rounds.csv')['round'].tolist() == [1, 2]
  run(tmp_path, rounds=3, checkpoint_every=2)
  assert _contents(tmp_path) == old


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
