"""Situations that policies are tested in, and how often they select whom."""

from hypothesis import strategies as st
import numpy as np

from f3ast_tff import selection


def rng(seed=0):
  """Returns a generator."""
  return np.random.default_rng(seed)


def situation(p, k=1, available=None, r=None, **changes):
  """Returns a situation; by default all are available, and r = p."""
  p = np.asarray(p, float)
  if available is None:
    available = np.ones(p.size, bool)
  return selection.Situation(
    r=p if r is None else np.asarray(r, float),
    p=p,
    available=np.asarray(available, bool),
    k=k,
    **changes,
  )


@st.composite
def situations(draw):
  """Draws situations of up to seven clients."""
  n = draw(st.integers(1, 7))
  lists = lambda values: st.lists(values, min_size=n, max_size=n)  # noqa: E731
  sizes = np.array(draw(lists(st.integers(1, 50))))
  return situation(
    sizes / sizes.sum(),
    draw(st.integers(0, n + 1)),
    draw(lists(st.booleans())),
    draw(lists(st.floats(0.001, 1))),
    beta=0.1,
  )


def counts(select, s, draws):
  """Returns how often each set is selected in as many draws."""
  generator = rng(1)
  found = {}
  for _ in range(draws):
    clients = tuple(select(s, generator).clients.tolist())
    found[clients] = found.get(clients, 0) + 1
  return found


def assert_frequencies(found, expected):
  """Asserts that counts are within 5 standard errors of probabilities."""
  draws = sum(found.values())
  assert set(found) <= set(expected)
  for outcome, chance in expected.items():
    error = np.sqrt(chance * (1 - chance) / draws)
    assert abs(found.get(outcome, 0) / draws - chance) <= 5 * error, outcome
