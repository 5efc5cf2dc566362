"""Tests of `trackers`, and of each tracker where its package is installed."""

import asyncio
import contextlib
import importlib
import importlib.util
import json
import subprocess
import sys
import types

import pandas as pd
import pytest

from f3ast_tff.runs import loop
from f3ast_tff.runs import mlflow_tracker
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import trackers
from f3ast_tff.runs import wandb_tracker
from tests import linear

_SETTINGS = {'task': 'synthetic', 'beta': 0.001, 'selection': None}


@pytest.fixture(name='packages')
def _packages(monkeypatch):
  """Sets which packages are installed."""

  def install(*names):
    monkeypatch.setattr(
      importlib.util, 'find_spec', lambda name: name in names or None
    )

  return install


def test_names_are_taken_apart(packages):
  packages('mlflow', 'wandb')
  assert trackers.parse('') == []
  assert trackers.parse('wandb') == ['wandb']
  assert trackers.parse('wandb,mlflow,wandb') == ['wandb', 'mlflow']


@pytest.mark.parametrize('text', ['tensorboard', 'mlflow,', 'mlflow, wandb'])
def test_there_are_no_others(text, packages):
  packages('mlflow', 'wandb')
  with pytest.raises(trackers.TrackerError, match='must be mlflow or wandb'):
    trackers.parse(text)


@pytest.mark.parametrize('name', ['mlflow', 'wandb'])
def test_a_package_that_is_missing_is_one_sentence(name, packages):
  packages()
  with pytest.raises(trackers.TrackerError) as caught:
    trackers.parse(name)
  start = f'--tracker={name} needs the package {name}; pip install '
  assert str(caught.value).startswith(start)


def test_names_are_checked_without_tensorflow():
  program = (
    'import sys\n'
    'from f3ast_tff.runs import trackers\n'
    'trackers.parse("")\n'
    'assert "tensorflow" not in sys.modules\n'
  )
  subprocess.run([sys.executable, '-c', program], check=True, timeout=60)


class _Tracker:
  """In the place of a tracker's module and of its manager."""

  def __init__(self, fails_in=''):
    self.calls = []
    self._fails_in = fails_in

  def _call(self, *call):
    self.calls.append(call)
    if call[0] == self._fails_in:
      raise ConnectionError('no answer.')

  def start(self, folder, settings):
    self._call('start', folder, settings)
    return self

  def finish(self, succeeded):
    self._call('finish', succeeded)


@pytest.fixture(name='start')
def _start(monkeypatch, tmp_path):
  """Starts stand-ins."""

  def start(*modules):
    names = [f'x{i}' for i in range(len(modules))]
    for name, module in zip(names, modules):
      place = f'f3ast_tff.runs.{name}_tracker'
      monkeypatch.setitem(sys.modules, place, module)
    return trackers.started(names, tmp_path, _SETTINGS)

  return start


@pytest.mark.parametrize('error', [None, KeyboardInterrupt])
def test_each_is_started_and_told_how_the_run_ended(error, start, tmp_path):
  first, second = _Tracker(), _Tracker()
  with pytest.raises(error) if error else contextlib.nullcontext():
    with start(first, second) as managers:
      assert managers == [first, second]
      if error:
        raise error
  for tracker in (first, second):
    assert tracker.calls == [
      ('start', tmp_path, _SETTINGS), ('finish', error is None)
    ]


def test_one_that_cannot_be_started_is_an_error(start):
  first, second = _Tracker(), _Tracker(fails_in='start')
  with pytest.raises(trackers.TrackerError) as caught:
    with start(first, second):
      raise AssertionError('runs')
  assert str(caught.value) == (
    '--tracker=x1 cannot be started (no answer); mend that, or leave it out.'
  )
  assert first.calls[-1] == ('finish', False)


def test_one_that_fails_at_the_end_is_a_warning(start, caplog):
  first, second = _Tracker(fails_in='finish'), _Tracker()
  with start(first, second):
    pass
  assert second.calls[-1] == ('finish', True)
  assert caplog.messages == [
    '_Tracker failed at the end (no answer); the files of the run are complete.'
  ]


class _Client:
  """In the place of MLflow's client: takes note of batches."""

  def __init__(self):
    self.batches, self.ends, self.is_gone = [], [], False

  def log_batch(self, run_id, metrics):
    if self.is_gone:
      raise ConnectionError('no answer')
    self.batches.append((run_id, metrics))

  def set_terminated(self, run_id, status):
    self.ends.append((run_id, status))


@pytest.fixture(name='mlflow')
def _mlflow(monkeypatch):
  """A manager with a stand-in for MLflow, a client, and a clock."""
  entities = types.SimpleNamespace(Metric=lambda *fields: fields)
  package = types.SimpleNamespace(entities=entities)
  monkeypatch.setitem(sys.modules, 'mlflow', package)
  clock = types.SimpleNamespace(monotonic=lambda: clock.now, time=lambda: 5.0)
  clock.now = 0.0
  monkeypatch.setattr(mlflow_tracker, 'time', clock)
  client = _Client()
  return mlflow_tracker.MLflow(client, 'id'), client, clock


def _release(manager, t):
  value = {'round': {'k': 3, 'clients': '0 1'}, 'test': {'loss': 0.5}}
  asyncio.run(manager.release(value, t))


def test_mlflow_is_called_once_a_second_before_a_checkpoint_and_at_the_end(
  mlflow
):
  manager, client, clock = mlflow
  _release(manager, 1)
  assert not client.batches
  clock.now = 1.5
  _release(manager, 2)
  expected = [
    (name, number, 5000, t)
    for t in (1, 2)
    for name, number in (('round/k', 3), ('test/loss', 0.5))
  ]
  assert client.batches == [('id', expected)]
  _release(manager, 3)
  manager.flush()
  assert [step for *_, step in client.batches[1][1]] == [3, 3]
  for t in range(4, 604):
    _release(manager, t)
  manager.finish(True)
  # It takes 1,000 at a time.
  assert [len(metrics) for _, metrics in client.batches[2:]] == [1000, 200]
  assert client.ends == [('id', 'FINISHED')]


def test_an_mlflow_that_is_gone_is_not_called_again(mlflow):
  manager, client, clock = mlflow
  client.is_gone, clock.now = True, 2.0
  with pytest.raises(ConnectionError):
    _release(manager, 1)
  client.is_gone = False
  manager.finish(True)
  assert client.batches == client.ends == []


def test_wandb_is_not_given_a_step_before_its_last():
  logged = []
  run = types.SimpleNamespace(
    step=3, log=lambda numbers, step: logged.append((numbers, step))
  )
  manager = wandb_tracker.WeightsAndBiases(run)
  for t in (2, 3, 4):
    _release(manager, t)
  numbers = {'round/k': 3, 'test/loss': 0.5}
  assert logged == [(numbers, 3), (numbers, 4)]


def test_a_run_keeps_its_id(tmp_path):
  assert trackers.read_id(tmp_path, 'mlflow') is None
  trackers.write_id(tmp_path, 'mlflow', 'abc')
  assert trackers.read_id(tmp_path, 'mlflow') == 'abc'
  assert trackers.read_id(tmp_path, 'wandb') is None


def _table(path):
  return pd.read_csv(path, index_col='round', float_precision='round_trip')


def _tracked(name, task, config, folder):
  """Trains with a tracker, and again as if it had been interrupted."""
  folder.mkdir()
  for _ in range(2):
    with trackers.started([name], folder, _SETTINGS) as managers:
      loop.run(config, task, folder, release_managers=managers)
    run_directory.remove_final_files(folder)
    newest = folder / 'checkpoints' / f'round_{config.rounds}.npz'
    newest.unlink()


@pytest.mark.slow
def test_what_mlflow_holds(task, make_config, tmp_path, monkeypatch):
  mlflow = pytest.importorskip('mlflow')
  monkeypatch.setenv('MLFLOW_ALLOW_FILE_STORE', 'true')
  monkeypatch.setenv('MLFLOW_TRACKING_URI', f'file:{tmp_path / "store"}')
  folder = tmp_path / 'my run'
  config = make_config(rounds=4, checkpoint_every=2)
  _tracked('mlflow', task, config, folder)
  client = mlflow.MlflowClient()
  experiment = client.get_experiment_by_name('f3ast_tff')
  # Resumed, it is one run.
  (run,) = client.search_runs([experiment.experiment_id])
  assert run.info.run_id == (folder / 'mlflow_run_id').read_text().strip()
  assert (run.info.run_name, run.info.status) == ('my run', 'FINISHED')
  assert run.data.params == {
    name: str(value) for name, value in _SETTINGS.items()
  }
  rounds = _table(folder / 'rounds.csv')
  metrics = _table(folder / 'metrics.csv')
  assert len(run.data.metrics) == 8 + 5  # Of a round, and of a test.
  for name in run.data.metrics:
    kind, column = name.split('/')
    table = {'round': rounds, 'test': metrics}[kind]
    history = client.get_metric_history(run.info.run_id, name)
    points = {point.step: point.value for point in history}
    # Rounds that were run again are there twice.
    assert len(history) > len(points)
    assert points == dict(table[column].items())


@pytest.mark.slow
@pytest.mark.usefixtures('in_process')
def test_mlflow_in_a_loop_of_ones_own(tmp_path, monkeypatch):
  mlflow = pytest.importorskip('mlflow')
  monkeypatch.setenv('MLFLOW_ALLOW_FILE_STORE', 'true')
  monkeypatch.setenv('MLFLOW_TRACKING_URI', f'file:{tmp_path / "store"}')
  training = linear.build()
  state, expected = training.initialize(), {}
  with trackers.started(['mlflow'], tmp_path, _SETTINGS) as (manager,):
    for t in (1, 2, 3):
      state, metrics = training.next(state, t)
      asyncio.run(manager.release(metrics, t))
      expected[t] = metrics['selection']['sum_of_weights']
  run_id = (tmp_path / 'mlflow_run_id').read_text().strip()
  history = mlflow.MlflowClient().get_metric_history(
    run_id, 'selection/sum_of_weights'
  )
  assert {point.step: point.value for point in history} == expected


@pytest.mark.slow
def test_what_wandb_holds(task, make_config, tmp_path, monkeypatch):
  pytest.importorskip('wandb')
  datastore = importlib.import_module('wandb.sdk.internal.datastore')
  records = importlib.import_module('wandb.proto.wandb_internal_pb2')
  monkeypatch.setenv('WANDB_MODE', 'offline')
  monkeypatch.setenv('WANDB_ERROR_REPORTING', 'false')
  folder = tmp_path / 'my run'
  config = make_config(rounds=4, checkpoint_every=2)
  _tracked('wandb', task, config, folder)
  rounds = _table(folder / 'rounds.csv')
  # Offline each call is a file of its own, with the same id.
  first, second = sorted(folder.glob('wandb/offline-run-*/*.wandb'))
  assert first.name == second.name
  for path, expected in ((first, [1, 2, 3, 4]), (second, [3, 4])):
    store = datastore.DataStore()
    store.open_for_scan(str(path))
    rows = {}
    while (data := store.scan_data()) is not None:
      record = records.Record.FromString(data)
      if record.HasField('run'):
        assert record.run.display_name == 'my run'
        config_ = {u.key: u.value_json for u in record.run.config.update}
        if path == first:
          assert json.loads(config_['beta']) == 0.001
      if record.HasField('history'):
        items = {
          item.key or '/'.join(item.nested_key): json.loads(item.value_json)
          for item in record.history.item
        }
        rows[items['_step']] = items
    assert list(rows) == expected
    for t, items in rows.items():
      assert items['round/train_loss'] == rounds['train_loss'][t]
      assert ('test/accuracy' in items) == (t % 2 == 0)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
