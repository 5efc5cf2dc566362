"""Loss after selection: who of the selected clients delivers an update.

  S_t   selected   ->   D_t   those of S_t that deliver   ->   Delta

Whether client k delivers in round t is a pure function of (seed, t, k), so it
is known before anybody trains, and the next round is still prepared ahead.
What r counts decides what the weights p_k / r_k make of the loss, with d_k the
probability to deliver and s_k the long-run rate of being selected:

  r counts     r tends to   E[Delta]
  delivered    s_k d_k      sum p_k v_k: unbiased
  selected     s_k          sum p_k d_k v_k: biased towards reliable clients

This module needs NumPy only.
"""

from collections.abc import Callable
import dataclasses
import math
from typing import NamedTuple, Optional

import numpy as np

from f3ast_tff import randomness

DELIVERED = 'delivered'
SELECTED = 'selected'
COUNTS = (DELIVERED, SELECTED)
MOST_OVER_SELECTION = 100  # More is a slip of the pen.


class Given(NamedTuple):
  """What a text says of deliveries.

  Attributes:
    kind: `all`, `probability`, `file` or `trace`.
    probability: Of `probability`.
    path: Of `file`.
  """

  kind: str
  probability: float = 1.0
  path: str = ''


def parse(text: str) -> Given:
  """Returns what a flag says.

  Args:
    text: Empty, if all selected clients deliver; the probability to deliver,
      such as `0.9`; `file:PATH`; or `trace`.

  Returns:
    What it says.
  """
  kind, _, path = text.partition(':')
  if text in ('', 'trace'):
    return Given(text or 'all')
  if kind == 'file' and path:
    return Given(kind, path=path)
  try:
    probability = float(text)
  except ValueError:
    probability = math.nan
  if 0 < probability <= 1:
    return Given('probability', probability)
  raise ValueError(
    f'delivery is {text!r}, but it must be a probability in (0, 1], file:PATH, '
    'or trace.'
  )


# Maps a round to the mask of the clients that stay available to its end.
Stays = Callable[[int], np.ndarray]


def num_selected(over_selection: float, k: int) -> int:
  """Returns how many clients to select so that K_t = k of them may count."""
  # 1.1 * 10 is a little more than 11.
  return math.ceil(round(over_selection * k, 9))


@dataclasses.dataclass(frozen=True, eq=False)
class Delivery:
  """Which of the selected clients deliver.

  Attributes:
    probabilities: d_k, with which client k delivers, independently.
    seed: Decides who does.
    stays: Who stays available to the end of a round, such as a trace says;
      whoever does not delivers nothing. None if all do.
    over_selection: So many times K_t clients are selected, rounded up, and the
      first K_t that deliver count. Those that deliver come in random order.
    rates_count: What r counts, `delivered` or `selected`.
    in_score: Whether the greedy step is that for H over delivered rates: the
      score of client k is d_k times what it is otherwise.
  """

  probabilities: np.ndarray
  seed: int = 0
  stays: Optional[Stays] = None
  over_selection: float = 1.0
  rates_count: str = DELIVERED
  in_score: bool = False

  def __post_init__(self) -> None:
    d = self.probabilities
    if d.ndim != 1 or not ((d > 0) & (d <= 1)).all():
      raise ValueError(
        'The probabilities to deliver must be in (0, 1], one for each client, '
        'but they are not.'
      )
    if not 1 <= self.over_selection <= MOST_OVER_SELECTION:
      raise ValueError(
        'over_selection must be at least 1 and at most '
        f'{MOST_OVER_SELECTION}, but it is {self.over_selection}.'
      )
    if self.rates_count not in COUNTS:
      raise ValueError(
        f'rates_count must be one of {", ".join(COUNTS)}, but it is '
        f'{self.rates_count!r}.'
      )

  def num_selected(self, k: int) -> int:
    """Returns how many clients to select where K_t = k."""
    return num_selected(self.over_selection, k)

  def delivered(
    self, round_num: int, clients: np.ndarray, k: int
  ) -> np.ndarray:
    """Returns who of the selected clients delivers and counts.

    Args:
      round_num: The round t.
      clients: S_t.
      k: K_t.

    Returns:
      A mask of these clients.
    """
    rng = randomness.generator(self.seed, 'delivery', round_num)
    draw, arrival = rng.random((2, self.probabilities.size))[:, clients]
    comes = draw < self.probabilities[clients]
    if self.stays is not None:
      comes &= self.stays(round_num)[clients]
    if np.count_nonzero(comes) > k:
      comes &= arrival <= (np.sort(arrival[comes])[k - 1] if k else -1.0)
    return comes
