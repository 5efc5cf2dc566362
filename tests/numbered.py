"""Clients whose examples say whose they are, for tests of shards."""

from collections.abc import Iterable

from hypothesis import strategies as st
import numpy as np


def clients(sizes: Iterable[int]) -> list[dict[str, np.ndarray]]:
  """Returns examples with x = 100 k + i and y = i for the i-th of client k."""
  return [
    {
      'x': (100 * k + np.arange(size, dtype=np.float32))[:, None],
      'y': np.arange(size, dtype=np.int32),
    }
    for k, size in enumerate(sizes)
  ]


@st.composite
def cohorts(draw):
  """Draws the examples of some clients, and some of these clients."""
  sizes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=6))
  some = draw(st.sets(st.integers(0, len(sizes) - 1)))
  return clients(sizes), sorted(some)
