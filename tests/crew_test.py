"""Tests of `crew`, with workers in network namespaces where there can be."""

import contextlib
import dataclasses
import socket
import sys
import threading
import time

from absl import logging
import numpy as np
import pytest

from benchmarks import stand_ins
from f3ast_tff import addresses
from f3ast_tff import config as config_lib
from f3ast_tff import crew as crew_lib
from f3ast_tff import engine
from f3ast_tff import server as server_lib
from f3ast_tff import training
from f3ast_tff.datasets import synthetic
from f3ast_tff.models import softmax

_STEP_SIZES = {
  name: config_lib.LearningRates(0.05, rate, 0.001)
  for name, rate in (('sgd', 1.0), ('adam', 0.1))
}
_TASK = engine.Task(synthetic.load(num_clients=8, seed=1), softmax.build())
_ROUNDS = range(1, 6)
# For machines that allow no network namespace.
_OPEN = stand_ins.HERE._replace(host='0.0.0.0')


def _config(algorithm='f3ast_adam'):
  return config_lib.Config(
    algorithm=algorithm,
    clients_per_round='5',
    num_candidates=6,
    parallel_clients=2,
    avail='always',
  ).resolve(_STEP_SIZES)


@pytest.fixture(scope='module')
def networks():
  with contextlib.ExitStack() as stack:
    try:
      yield stack.enter_context(stand_ins.namespaces(2))
    except OSError:
      yield [_OPEN] * 2


@pytest.fixture(scope='module')
def pair(networks):
  """Two workers that no test harms."""
  with stand_ins.worker(networks[0]) as one:
    with stand_ins.worker(networks[1]) as two:
      yield [one.address, two.address]


def _weights(server):
  return server.state.global_model_weights.trainable


@pytest.mark.parametrize('algorithm', ['f3ast_adam', 'power_of_choice'])
def test_a_crew_trains_as_one_worker_does(algorithm, pair, tff_worker):
  config = _config(algorithm)
  alone = server_lib.Server(engine.build(config, _TASK), tff_worker)
  with crew_lib.connect(pair, 30) as crew:
    built = engine.build(config, _TASK, 2)
    together = server_lib.Server(built, tff_worker, crew)
    start = _weights(together)
    for t in _ROUNDS:
      here, there = alone.play(t), together.play(t)
      np.testing.assert_array_equal(here.cohort.clients, there.cohort.clients)
      for name, value in here.metrics['selection'].items():
        np.testing.assert_allclose(
          value, there.metrics['selection'][name], rtol=1e-6
        )
      np.testing.assert_allclose(
        here.metrics['client_work']['train']['loss'],
        there.metrics['client_work']['train']['loss'],
        rtol=1e-5,
      )
  np.testing.assert_array_equal(alone.state.rates, together.state.rates)
  for one, other, first in zip(_weights(alone), _weights(together), start):
    assert np.abs(one - first).max() > 0.01  # It did train.
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_a_run_with_a_crew_leaves_the_files_of_a_run(pair, tmp_path):
  config = dataclasses.replace(_config('fedavg'), rounds=2)
  training.run(config, _TASK, tmp_path, workers=pair)
  assert (tmp_path / 'rounds.csv').read_text().count('\n') == 3
  assert (tmp_path / 'model.npz').exists()


class _Warnings:
  """What absl is told to warn of."""

  def __init__(self, monkeypatch):
    self.lines = []
    monkeypatch.setattr(
      logging, 'warning', lambda text, *args: self.lines.append(text % args)
    )


@pytest.mark.parametrize('is_killed', [True, False], ids=['killed', 'hangs'])
def test_the_clients_of_a_lost_worker_go_to_the_others(
  is_killed, pair, networks, tff_worker, monkeypatch
):
  built = engine.build(_config(), _TASK, 2)
  with crew_lib.connect(pair, 30) as crew:
    whole = server_lib.Server(built, tff_worker, crew)
    for t in _ROUNDS:
      whole.play(t)
  warnings = _Warnings(monkeypatch)
  with stand_ins.worker(networks[1]) as victim:
    # Who hangs is asked for half of that; the other one has to answer in it.
    deadline = 60 if is_killed else 4
    with crew_lib.connect([pair[0], victim.address], deadline) as crew:
      server = server_lib.Server(built, tff_worker, crew)
      for t in _ROUNDS:
        if t == 3:
          victim.freeze()  # So that it is sure to hold a share of the round.
          began = time.monotonic()
          if is_killed:
            threading.Timer(0.5, victim.kill).start()
        server.play(t)
        if t == 3:
          assert time.monotonic() - began > (0.5 if is_killed else 2)
  assert len(warnings.lines) == 1
  assert f'{victim.address} is lost' in warnings.lines[0]
  assert is_killed or 'no answer in 2 s' in warnings.lines[0]
  np.testing.assert_array_equal(whole.state.rates, server.state.rates)
  for one, other in zip(_weights(whole), _weights(server)):
    np.testing.assert_array_equal(one, other)


def test_a_run_ends_when_nobody_is_left_who_knows_it(tff_worker):
  with stand_ins.worker() as victim:
    with crew_lib.connect([victim.address], 4) as crew:
      server = server_lib.Server(
        engine.build(_config(), _TASK, 1), tff_worker, crew
      )
      server.play(1)
      state = server.state
      victim.kill()
      again = f'--port={victim.address.port}'
      with stand_ins.worker(stand_ins.HERE, None, again) as newcomer:
        assert newcomer.address == victim.address
        with pytest.raises(crew_lib.CrewLostError, match='workers are lost'):
          server.play(2)
  np.testing.assert_array_equal(state.rates, server.state.rates)


def test_who_does_not_answer_at_the_start_is_named(pair):
  with socket.create_server(('127.0.0.1', 0)) as mute:  # It never answers.
    address = addresses.Address(*mute.getsockname())
    with pytest.raises(crew_lib.UnreachableError, match=f'{address} cannot be'):
      with crew_lib.connect([address, pair[0]], 1):
        pass


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
