"""Tests of runs on a recorded trace, in this process."""

import contextlib
import dataclasses
import io
import json
import sys

import numpy as np
import pandas as pd
import pytest

from f3ast_tff import availability
from f3ast_tff import methods
from f3ast_tff import traces
from f3ast_tff.execution import rounds as rounds_lib
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import loop
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import selector as selector_lib
from f3ast_tff.runs import summary
from f3ast_tff.runs import trace_file

_DAY = 86_400


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  """A folder for what the tests write."""
  return tmp_path_factory.mktemp('runs')


@pytest.fixture(scope='module')
def path(folder):
  """Eight phones: phone k is available in the k-th hours, phone 7 never."""
  path = folder / 'some' / 'trace.json'
  path.parent.mkdir()
  path.write_text(
    json.dumps({
      f'phone, {k}': {
        'trace_start': 0,
        'trace_end': 2 * _DAY,
        'charging': [[0, _DAY]],
        'ready': [[3600 * k, 3600 * k + 7200]] if k < 7 else [],
      }
      for k in range(8)
    })
  )
  return path


@pytest.fixture(scope='module')
def run(task, make_config, folder, path):
  """Runs a few rounds; returns the folder with the files."""
  config = make_config(
    avail=f'trace:{path}',
    rounds=8,
    round_seconds=3600,
    checkpoint_every=3,
    client_learning_rate=0.002,
    server_learning_rate=1.0,
  )

  def run(name):
    (folder / name).mkdir(exist_ok=True)
    with contextlib.redirect_stdout(io.StringIO()) as said:
      loop.run(config, task, folder / name)
    (folder / name / 'said').write_text(said.getvalue())
    return folder / name

  return run


@pytest.fixture(scope='module')
def whole(run):
  """The folder of a run that is left alone."""
  return run('whole')


def test_a_run_writes_down_who_has_which_phone(whole, task, make_config, path):
  folder = whole
  phones = pd.read_csv(folder / 'phones.csv')
  assert phones['client'].tolist() == list(range(8))
  numbers = phones['phone'].str.removeprefix('phone, ').astype(int)
  assert sorted(numbers) == list(range(8))
  # Two of the 48 hours of its two days, or none.
  expected = np.where(numbers < 7, 2 / 48, 0)
  np.testing.assert_allclose(phones['share_of_rounds'], expected)
  # Round t starts t - 1 hours after midnight: phones t - 2 and t - 1 are there.
  rounds = pd.read_csv(folder / 'rounds.csv')
  assert rounds['available'].tolist() == [1, 2, 2, 2, 2, 2, 2, 1]
  for t, clients in zip(rounds['round'], rounds['clients'].astype(str)):
    there = {numbers[int(k)] for k in clients.split()}
    assert there == {t - 2, t - 1} & set(range(7))
  # Seven of the eight clients were there, and no other ever will be.
  p = task.dataset.num_examples / task.dataset.num_examples.sum()
  reachable = 1 - p[np.argmax(numbers)]
  lines = (folder / 'said').read_text().splitlines()
  assert max(map(len, lines)) <= 80
  said = ' '.join(lines)
  assert 'The trace has 8 phones for 8 clients.' in said
  share = f'have {reachable:.4f} of the objective (the reachable share of p)'
  assert share in said
  config = make_config(avail=f'trace:{path}', rounds=8)
  settings = {'settings': {'task': 'x', **dataclasses.asdict(config)}}
  (folder / 'config.json').write_text(json.dumps(settings))
  text = summary.text(folder, 'data', 1.0)
  assert (
    f'the reachable share of p is {reachable:.4f}; clients that were available '
    f'in this run have {reachable:.4f}'
  ) in text
  assert 'f3ast on data, trace:trace.json, seed 0' in text


def test_a_run_on_a_trace_resumes_exactly_and_only_on_that_trace(
  run, whole, monkeypatch, path
):
  run_round = rounds_lib.Rounds.run

  def interrupted(self, round_num):
    if round_num == 6:
      raise KeyboardInterrupt
    return run_round(self, round_num)

  with monkeypatch.context() as patched:
    patched.setattr(rounds_lib.Rounds, 'run', interrupted)
    with pytest.raises(KeyboardInterrupt):
      run('again')
  names = 'rounds.csv', 'metrics.csv', 'clients.csv', 'model.npz', 'phones.csv'
  text = path.read_text()
  path.write_text(text + ' ')
  with pytest.raises(run_directory.RunDirectoryError, match='the trace is'):
    run('again')
  path.write_text(text)
  again = run('again')
  for name in names:
    assert (again / name).read_bytes() == (whole / name).read_bytes()


def test_who_never_stays_to_the_end_cannot_deliver(
  make_config, path, tmp_path, capsys
):
  # Rounds start at 0, 3, 6 ... o'clock: phones 0, 2, 3, 5 and 6 are there, but
  # nobody for all of three hours.
  sizes = np.full(8, 10)
  for delivery, share, when in (
    ('0.9', '0.6250', 'when a round starts'),
    ('trace', '0.0000', 'for all of a round'),
  ):
    config = make_config(
      avail=f'trace:{path}', delivery=delivery, round_seconds=10_800
    )
    trace_file.begin(tmp_path, selector_lib.build(config, sizes, sizes))
    said = ' '.join(capsys.readouterr().out.split())
    assert f'ever available {when} have {share} of the objective' in said


def test_settings_reach_the_model(make_config, path):
  sizes = np.array([10, 20, 30, 40, 50, 60, 70, 80])

  def model(**settings):
    config = make_config(avail=f'trace:{path}', **settings)
    return selector_lib.build(config, sizes, sizes).availability

  default = model()
  assert (default.round_seconds, default.trace_start) == (600, 0)
  same = traces.load(path, sizes / sizes.sum())
  by_text = availability.parse(f'trace:{path}', sizes / sizes.sum())
  for t in range(1, 200):
    np.testing.assert_array_equal(default(t), same(t))
    np.testing.assert_array_equal(default(t), by_text(t))
  clocked = model(round_seconds=7200, trace_start=5)
  assert (clocked.round_seconds, clocked.trace_start) == (7200, 5)
  assert model(trace_state='charging')(1).all()
  other = model(seed=1).assignment.phones
  assert (other != default.assignment.phones).any()
  # The client with the least data has the phone that is never there.
  least = model(trace_assignment='most_data_most_available')
  assert least.trace.names[least.assignment.phones[0]] == 'phone, 7'
  most = model(trace_assignment='most_data_least_available')
  assert most.trace.names[most.assignment.phones[7]] == 'phone, 7'
  assert most.reachable_share(sizes / sizes.sum()) == pytest.approx(280 / 360)


@pytest.mark.parametrize(
  'settings, message',
  [
    ({'avail': 'trace'}, "'trace', but it must read like trace:FILE"),
    ({'avail': 'trace:'}, "'trace:', but it must read like trace:FILE"),
    ({'round_seconds': 0}, 'round_seconds must be at least 1'),
    ({'trace_start': -1}, 'trace_start must be at least 0'),
    ({'trace_state': 'wifi+'}, 'trace_state must read like ready'),
    ({'trace_assignment': 'best'}, 'trace_assignment must be one of random'),
  ],
)
def test_wrong_settings(settings, message):
  with pytest.raises(ValueError, match=message):
    config_lib.Config(**settings)


def test_names_of_files_may_have_commas_and_need_not_exist_yet(tmp_path):
  assert availability.read('trace:a,b:c') == ('trace', ['a,b:c'])
  config = config_lib.Config(avail=f'trace:{tmp_path}/a,b')
  with pytest.raises(traces.TraceError, match='a,b is not a file'):
    trace_file.of(config)
  assert trace_file.of(config_lib.Config()) is None
  names = [
    config_lib.availability_name({'avail': text})
    for text in ('scarce:0.3', 'trace:/a/b/c,d.json', 'trace:x')
  ]
  assert names == ['scarce:0.3', 'trace:c,d.json', 'trace:x']


def test_the_best_rates_of_a_trace_are_not_known(path):
  with pytest.raises(ValueError, match='one certain set of clients; choose'):
    methods.build_selector(
      np.full(8, 1 / 8), f'trace:{path}', 3, policy='fixed_policy'
    )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
