"""Tests of `releases`: where the metrics of rounds and tests go."""

import asyncio
import csv
import gc
import sys

import numpy as np
import pandas as pd
import pytest
from tensorboard.backend.event_processing import event_accumulator
import tensorflow_federated as tff

from f3ast_tff.execution import rounds as rounds_lib
from f3ast_tff.runs import loop
from f3ast_tff.runs import releases

_ROUND = {'available': 4, 'train_loss': 0.1, 'clients': '0 3'}
_TEST = {'accuracy': 0.5, 'loss': 2.0}


class _Own(tff.program.ReleaseManager):
  """What a user writes; fails from some round on."""

  def __init__(self, fails_from=None):
    self.released = []
    self._fails_from = fails_from

  async def release(self, value, key):
    if key == self._fails_from:
      raise ConnectionError('the server\nis gone.')
    await asyncio.sleep(0)  # It may wait.
    self.released.append((key, value))


def _scalars(folder):
  """Returns what TensorBoard shows: by tag, (step, value) of each point."""
  accumulator = event_accumulator.EventAccumulator(str(folder))
  accumulator.Reload()
  return {
    tag: [(event.step, event.value) for event in accumulator.Scalars(tag)]
    for tag in accumulator.Tags()['scalars']
  }


def _row_strings(path):
  with open(path, newline='') as file:
    return list(csv.DictReader(file))


def test_what_can_be_plotted_of_a_run_and_of_a_loop():
  assert releases.numbers({'round': _ROUND, 'test': _TEST}) == {
    'round/available': 4,
    'round/train_loss': 0.1,
    'test/accuracy': 0.5,
    'test/loss': 2.0,
  }
  # As `training.next` returns them.
  of_loop = {
    'selected': np.int32(2),
    'sum_of_weights': np.float32(0.5),
    'names': np.array([b'a', b'b']),
    'client_work': {'train': {'loss': np.float32(0.25)}},
  }
  assert releases.numbers(of_loop) == {
    'selected': 2, 'sum_of_weights': 0.5, 'client_work/train/loss': 0.25
  }


def test_rows_are_appended_to_the_files(tmp_path):
  with releases.to_files(tmp_path) as files:
    files.release({'round': _ROUND}, 1)
    files.release({'round': _ROUND, 'test': _TEST}, 2)
  assert (tmp_path / 'rounds.csv').read_bytes() == (
    b'round,available,train_loss,clients\n1,4,0.1,0 3\n2,4,0.1,0 3\n'
  )
  assert (tmp_path / 'metrics.csv').read_bytes() == (
    b'round,accuracy,loss,available,train_loss\n2,0.5,2.0,4,0.1\n'
  )


def test_a_run_releases_to_managers_of_ones_own_and_to_those_of_tff(
  task, make_config, tmp_path
):
  own = _Own()
  memory = tff.program.MemoryReleaseManager()
  managers = [
    own,
    memory,
    tff.program.LoggingReleaseManager(),
    tff.program.CSVFileReleaseManager(tmp_path / 'tff.csv', key_fieldname='t'),
    tff.program.TensorBoardReleaseManager(tmp_path / 'tff'),
  ]
  config = make_config(rounds=5, eval_every=2)
  folder = tmp_path / 'run'
  loop.run(config, task, folder, release_managers=managers)
  assert [key for key, _ in own.released] == [1, 2, 3, 4, 5]
  assert dict(own.released) == dict(memory.values())
  # They are given what is in the files, and nothing else.
  rounds = _row_strings(folder / 'rounds.csv')
  tests = {row['round']: row for row in _row_strings(folder / 'metrics.csv')}
  assert list(tests) == ['2', '4', '5']
  for (t, value), row in zip(own.released, rounds):
    of_round = {name: str(item) for name, item in value['round'].items()}
    assert {'round': str(t), **of_round} == row
    assert ('test' in value) == (str(t) in tests)
    if 'test' in value:
      of_test = {name: str(item) for name, item in value['test'].items()}
      del of_round['clients'], of_round['weights']
      assert {'round': str(t), **of_test, **of_round} == tests[str(t)]
  table = pd.read_csv(tmp_path / 'tff.csv')
  assert table['t'].tolist() == [1, 2, 3, 4, 5]
  assert table['test/accuracy'].notna().tolist() == [0, 1, 0, 1, 1]
  # TFF's events are written out when their manager is gone.
  del managers
  gc.collect()
  accumulator = event_accumulator.EventAccumulator(str(tmp_path / 'tff'))
  accumulator.Reload()
  tags = accumulator.Tags()['tensors']
  assert set(tags) == set(_scalars(folder / 'tensorboard'))


def test_tensorboard_has_every_round_and_every_test(
  task, make_config, tmp_path, monkeypatch
):
  # Interrupted in round 5, and continued after round 2: TensorBoard must show
  # rounds 3 and 4 once.
  config = make_config(rounds=6, eval_every=3, checkpoint_every=2)
  run_round = rounds_lib.Rounds.run

  def interrupted(self, round_num):
    if round_num == 5:
      raise KeyboardInterrupt
    return run_round(self, round_num)

  with monkeypatch.context() as patched:
    patched.setattr(rounds_lib.Rounds, 'run', interrupted)
    with pytest.raises(KeyboardInterrupt):
      loop.run(config, task, tmp_path)
  seen = _scalars(tmp_path / 'tensorboard')
  assert [step for step, _ in seen['round/train_loss']] == [1, 2, 3, 4]
  (tmp_path / 'checkpoints' / 'round_4.npz').unlink()
  loop.run(config, task, tmp_path)
  assert len(list((tmp_path / 'tensorboard').iterdir())) == 2
  scalars = _scalars(tmp_path / 'tensorboard')
  rounds = pd.read_csv(tmp_path / 'rounds.csv', index_col='round')
  metrics = pd.read_csv(tmp_path / 'metrics.csv', index_col='round')
  of_tests = ['accuracy', 'loss', 'user_accuracy', 'user_loss', 'test_examples']
  assert set(scalars) == {
    *(f'round/{name}' for name in rounds.columns.drop(['clients', 'weights'])),
    *(f'test/{name}' for name in of_tests),
  }
  assert {'train_loss', 'sum_of_weights', 'available', 'selected'} < set(rounds)
  for tag, points in scalars.items():
    kind, name = tag.split('/')
    column = (rounds if kind == 'round' else metrics)[name]
    steps, values = zip(*points)
    assert list(steps) == column.index.tolist()
    np.testing.assert_allclose(values, column, rtol=1e-6)


def test_a_manager_that_fails_is_left_out_and_the_run_goes_on(
  task, make_config, tmp_path, caplog
):
  failing, other = _Own(fails_from=2), _Own()
  config = make_config(rounds=4)
  loop.run(
    config, task, tmp_path / 'run', release_managers=[failing, other]
  )
  assert [key for key, _ in failing.released] == [1]
  assert [key for key, _ in other.released] == [1, 2, 3, 4]
  assert caplog.messages == [
    '_Own failed in round 2 (the server is gone); the run continues without it.'
  ]
  loop.run(config, task, tmp_path / 'alone')
  for name in ('rounds.csv', 'metrics.csv', 'clients.csv', 'model.npz'):
    expected = (tmp_path / 'alone' / name).read_bytes()
    assert (tmp_path / 'run' / name).read_bytes() == expected


def test_managers_that_collect_are_flushed_before_a_checkpoint(
  task, make_config, tmp_path
):
  saved = []

  class Collecting(_Own):

    def flush(self):
      saved.append((len(self.released), list(tmp_path.glob('checkpoints/*'))))

  config = make_config(rounds=3, checkpoint_every=2)
  loop.run(config, task, tmp_path, release_managers=[Collecting()])
  (first, none), (second, one) = saved
  assert (first, none, second) == (2, [], 3)
  assert [path.name for path in one] == ['round_2.npz']


def test_files_that_cannot_be_written_are_an_error(tmp_path):
  with releases.to_files(tmp_path) as files:
    (tmp_path / 'rounds.csv').mkdir()
    with pytest.raises(OSError):
      files.release({'round': _ROUND}, 1)


def test_all_rounds_have_one_event_loop_even_below_that_of_a_notebook(tmp_path):
  loops = []

  class Manager(tff.program.ReleaseManager):

    async def release(self, value, key):
      loops.append(asyncio.get_running_loop())

  def run(folder):
    with releases.to_files(folder, [Manager()]) as files:
      for t in (1, 2):
        files.release({'round': _ROUND}, t)

  async def notebook():
    run(tmp_path / 'b')
    return asyncio.get_running_loop()

  run(tmp_path / 'a')
  notebooks = asyncio.run(notebook())
  assert loops[0] is loops[1] is not loops[2]
  assert loops[2] is loops[3] is not notebooks
  assert all(each.is_closed() for each in loops)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
