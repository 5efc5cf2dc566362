"""Tests of `loop`: short runs in this process."""

import copy
import dataclasses
import itertools
import sys

import numpy as np
import pandas as pd
import pytest

from f3ast_tff import availability
from f3ast_tff import methods
from f3ast_tff.datasets import synthetic
from f3ast_tff.execution import rounds as rounds_lib
from f3ast_tff.runs import checkpoint
from f3ast_tff.runs import divergence
from f3ast_tff.runs import loop
from f3ast_tff.runs import run_directory
from tests import by_hand
from tests import slow

_RATE = 0.002


@pytest.fixture(name='run')
def _run(task, make_config, tmp_path):
  """Runs settings, given by keyword; returns the folder with the files."""

  def run(name='run', dataset=None, model=None, **changes):
    given = task._replace(
      dataset=dataset or task.dataset, model=model or task.model
    )
    settings = {
      'client_learning_rate': _RATE, 'server_learning_rate': 1.0, **changes
    }
    stop = settings.pop('stop_if_diverged', True)
    loop.run(make_config(**settings), given, tmp_path / name, stop)
    return tmp_path / name

  return run


def _rows(folder, table='rounds'):
  return pd.read_csv(folder / f'{table}.csv')


@pytest.mark.parametrize(
  'algorithm, avail',
  slow.but(
    ['fedavg', 'f3ast_adam', 'power_of_choice', 'mifa'],
    zip(methods.ALGORITHMS, itertools.cycle(availability.PAPER)),
  ),
)
def test_every_algorithm_trains_those_who_are_there(algorithm, avail, run):
  folder = run(
    algorithm=algorithm,
    avail=avail,
    local_epochs=2,
    rate_init='p',
    beta=1e-6,
    server_learning_rate=0.02 if 'adam' in algorithm else 1.0,
  )
  rounds, clients = _rows(folder), _rows(folder, 'clients')
  # Better than zero weights.
  if algorithm != 'fedawe':  # Its echoes multiply steps, and 4 rounds are few.
    assert _rows(folder, 'metrics')['loss'].iloc[-1] < np.log(10)
  model = availability.parse(avail, clients['p'].to_numpy(), 0)
  names = pd.read_csv(folder / 'rounds.csv', dtype=str)['clients'].fillna('')
  for t, row in enumerate(rounds.itertuples(), 1):
    chosen = [int(k) for k in names[t - 1].split()]
    assert model(t)[chosen].all() and row.available == model(t).sum()
    most = min(3, row.available)
    least = 1 if algorithm.endswith('with_replacement') else most
    assert min(least, most) <= len(chosen) == row.selected <= most
  np.testing.assert_array_equal(
    clients['times_available'], sum(model(t).astype(int) for t in range(1, 5))
  )
  present = rounds[rounds['selected'] > 0]
  if methods.ALGORITHMS[algorithm].method in ('fedau', 'ca_fed', 'afl'):
    assert (present['sum_of_weights'] > 0).all()
  elif algorithm == 'f3ast_safe':
    assert (present['sum_of_weights'] <= 1 + 1e-6).all()
    assert (present['sum_of_weights'] > 0).all()
  elif not algorithm.startswith('f3ast'):
    np.testing.assert_allclose(present['sum_of_weights'], 1.0, rtol=1e-6)
  else:  # With r(0) = p the weights p / r are 1 each at first: they sum to |S|.
    np.testing.assert_allclose(
      rounds['sum_of_weights'], rounds['selected'], rtol=1e-3
    )


@pytest.mark.parametrize(
  'settings',
  [
    # What each optimizer computes is in `rounds_test`. Algorithms have others.
    {'server_optimizer': 'momentum', 'avail': 'always', 'proximal': 0.1},
    {'server_optimizer': 'yogi', 'avail': 'always'},
    {'server_optimizer': 'adagrad', 'avail': 'always'},
    {'selection': 'uniform', 'avail': 'home_devices'},
    {'selection': 'fixed_policy', 'avail': 'home_devices'},
  ],
  ids=lambda settings: next(iter(settings.values())),
)
def test_other_server_optimizers_and_selections_train(settings, run):
  optimizer = settings.get('server_optimizer', 'sgd')
  rate = {'sgd': 1.0, 'momentum': 0.1}.get(optimizer, 0.02)
  folder = run(server_learning_rate=rate, **settings)
  assert _rows(folder, 'metrics')['loss'].iloc[-1] < np.log(10)


def test_power_of_choice_takes_the_highest_losses(run, task):
  # One round from zero weights, at which every loss is ln 10: then a second
  # one, whose cohort must be the clients with the highest losses of all.
  same = {'algorithm': 'power_of_choice', 'avail': 'always'}
  model = np.load(run('one', rounds=1, **same) / 'model.npz')
  weights = model['trainable_0'], model['trainable_1']
  losses = [by_hand.mean_loss(weights, e) for e in task.dataset.train]
  rounds = _rows(run('two', rounds=2, **same))
  selected = set(map(int, rounds['clients'].iloc[1].split()))
  assert selected == set(np.argsort(losses)[-3:])


def test_a_run_that_is_interrupted_continues_as_if_it_had_not_been(
  run, monkeypatch
):
  # Adam, whose state has to come back, too; there is a round to repeat.
  same = {'rounds': 5, 'checkpoint_every': 2, 'algorithm': 'f3ast_adam'}
  whole = run('whole', **same)
  run_round = rounds_lib.Rounds.run

  def interrupted(self, round_num):
    round_ = run_round(self, round_num)
    if round_num == 4:
      raise KeyboardInterrupt
    return round_

  with monkeypatch.context() as patched:
    patched.setattr(rounds_lib.Rounds, 'run', interrupted)
    with pytest.raises(KeyboardInterrupt):
      run('again', **same)
  again = run('again', **same)
  for name in ('rounds.csv', 'metrics.csv', 'clients.csv', 'model.npz'):
    assert (again / name).read_bytes() == (whole / name).read_bytes()


def test_a_round_that_cannot_be_computed_ends_a_run(run, monkeypatch):
  def fail(self, round_num):
    raise rounds_lib.RoundError(f'Round {round_num} cannot be computed.')

  monkeypatch.setattr(rounds_lib.Rounds, 'run', fail)
  with pytest.raises(rounds_lib.RoundError, match='Round 1'):
    run()


def _bad_clients():
  """Clients: good, empty, NaN, one that fails, one example, infinite."""
  dataset = synthetic.load(num_clients=6, seed=1)
  train = [dict(examples) for examples in dataset.train]
  train[1] = {name: array[:0] for name, array in train[1].items()}
  train[2]['x'] = np.full_like(train[2]['x'], np.nan)
  train[3]['y'] = np.full_like(train[3]['y'], 77)
  train[4] = {name: array[:1] for name, array in train[4].items()}
  train[5]['x'] = np.full_like(train[5]['x'], np.inf)
  return dataclasses.replace(dataset, train=train)


@pytest.fixture(name='model', params=[False, True], ids=['tensorflow', 'xla'])
def _model(request, task):
  # With XLA a label that there is not makes a loss of NaN, else an error.
  return dataclasses.replace(task.model, xla=request.param)


def test_bad_clients_are_named_and_excluded_and_the_others_count_as_ever(
  run, model, caplog
):
  dataset = _bad_clients()
  folder = run(
    dataset=dataset,
    model=model,
    avail='always',
    clients_per_round='6',
    rounds=1,
    batch_size=int(dataset.num_examples.max()),  # One step each.
  )
  (row,) = _rows(folder).to_dict('records')
  assert (row['selected'], row['left_out']) == (6, 4)
  # By hand: one step of clients 0 and 4, with weights p / r(1).
  p = dataset.num_examples / dataset.num_examples.sum()
  r = 0.999 * np.minimum(1, 6 * p) + 0.001
  expected = by_hand.zeros()
  for k in (0, 4):
    examples = dataset.train[k]
    rows = np.arange(len(examples['y']))
    update = by_hand.local_sgd(examples, [rows], _RATE).update
    expected = [w + p[k] / r[k] * v for w, v in zip(expected, update)]
  arrays = np.load(folder / 'model.npz')
  for place, weights in enumerate(expected):
    np.testing.assert_allclose(arrays[f'trainable_{place}'], weights, atol=1e-7)
  np.testing.assert_allclose(arrays['rates'], r, rtol=1e-12)
  assert row['sum_of_weights'] == pytest.approx((p / r)[[0, 4]].sum(), 1e-6)
  log = '\n'.join(caplog.messages)
  assert 'without examples: 1.' in log
  assert 'whose examples are not finite: 2, 5.' in log
  assert ('whose update is not finite: 3.' in log) == model.xla
  assert ('whose training fails: 3.' in log) == (not model.xla)


def test_power_of_choice_ranks_a_client_that_fails_below_all(run, model):
  folder = run(
    dataset=_bad_clients(),
    model=model,
    algorithm='power_of_choice',
    avail='always',
    clients_per_round='1',
    rounds=3,
  )
  assert not _rows(folder)['clients'].isin([2, 3, 5]).any()


def test_a_run_that_diverges_stops_with_its_last_good_state(run, tmp_path):
  same = {'client_learning_rate': 1e38, 'eval_every': 100, 'avail': 'always'}
  with pytest.raises(divergence.DivergenceError, match='it is 1e[+]38'):
    run(rounds=100, checkpoint_every=1, **same)
  num_rounds = len(_rows(tmp_path / 'run'))
  assert num_rounds <= 20
  checkpoints = tmp_path / 'run' / 'checkpoints'
  for round_num in checkpoint.rounds(checkpoints):
    with np.load(checkpoints / f'round_{round_num}.npz') as arrays:
      for name in arrays.files:
        assert np.isfinite(arrays[name]).all()
  # And the user may insist.
  folder = run('on', rounds=num_rounds + 3, stop_if_diverged=False, **same)
  assert len(_rows(folder)) == num_rounds + 3


def test_a_run_at_whose_clients_training_fails_stops(run, task, caplog):
  dataset = synthetic.load(num_clients=4, seed=1)
  train = [
    {**examples, 'y': np.full_like(examples['y'], 77)}
    for examples in dataset.train
  ]
  with pytest.raises(divergence.DivergenceError) as caught:
    run(
      dataset=dataclasses.replace(dataset, train=train),
      model=dataclasses.replace(task.model, xla=False),
      rounds=30,
      eval_every=30,
      avail='always',
    )
  message = str(caught.value)
  assert 'in round 10 (no client gave a finite update' in message
  assert any('whose training fails' in line for line in caplog.messages)
  assert 'look at their data' in message and 'lower --' not in message


def test_a_test_loss_that_is_not_finite_stops_a_run(run, task):
  test = {**task.dataset.test, 'x': task.dataset.test['x'].copy()}
  test['x'][np.flatnonzero(task.dataset.test_owner == 5)[0], 7] = np.nan
  with pytest.raises(divergence.DivergenceError) as caught:
    run(
      dataset=dataclasses.replace(task.dataset, test=test),
      rounds=10,
      eval_every=4,
      checkpoint_every=3,
    )
  message = str(caught.value)
  assert 'in round 4 (the test loss is nan)' in message
  assert 'the test examples of client 5 hold values that are not' in message
  assert 'lower --' not in message
  assert 'The last good state, after round 3, is in' in message


def test_rounds_that_are_added_give_the_files_of_a_run_that_had_them(run):
  # Round 4 is tested on other examples if it is the last.
  same = {
    'eval_every': 2,
    'checkpoint_every': 3,
    'eval_examples': 20,
    'algorithm': 'f3ast_adam',
    'server_learning_rate': 0.02,
  }
  expected = run('at once', rounds=7, **same)
  folder = run('in parts', rounds=4, **same)
  run('in parts', rounds=7, **same)
  for name in ('rounds.csv', 'metrics.csv', 'clients.csv', 'model.npz'):
    found, wanted = (f / name for f in (folder, expected))
    assert found.read_bytes() == wanted.read_bytes(), name


def test_other_data_are_refused(run, task):
  folder = run(rounds=2)
  before = (folder / 'rounds.csv').read_bytes()
  other = copy.deepcopy(task.dataset)
  other.train[3]['x'][0, 0] += 1
  with pytest.raises(run_directory.RunDirectoryError, match='the data set is'):
    run(rounds=2, dataset=other)
  assert (folder / 'rounds.csv').read_bytes() == before


def test_more_clients_per_round_than_there_are(run):
  folder = run(
    dataset=synthetic.load(num_clients=3, seed=1),
    clients_per_round='1000000',
    avail='always',
    rounds=2,
  )
  assert _rows(folder)['selected'].tolist() == [3, 3]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
