"""The workers of a cluster and their rounds, as the driver sees them."""

import collections
from collections.abc import Sequence
import dataclasses
from typing import Any, NamedTuple, Optional


class Place(NamedTuple):
  """Where a worker can be: one of the places of a node."""

  node: str
  number: int


@dataclasses.dataclass(eq=False)
class WorkerHandle:
  """A worker, as the driver sees it.

  Attributes:
    actor: The actor.
    name: What to call it in messages.
    num_threads: How many shards it trains at a time.
    opening: What says that it is ready; None when it is.
    running: The shards that it trains, by what will hold their sums.
    ping: What its answer will be in, if it was pinged.
    pinged: When it was pinged.
  """

  actor: Any
  name: str
  num_threads: int
  opening: Optional[Any]
  running: dict[Any, int] = dataclasses.field(default_factory=dict)
  ping: Optional[Any] = None
  pinged: float = 0.0

  @property
  def is_open(self) -> bool:
    """Whether it is ready."""
    return self.opening is None

  @property
  def load(self) -> float:
    """The share of its threads that train."""
    return len(self.running) / self.num_threads


class RunningRound(NamedTuple):
  """A round under way.

  Attributes:
    name: Which of the works.
    parts: What each partial sum is made of.
    broadcast: The model, in Ray's object store.
    waiting: The shards that nobody trains yet.
    sums: The partial sums so far.
  """

  name: str
  parts: Sequence[Any]
  broadcast: Any
  waiting: collections.deque
  sums: dict[int, Any]
