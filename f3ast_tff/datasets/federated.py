"""What a federated data set is here: examples by client, as arrays."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import hashlib
from typing import Optional

import numpy as np

from f3ast_tff import checks

Examples = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class FederatedDataset:
  """Training examples by client, and test examples with their owners.

  Attributes:
    name: What to call it in outputs.
    train: Per training client k, arrays x and y with a leading example axis.
    test: Arrays x and y of all test examples.
    test_owner: Which test client each test example belongs to, from 0. User
      averages are over these; they need not be the training clients.
    augment: Maps (examples, generator) to the examples of one local epoch, e.g.
      with random crops; None leaves them as they are.
    as_tested: Maps training examples to the form that test examples have, for
      the losses that Power-of-Choice queries; None leaves them as they are.
    is_sample: Whether this is a tiny stand-in instead of the real data.
  """

  name: str
  train: Sequence[Examples]
  test: Examples
  test_owner: np.ndarray
  augment: Optional[Callable[[Examples, np.random.Generator], Examples]] = None
  as_tested: Optional[Callable[[Examples], Examples]] = None
  is_sample: bool = False

  def __post_init__(self) -> None:
    for whose, examples in (
      ('the test examples', self.test),
      *((f'client {k}', examples) for k, examples in enumerate(self.train)),
    ):
      if not isinstance(examples, Mapping) or not {'x', 'y'} <= set(examples):
        raise ValueError(
          f"{self.name} must have its examples as arrays {{'x': x, 'y': y}}, "
          f'but for {whose} it has {checks.describe(examples)}.'
        )
    if np.shape(self.test_owner) != (len(self.test['y']),):
      raise ValueError(
        f'{self.name} must have an owner for each of its '
        f'{len(self.test["y"])} test examples, but test_owner is '
        f'{checks.describe(self.test_owner)}.'
      )
    for kind, number in (
      ('training', self.num_examples.sum()), ('test', len(self.test_owner))
    ):
      if number == 0:
        raise ValueError(f'{self.name} has no {kind} examples at all.')

  @property
  def num_examples(self) -> np.ndarray:
    """The number of training examples of each client."""
    return np.array([len(examples['y']) for examples in self.train])

  @property
  def p(self) -> np.ndarray:
    """Each client's share of the training examples."""
    return self.num_examples / self.num_examples.sum()

  @property
  def num_predictions(self) -> np.ndarray:
    """How many labels each client has; 0 is the padding of sequences."""
    return np.array([
      len(examples['y'])
      if examples['y'].ndim == 1
      else np.count_nonzero(examples['y'])
      for examples in self.train
    ])

  @property
  def label_shares(self) -> np.ndarray:
    """The share of each label among a client's, shape [N, number of labels].

    In sequences 0 is padding and does not count. A client without labels has
    zeros.
    """
    labels = [examples['y'] for examples in self.train]
    if any(y.dtype.kind not in 'iu' for y in labels):
      raise ValueError(f'The labels of {self.name} are not whole numbers.')
    size = 1 + max(int(y.max(initial=0)) for y in labels)
    counts = np.array([np.bincount(y.ravel(), minlength=size) for y in labels])
    if labels[0].ndim > 1:
      counts[:, 0] = 0
    return counts / np.maximum(1, counts.sum(axis=1, keepdims=True))


def finite_rows(examples: Examples) -> np.ndarray:
  """Returns of which examples no value is NaN or infinite."""
  found = np.ones(len(examples['y']), bool)
  for array in examples.values():
    if array.dtype.kind == 'f':
      found &= np.isfinite(array).reshape(len(array), -1).all(axis=1)
  return found


def not_finite(dataset: FederatedDataset, split: str) -> list[int]:
  """Returns the clients that have a value which is NaN or infinite.

  Args:
    dataset: The data set.
    split: `training` or `test`.

  Returns:
    The clients, ascending.
  """
  if split == 'test':
    is_bad = ~finite_rows(dataset.test)
    return np.unique(dataset.test_owner[is_bad]).tolist()
  return [
    k for k, some in enumerate(dataset.train) if not finite_rows(some).all()
  ]


# Where data with a fingerprint come from, as far as we have seen them.
_ORIGINS: Mapping[str, str] = {
  '715 clients, sha256 c51024f888898f1d': "TFF's own file",
  '500 clients, sha256 2a721174e6d3fd46': (
    "clients drawn by TFF's documented method, not TFF's own file; the data of "
    "this project's results"
  ),
}


def origin(digest: str) -> str:
  """Returns where data come from, '' if that is not known.

  The clients of CIFAR-100 in TFF's own file have not been seen here, so that of
  other clients it is only known that this project's results are not of them.

  Args:
    digest: The `fingerprint` of the data.

  Returns:
    A part of a sentence.
  """
  return _ORIGINS.get(digest, '')


def fingerprint(dataset: FederatedDataset) -> str:
  """Returns a digest of all that a data set holds.

  Args:
    dataset: The data set.

  Returns:
    The same text for the same examples of the same clients in the same order,
    and another one for others. 0.15 s for what CIFAR-100 holds.
  """
  digest = hashlib.sha256()
  everything: list[Examples] = [
    *dataset.train, dataset.test, {'owner': dataset.test_owner}
  ]
  for examples in everything:
    for name in sorted(examples):
      array = examples[name]
      # With its length, so that no two data sets look alike.
      head = f'{name} {array.dtype.str} {array.shape};'
      digest.update(head.encode())
      digest.update(array.tobytes())
    digest.update(b'.')
  return f'{len(dataset.train)} clients, sha256 {digest.hexdigest()[:16]}'
