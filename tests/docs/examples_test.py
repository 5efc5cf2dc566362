"""Runs the programs in examples/."""

import pathlib
import runpy
import sys

import numpy as np
import pytest
import tensorflow_federated as tff

import f3ast_tff
from f3ast_tff.datasets import synthetic
from f3ast_tff.models import softmax

_EXAMPLES = pathlib.Path(__file__).parents[2] / 'examples'


def _names(name):
  return runpy.run_path(str(_EXAMPLES / f'{name}.py'), run_name=name)


def test_algorithm_1_on_one_page_is_what_the_library_does(in_process):
  names = _names('f3ast')
  dataset = synthetic.load(seed=0)
  w, r, accuracies = names['train'](dataset, 15)
  training = f3ast_tff.build_training(
    softmax.build(),
    f3ast_tff.ClientArrays(dataset.train, 20),
    f3ast_tff.build_selector(dataset.p, 'home_devices', 10, seed=0),
    client_optimizer=tff.learning.optimizers.build_sgdm(0.01),
  )
  state = training.initialize()
  for t in range(1, 16):
    state = training.next(state, t).state
  np.testing.assert_array_equal(state.rates, r)
  kernel, bias = state.global_model_weights.trainable
  np.testing.assert_allclose(kernel, w['kernel'], atol=1e-5)
  np.testing.assert_allclose(bias, w['bias'], atol=1e-5)
  assert accuracies[-1] > 0.6 > 0.2 > accuracies[0]


def test_the_page_runs_and_draws(tmp_path, monkeypatch, capsys):
  picture = tmp_path / 'f3ast.png'
  argv = ['f3ast.py', '--rounds=3', f'--picture={picture}']
  monkeypatch.setattr(sys, 'argv', argv)
  runpy.run_path(str(_EXAMPLES / 'f3ast.py'), run_name='__main__')
  assert 'Test accuracy' in capsys.readouterr().out
  assert picture.read_bytes()[:4] == b'\x89PNG'
  lines = (_EXAMPLES / 'f3ast.py').read_text().splitlines()
  assert len(lines) <= 115 and max(map(len, lines)) <= 80


def test_a_model_of_ones_own_learns(in_process):
  # It printed 0.985 for F3AST and 0.592 for FedAvg after 150 rounds.
  assert _names('own_model')['train']('f3ast', 100) > 0.75


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))
