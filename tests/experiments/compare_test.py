"""Tests of `experiments.compare`."""

import json
import sys

import pandas as pd
import pytest

from tests import programs


def _run_folder(folder, algorithm, task='synthetic'):
  folder.mkdir()
  settings = {'task': task, 'algorithm': algorithm, 'seed': 0}
  (folder / 'config.json').write_text(json.dumps({'settings': settings}))
  columns = dict.fromkeys(
    ('accuracy', 'loss', 'user_accuracy', 'user_loss', 'sum_of_weights'), [0.5]
  )
  for name in ('metrics.csv', 'rounds.csv'):
    pd.DataFrame({'round': [1], **columns}).to_csv(folder / name, index=False)
  return str(folder)


def test_table_and_picture(tmp_path):
  runs = [_run_folder(tmp_path / name, name) for name in ('fedavg', 'f3ast')]
  printed = programs.succeed(
    tmp_path, 'experiments.compare', *runs, '--output=picture.png'
  )
  assert '| FedAvg | 0.500' in printed
  assert 'F3AST - FedAvg, test accuracy by seed: +0.000' in printed
  assert f'The picture is {tmp_path / "picture"}.png' in printed
  for ending in ('png', 'svg'):
    assert (tmp_path / f'picture.{ending}').exists()


def test_help_names_its_flags_and_where_it_writes(tmp_path):
  printed = programs.succeed(tmp_path, 'experiments.compare', '--help')
  assert 'Usage: python -m experiments.compare FOLDER ...' in printed
  for flag in ('--output: ', '--title: '):
    assert printed.count(flag) == 1
  assert '.png and .svg' in printed and '--avail' not in printed


def test_bad_input_is_one_sentence(tmp_path):
  a = _run_folder(tmp_path / 'a', 'fedavg')
  b = _run_folder(tmp_path / 'b', 'fedavg', task='cifar100')
  (tmp_path / 'full.png').mkdir()
  for arguments, message in (
    ((), 'name the folders'),
    ((a, b), 'different tasks (cifar100, synthetic)'),
    ((str(tmp_path / 'none'),), 'config.json'),
    ((a, '--output=no/such/picture'), 'There is no folder'),
    ((a, '--output=full'), 'cannot write the picture'),
    ((a, a), 'are the same run twice'),
  ):
    assert message in programs.one_error(
      tmp_path, 'experiments.compare', *arguments
    )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
