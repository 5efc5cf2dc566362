"""What clients train on: arrays in memory, or `tf.data` datasets.

`read_clients` makes either from a TFF `ClientData`; `ClientArrays` is for data
that are arrays already. Training is much faster on arrays (docs/performance.md
has how much).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
import dataclasses
import functools
import itertools
from typing import Any, NamedTuple, Optional

import numpy as np
import psutil
import tensorflow as tf
import tensorflow_federated as tff
import tqdm

from f3ast_tff import checks
from f3ast_tff import selection
from f3ast_tff.learning import client_work
from f3ast_tff.learning import examples as examples_lib
from f3ast_tff.learning import model_conversion


class UnfitError(ValueError):
  """The clients' datasets cannot be turned into arrays."""


@dataclasses.dataclass(frozen=True, eq=False)
class ClientArrays:
  """Clients whose training examples are arrays.

  Attributes:
    train: The examples x and y of each client k, along the first axis.
    batch_size: The size of a local batch.
    epochs: The passes over the local data in a round.
    steps: The local steps of every client, each on a full batch; 0 if `epochs`
      decide.
    is_shuffled: Whether each epoch has another order; else it is as given.
    augment: Maps (examples, generator) to those of one epoch; None leaves them
      as they are.
    as_tested: Maps training examples to the form that test examples have, for
      the losses that Power-of-Choice queries; None leaves them as they are.
  """

  train: Sequence[examples_lib.Examples]
  batch_size: int
  epochs: int = 1
  steps: int = 0
  is_shuffled: bool = True
  augment: Optional[Callable[[Any, np.random.Generator], Any]] = None
  as_tested: Optional[Callable[[Any], Any]] = None

  def __post_init__(self) -> None:
    for name, least in (('batch_size', 1), ('epochs', 1), ('steps', 0)):
      value = getattr(self, name)
      if not checks.is_whole(value, least):
        raise ValueError(
          f'{name} must be a whole number >= {least}, but it is '
          f'{checks.describe(value)}.'
        )
    if not isinstance(self.train, Sequence) or not len(self.train):
      raise ValueError(
        'train must hold the examples of each of N >= 1 clients, but it is '
        f'{checks.describe(self.train)}.'
      )
    examples_lib.check(self.train)
    if not {'x', 'y'} <= set(self.train[0]):
      raise ValueError(
        'The examples of a client must have the fields x and y, but they have '
        f'{", ".join(self.train[0])}.'
      )

  @property
  def num_clients(self) -> int:
    """N."""
    return len(self.train)

  @functools.cached_property
  def num_examples(self) -> np.ndarray:
    """The number of examples of each client."""
    return np.array([len(examples['y']) for examples in self.train])

  @property
  def p(self) -> np.ndarray:
    """Each client's share of the examples."""
    return _shares(self.num_examples)


def _shares(num_examples: np.ndarray) -> np.ndarray:
  total = num_examples.sum()
  if not total:
    raise ValueError(
      f'None of the {num_examples.size} clients has examples, so that none '
      'has a share p of them; look at their data.'
    )
  return num_examples / total


class DatasetPart(NamedTuple):
  """A client that trains on its dataset.

  Attributes:
    client: Its index k.
    weight: The weight of its update.
    is_failed: Whether its training fails; it is then without examples.
  """

  client: int
  weight: float
  is_failed: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class ClientDatasets:
  """Clients whose training examples are `tf.data` datasets of batches.

  A dataset is made once and kept, because TensorFlow never frees the functions
  in one (`map`), about 70 KiB each time. Kept, it takes about 150 KiB, and what
  it holds itself. So none is kept any more once less than half of the memory
  is free that was free at first; further ones are made in each round.

  Attributes:
    client_data: The clients; client k is the k-th of its `client_ids`, from 0.
    arrays: The same as arrays; None if they cannot be had.
    why_not: Why there are no arrays, as the rest of a sentence.
  """

  client_data: tff.simulation.datasets.ClientData
  arrays: Optional[ClientArrays] = None
  why_not: str = ''

  # By client; and how many bytes of memory must be free to keep another one.
  _kept: dict[int, tf.data.Dataset] = dataclasses.field(
    default_factory=dict, init=False, repr=False
  )
  _min_free: int = dataclasses.field(
    default_factory=lambda: _free_bytes() // 2, init=False, repr=False
  )

  @functools.cached_property
  def num_examples(self) -> np.ndarray:
    """The number of examples of each client."""
    if self.arrays is not None:
      return self.arrays.num_examples
    return np.array([
      sum(len(tf.nest.flatten(batch)[0]) for batch in self._dataset(k))
      for k in _with_progress(range(self.num_clients), 'Counting examples')
    ])

  @functools.cached_property
  def num_clients(self) -> int:
    """N."""
    return len(self.client_data.client_ids)

  @property
  def p(self) -> np.ndarray:
    """Each client's share of the examples."""
    return _shares(self.num_examples)

  @functools.cached_property
  def _ids(self) -> list[str]:
    return list(self.client_data.client_ids)  # Some make the list each time.

  def _dataset(self, client: int) -> tf.data.Dataset:
    found = self._kept.get(client)
    if found is None:
      make = self.client_data.create_tf_dataset_for_client
      found = make(self._ids[client])
      if _free_bytes() > self._min_free:
        self._kept[client] = found
    return found

  def parts(
    self,
    cohort: selection.Cohort,
    round_num: int,
    failed: Collection[int] = (),
    vectors: Any = (),
  ) -> list[DatasetPart]:
    """Returns who trains in a round, for `fill`."""
    del round_num, vectors  # On datasets there are none.
    return [DatasetPart(k, w, k in failed) for k, w in zip(*cohort)]

  def fill(self, part: DatasetPart) -> client_work.ClientInput:
    """Returns what a client trains on."""
    dataset = self._dataset(part.client)
    return client_work.ClientInput(
      dataset.take(0) if part.is_failed else dataset,
      np.int32(part.client),
      np.float32(part.weight),
    )


def _free_bytes() -> int:
  return psutil.virtual_memory().available


def _with_progress(clients: Collection[Any], what: str) -> Iterable[Any]:
  """Returns clients with a bar on a terminal, if they take over a second."""
  return tqdm.tqdm(clients, what, unit='client', disable=None, delay=1)


def _check_client_data(client_data: Any) -> None:
  """Raises a `ValueError` unless it is a `ClientData` of batches."""
  if not hasattr(client_data, 'create_tf_dataset_for_client'):
    raise ValueError(
      'read_clients takes a tff.simulation.datasets.ClientData (ClientArrays '
      f'are for arrays), but it was given {checks.describe(client_data)}.'
    )
  specs = tf.nest.flatten(client_data.element_type_structure)
  shapes = [spec.shape for spec in specs]
  if any(shape.rank is None for shape in shapes):
    return  # It cannot be known.
  # The first axis of a batch is the same for all: None, or its size.
  if any(not shape.rank for shape in shapes) or len(
    {shape[0] for shape in shapes}
  ) > 1:
    raise ValueError(
      'The datasets of the clients must be of batches, but an element has '
      f'the shapes {", ".join(map(str, shapes))}; give read_clients '
      'client_data.preprocess(lambda examples: examples.batch(20)).'
    )


def _pair(batch: Any) -> tuple[np.ndarray, np.ndarray]:
  """Returns x and y of a batch."""
  if isinstance(batch, Mapping) and set(batch) == {'x', 'y'}:
    batch = batch['x'], batch['y']
  parts = list(batch) if isinstance(batch, tuple) else []
  if len(parts) != 2 or not all(
    isinstance(part, np.ndarray) and part.ndim for part in parts
  ):
    raise UnfitError('their batches are not pairs of one array x and one y')
  return parts[0], parts[1]


def _is_shuffled(dataset: tf.data.Dataset) -> bool:
  graph = tf.compat.v1.GraphDef.FromString(
    dataset._as_serialized_graph().numpy()  # TensorFlow has no other way.
  )
  return any('Shuffle' in name for name in model_conversion.operations(graph))


def read_arrays(
  client_data: tff.simulation.datasets.ClientData,
  max_bytes: Optional[int] = None,
) -> ClientArrays:
  """Reads all clients into arrays.

  Args:
    client_data: Clients whose datasets are batched.
    max_bytes: How many bytes they may fill; by default half of the memory that
      is free.

  Returns:
    The clients, in the order of `client_data.client_ids`.

  Raises:
    UnfitError: If they do not fit.
  """
  if max_bytes is None:
    max_bytes = _free_bytes() // 2
  train: list[Any] = []
  sizes: list[list[int]] = []
  num_bytes, is_shuffled = 0, False
  client_ids = list(client_data.client_ids)
  for client_id in _with_progress(client_ids, 'Reading clients'):
    dataset = client_data.create_tf_dataset_for_client(client_id)
    if not train:
      is_shuffled = _is_shuffled(dataset)
    batches = [_pair(batch) for batch in dataset.as_numpy_iterator()]
    num_bytes += sum(x.nbytes + y.nbytes for x, y in batches)
    if num_bytes > max_bytes:
      raise UnfitError(f'they fill more than {max_bytes:,} bytes of memory')
    sizes.append([len(y) for _, y in batches])
    train.append(batches)
  batch_size = max(itertools.chain(*sizes), default=0)
  if batch_size == 0:
    raise UnfitError('they have no examples')
  for of_client in sizes:
    if any(size != batch_size for size in of_client[:-1]):
      raise UnfitError('their batches have unlike sizes')
  some = next(batches for batches in train if batches)[0]
  nothing = tuple(part[:0] for part in some)
  return ClientArrays(
    [
      {
        name: np.concatenate([nothing[i], *(batch[i] for batch in batches)])
        for i, name in enumerate('xy')
      }
      for batches in train
    ],
    batch_size,
    is_shuffled=is_shuffled,
  )


def read_clients(
  client_data: tff.simulation.datasets.ClientData,
  in_memory: bool = True,
  *,
  steps: int = 0,
) -> ClientDatasets:
  """Reads the clients of a TFF user.

  Where it can, it reads all of them into memory once: random changes that their
  datasets make, other than the order of examples, are then made once.

  Args:
    client_data: Clients whose datasets are batched.
    in_memory: Whether to read them into arrays where that can be done.
    steps: The local steps of every client, for arrays only; 0 for one pass over
      its dataset. Datasets that repeat themselves would change p.

  Returns:
    The clients.

  Raises:
    ValueError: If it is no `ClientData`, its datasets are not batched, or there
      are steps, but no arrays.
  """
  _check_client_data(client_data)
  arrays, why_not = None, ''
  if in_memory:
    try:
      arrays = dataclasses.replace(read_arrays(client_data), steps=steps)
    except UnfitError as error:
      why_not = str(error)
  clients = ClientDatasets(client_data, arrays, why_not)
  if steps and arrays is None:
    raise no_steps(why_not or 'in_memory is False')
  return clients


def no_steps(why_not: str) -> ValueError:
  """Returns the error of local steps where clients train on datasets."""
  return ValueError(
    f'Local steps are for clients that train on arrays, but {why_not}; change '
    'that, or leave `steps` out of read_clients.'
  )
