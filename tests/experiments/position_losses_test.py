"""Tests of `experiments.position_losses`."""

import json
import sys

import numpy as np
import pytest

from experiments import position_losses
from f3ast_tff.datasets import shakespeare
from f3ast_tff.models import character_lstm
from tests import programs


def _run_folder(folder, weights, task='shakespeare'):
  folder.mkdir()
  settings = {
    'task': task, 'model': 'compact', 'data_source': 'sample', 'seed': 3
  }
  (folder / 'config.json').write_text(json.dumps({'settings': settings}))
  if weights:
    arrays = {f'trainable_{i}': w for i, w in enumerate(weights)}
    np.savez(folder / 'model.npz', rates=np.ones(2), **arrays)
  return folder


def test_padding_counts_as_a_loss_of_0(tmp_path):
  # All logits are 0 but the bias: each character costs log(89 + e) - 1 if it
  # is token 1, else log(89 + e).
  model = character_lstm.build(variant='compact')
  weights = [np.zeros_like(w) for w in model.functional.initial_weights[0]]
  weights[-1][1] = 1.0
  found = position_losses.losses(_run_folder(tmp_path / 'run', weights))
  dataset = shakespeare.load('sample', seed=3)
  y, owner = dataset.test['y'], dataset.test_owner
  costs = np.where(y == 0, 0, np.log(89 + np.e) - (y == 1))
  assert (y == 0).any() and (y == 1).any()
  assert found.sample == pytest.approx(costs.mean(), rel=1e-5)
  by_user = [costs[owner == k].mean() for k in np.unique(owner)]
  assert found.user == pytest.approx(np.mean(by_user), rel=1e-5)
  assert abs(found.user - found.sample) > 1e-4


def test_bad_input_is_one_sentence(tmp_path):
  other = _run_folder(tmp_path / 'other', [], task='synthetic')
  unfinished = _run_folder(tmp_path / 'unfinished', [])
  lacking = _run_folder(tmp_path / 'lacking', [np.zeros((90, 8), np.float32)])
  cut_off = _run_folder(tmp_path / 'cut_off', [np.zeros((90, 8), np.float32)])
  model = (cut_off / 'model.npz').read_bytes()
  (cut_off / 'model.npz').write_bytes(model[: len(model) // 2])
  for arguments, message in (
    ([], 'name the folders'),
    ([str(other)], 'is not a run on Shakespeare'),
    ([str(unfinished)], 'has no model.npz'),
    ([str(lacking)], 'model.npz cannot be read'),
    ([str(cut_off)], 'model.npz cannot be read'),
    ([str(tmp_path / 'none')], 'config.json'),
  ):
    assert message in programs.one_error(
      tmp_path, 'experiments.position_losses', *arguments
    )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
