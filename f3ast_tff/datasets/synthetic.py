"""Synthetic(a, b), heterogeneous data for softmax regression.

It is that of Li et al., "Federated Optimization in Heterogeneous Networks"
(2020), which the paper's experiments on Synthetic(1, 1) use. Client k has its
own softmax model and its own inputs:

  u_k ~ N(0, a)   W_k, b_k ~ N(u_k, 1)   y = argmax(W_k x + b_k)
  B_k ~ N(0, b)   v_k ~ N(B_k, 1)        x ~ N(v_k, diag(j^-1.2))

with 60 features, 10 classes and n_k = int(lognormal(4, 2)) + 50 examples. As in
the generator of Li et al., a and b are standard deviations. And as there, a has
no effect: u_k moves the logits of all classes alike, and their argmax stays.
"""

import numpy as np

from f3ast_tff import randomness
from f3ast_tff.datasets import federated

NUM_FEATURES = 60
NUM_CLASSES = 10
_TRAIN_SHARE = 0.9


def load(
  alpha: float = 1.0,
  beta: float = 1.0,
  num_clients: int = 100,
  seed: int = 0,
) -> federated.FederatedDataset:
  """Generates Synthetic(alpha, beta).

  Args:
    alpha: Meant to say how much the clients' models differ; changes nothing.
    beta: How much the clients' inputs differ.
    num_clients: N.
    seed: Decides everything.

  Returns:
    The data set; every client holds 90 % of its examples for training, and the
    rest are its test examples.
  """
  if num_clients < 1:
    raise ValueError(
      f'The number of clients must be at least 1, but it is {num_clients}.'
    )
  for name, value in (('alpha', alpha), ('beta', beta)):
    if not (np.isfinite(value) and value >= 0):
      raise ValueError(f'{name} must be a number >= 0, but it is {value}.')
  scale = np.arange(1, NUM_FEATURES + 1) ** (-1.2 / 2)
  train, test = [], []
  for k in range(num_clients):
    rng = randomness.generator(seed, 'synthetic data', client=k)
    num_examples = int(rng.lognormal(4.0, 2.0)) + 50
    center = rng.normal(0.0, alpha)
    weights = rng.normal(center, 1.0, (NUM_FEATURES, NUM_CLASSES))
    bias = rng.normal(center, 1.0, NUM_CLASSES)
    mean = rng.normal(rng.normal(0.0, beta), 1.0, NUM_FEATURES)
    x = mean + scale * rng.standard_normal((num_examples, NUM_FEATURES))
    y = np.argmax(x @ weights + bias, axis=1)
    x, y = x.astype(np.float32), y.astype(np.int32)
    num_train = int(_TRAIN_SHARE * num_examples)
    train.append({'x': x[:num_train], 'y': y[:num_train]})
    test.append({'x': x[num_train:], 'y': y[num_train:]})
  return federated.FederatedDataset(
    name=f'Synthetic({alpha:g},{beta:g})',
    train=train,
    test={
      name: np.concatenate([examples[name] for examples in test])
      for name in ('x', 'y')
    },
    test_owner=np.repeat(
      np.arange(num_clients), [len(examples['y']) for examples in test]
    ),
  )
