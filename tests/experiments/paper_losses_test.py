"""Tests of `experiments.paper_losses`."""

import json
import sys

import numpy as np
import pytest

from experiments import paper_losses
from f3ast_tff.datasets import shakespeare
from f3ast_tff.models import character_lstm
from f3ast_tff.models import resnet
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
  over, found = paper_losses.losses(_run_folder(tmp_path / 'run', weights))
  assert over == 'a position'
  dataset = shakespeare.load('sample', seed=3)
  y, owner = dataset.test['y'], dataset.test_owner
  costs = np.where(y == 0, 0, np.log(89 + np.e) - (y == 1))
  assert (y == 0).any() and (y == 1).any()
  assert found.sample == pytest.approx(costs.mean(), rel=1e-5)
  by_user = [costs[owner == k].mean() for k in np.unique(owner)]
  assert found.user == pytest.approx(np.mean(by_user), rel=1e-5)
  assert abs(found.user - found.sample) > 1e-4


def test_the_penalty_counts_on_cifar(tmp_path):
  initial = resnet.build(variant='compact').functional.initial_weights[0]
  # 1e-4 times the squares: all ones in kernels, 2 in the biases of 100 classes.
  weights = [np.ones_like(w) for w in initial]
  weights[-1] += 1
  folder = _run_folder(tmp_path / 'run', weights, 'cifar100')
  (folder / 'metrics.csv').write_text(
    'round,loss,user_loss\n20,9,9\n40,3.5,3.25\n'
  )
  over, found = paper_losses.losses(folder)
  assert over == 'with the L2 penalty'
  kernels = sum(w.size for w in initial if w.ndim > 1)
  assert found.sample == pytest.approx(3.5 + 1e-4 * (kernels + 4 * 100))
  assert found.user == pytest.approx(found.sample - 0.25)


def test_bad_input_is_one_sentence(tmp_path):
  other = _run_folder(tmp_path / 'other', [], task='synthetic')
  unfinished = _run_folder(tmp_path / 'unfinished', [])
  lacking = _run_folder(tmp_path / 'lacking', [np.zeros((90, 8), np.float32)])
  cut_off = _run_folder(tmp_path / 'cut_off', [np.zeros((90, 8), np.float32)])
  model = (cut_off / 'model.npz').read_bytes()
  (cut_off / 'model.npz').write_bytes(model[: len(model) // 2])
  for arguments, message in (
    ([], 'name the folders'),
    ([str(other)], 'is not a run on Shakespeare or CIFAR-100'),
    ([str(unfinished)], 'has no model.npz'),
    ([str(lacking)], 'model.npz cannot be read'),
    ([str(cut_off)], 'model.npz cannot be read'),
    ([str(tmp_path / 'none')], 'config.json'),
  ):
    assert message in programs.one_error(
      tmp_path, 'experiments.paper_losses', *arguments
    )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
