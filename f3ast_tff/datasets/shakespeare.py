"""Shakespeare (LEAF, Caldas et al. 2018) by client: 715 roles of the plays.

A client is a role, and its snippets are what it says at a time. They become
sequences exactly as in `tff.simulation.baselines.shakespeare`: each snippet is

  begin, its bytes as tokens, end, padding up to a multiple of 81

and every 81 tokens are one example, x the first 80 and y the last 80. Snippets
do not share examples.

TFF's file becomes arrays in well under a second, so that nothing is cached.
"""

from collections.abc import Sequence
import os
import pathlib
from typing import Optional, Union

import numpy as np

from f3ast_tff import randomness
from f3ast_tff.datasets import federated
from f3ast_tff.datasets import tff_cache

SOURCES = ('tff', 'sample')
EXPECTED = tff_cache.Expected(
  train_clients=715,
  train_examples=16_068,
  test_clients=715,
  test_examples=2_356,
)
SEQUENCE_LENGTH = 80

# TFF's order; the token of a character is its place here, from 1.
VOCABULARY = (
  'dhlptx@DHLPTX $(,048cgkoswCGKOSW[_#\'/37;?bfjnrvzBFJNRVZ"&*.26:\naeimquy'
  'AEIMQUY]!%)-159\r'
)
PAD = 0
OUT_OF_VOCABULARY = len(VOCABULARY) + 1
BEGIN = len(VOCABULARY) + 2
END = len(VOCABULARY) + 3
NUM_TOKENS = len(VOCABULARY) + 4

_TOKEN_OF_BYTE = np.full(256, OUT_OF_VOCABULARY, np.uint8)
_TOKEN_OF_BYTE[list(VOCABULARY.encode())] = np.arange(1, len(VOCABULARY) + 1)

# By client, its snippets.
_Snippets = Sequence[Sequence[bytes]]


def to_sequences(snippets: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
  """Returns the sequences of snippets.

  Args:
    snippets: The texts.

  Returns:
    A `uint8` matrix with 81 tokens in each row, and the number of rows of each
    snippet.
  """
  width = SEQUENCE_LENGTH + 1
  lengths = np.array([len(snippet) for snippet in snippets], int)
  num_rows = -(-(lengths + 2) // width)
  tokens = np.zeros(num_rows.sum() * width, np.uint8)
  begins = (np.cumsum(num_rows) - num_rows) * width
  tokens[begins] = BEGIN
  tokens[begins + 1 + lengths] = END
  text = np.frombuffer(b''.join(snippets), np.uint8)
  # Where a byte goes: its place in the text, moved as far as its snippet is.
  moves = begins + 1 - (np.cumsum(lengths) - lengths)
  places = np.arange(len(text)) + np.repeat(moves, lengths)
  tokens[places] = _TOKEN_OF_BYTE[text]
  return tokens.reshape(-1, width), num_rows


def load(
  source: str = 'tff',
  data_dir: Union[str, os.PathLike, None] = None,
  seed: int = 0,
  max_snippets: Optional[int] = 128,
) -> federated.FederatedDataset:
  """Loads Shakespeare.

  Args:
    source: Where the text comes from. 'tff': TFF's file shakespeare.sqlite,
      downloaded if absent. 'sample': a tiny stand-in for smoke tests, not a
      word of it by Shakespeare.
    data_dir: The folder of the source; None means where TFF keeps its data.
    seed: Decides all of 'sample', and nothing else.
    max_snippets: How many training snippets a client has at most, its first
      ones; None for all.

  Returns:
    The data set. Both x and y are `uint8` [n, 80]. Clients come in the order
    that TFF sorts them in, and test client k is training client k.
  """
  if max_snippets is not None and max_snippets < 1:
    raise ValueError(
      'The number of snippets of a client must be at least 1, or None for all, '
      f'but it is {max_snippets}.'
    )
  if source == 'sample':
    name, is_sample = 'Shakespeare SAMPLE (not Shakespeare)', True
    train, test = _sample(seed)
  elif source == 'tff':
    name, is_sample = 'Shakespeare', False
    path = tff_cache.fetch('shakespeare', data_dir, EXPECTED)
    train, test = (_read_sqlite(path, split) for split in ('train', 'test'))
  else:
    raise ValueError(
      f'The source of Shakespeare must be one of {", ".join(SOURCES)}, but it '
      f'is {source!r}.'
    )
  train_rows, train_sizes = _by_client([s[:max_snippets] for s in train])
  test_rows, test_sizes = _by_client(test)
  return federated.FederatedDataset(
    name=name,
    train=[
      _split_target(rows)
      for rows in np.split(train_rows, np.cumsum(train_sizes)[:-1])
    ],
    test=_split_target(test_rows),
    test_owner=np.repeat(np.arange(len(test_sizes)), test_sizes),
    is_sample=is_sample,
  )


def _by_client(clients: _Snippets) -> tuple[np.ndarray, np.ndarray]:
  """Returns the sequences of all clients and how many each has."""
  rows, rows_of_snippet = to_sequences(
    [snippet for client in clients for snippet in client]
  )
  owners = np.repeat(
    np.arange(len(clients)), [len(client) for client in clients]
  )
  sizes = np.bincount(owners, rows_of_snippet, len(clients)).astype(int)
  return rows, sizes


def _split_target(rows: np.ndarray) -> dict[str, np.ndarray]:
  """Returns each sequence but its last token, and but its first."""
  return {
    'x': np.ascontiguousarray(rows[:, :-1]),
    'y': np.ascontiguousarray(rows[:, 1:]),
  }


def _read_sqlite(path: pathlib.Path, split: str) -> _Snippets:
  """Reads TFF's file, with clients and their snippets in TFF's order."""
  # Slow to import, and not needed by those who take the sample.
  import tensorflow as tf

  with tff_cache.reading(path) as database:
    examples = database.execute(
      'SELECT client_id, serialized_example_proto FROM examples '
      'WHERE split_name = ? ORDER BY rowid',
      (split,),
    ).fetchall()
  ids, protos = zip(*examples)
  features = {'snippets': tf.io.FixedLenFeature([], tf.string)}
  parsed = tff_cache.parse(path, protos, features, 'a snippet of text')
  snippets: dict[str, list[bytes]] = {client: [] for client in sorted(set(ids))}
  for client, snippet in zip(ids, parsed['snippets'].numpy()):
    snippets[client].append(snippet)
  return list(snippets.values())


def _sample(seed: int) -> tuple[_Snippets, _Snippets]:
  """Returns training and test snippets of 12 roles of a play that is none.

  Words follow each other as a small grammar says, so that a model can learn
  them; each role has a few words that it prefers.
  """
  words = {
    'opening': ('Hear me, ', 'Good friend, ', 'Alas! ', 'Mark this: ', ''),
    'who': ('the old miller ', 'my cousin ', 'a tired clerk ', 'the cook '),
    'does': ('counts ', 'has hidden ', 'would sell ', 'paints ', 'forgot '),
    'what': ('nine lamps', 'the green boat', 'a bag of nails', 'our goose'),
    'end': ('.', '!', '; is it not so?', ' by the river.', ' before noon.'),
  }
  train, test = [], []
  for role in range(12):
    rng = randomness.generator(seed, 'Shakespeare sample', client=role)
    tastes = [
      rng.dirichlet(np.ones(len(choices))) for choices in words.values()
    ]
    num_train, num_test = rng.integers(2, 13), rng.integers(2, 4)
    snippets = []
    for _ in range(num_train + num_test):
      sentences = [
        ''.join(rng.choice(c, p=p) for c, p in zip(words.values(), tastes))
        for _ in range(rng.integers(1, 5))
      ]
      snippets.append('\n'.join(sentences).encode())
    train.append(snippets[:num_train])
    test.append(snippets[num_train:])
  return train, test
