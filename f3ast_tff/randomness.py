"""All randomness: a pure function of (seed, purpose, round, client).

Nothing in this package keeps a random state between calls. Whoever needs random
numbers names what they are for, and gets a generator that depends on nothing
else, so that a run can be resumed, replayed or split over machines and still
draws the same numbers.
"""

import functools
import hashlib

import numpy as np

from f3ast_tff import checks


@functools.cache
def _purpose_words(purpose: str) -> list[int]:
  digest = hashlib.sha256(purpose.encode()).digest()
  return [int.from_bytes(digest[i : i + 4], 'little') for i in (0, 4)]


def generator(
  seed: int, purpose: str, round_num: int = 0, client: int = 0
) -> np.random.Generator:
  """Returns the generator of one purpose in one round at one client.

  Args:
    seed: The seed of the run, a non-negative integer.
    purpose: What the numbers are for, e.g. `'availability'`. Different purposes
      give independent streams.
    round_num: The round t = 1, 2, ...; 0 for what is drawn once per run.
    client: The client k; 0 for what is drawn once for all clients.

  Returns:
    A `numpy.random.Generator`. Equal arguments give equal streams.
  """
  for name, value in (('seed', seed), ('round', round_num), ('client', client)):
    if not checks.is_whole(value, 0):
      raise ValueError(
        f'The {name} must be a whole number >= 0, but it is '
        f'{checks.describe(value)}.'
      )
  entropy = [seed, *_purpose_words(purpose), round_num, client]
  return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


def check_round(round_num: int) -> None:
  """Raises a ValueError unless it is the number of a round."""
  if not checks.is_whole(round_num, 1):
    raise ValueError(
      'Rounds count from 1 in whole numbers, but the round is '
      f'{checks.describe(round_num)}.'
    )
