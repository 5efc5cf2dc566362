"""Availability by a trace and a clock that maps rounds to seconds.

Round t begins at second trace_start + (t - 1) round_seconds of the clock. A
client is available then if its phone was: a mask is a pure function of t.
"""

import dataclasses
import functools
from typing import NamedTuple, NoReturn

import numpy as np

from f3ast_tff import randomness
from f3ast_tff.traces import assignment as assignment_lib
from f3ast_tff.traces import intervals as intervals_lib
from f3ast_tff.traces import trace as trace_lib

# The longest round, and the latest start, so that no second overflows.
MOST_SECONDS = 10**9

# How many clients are looked up at a time: what that takes fits into a cache.
_BLOCK = 2**14


class _Block(NamedTuple):
  """Some clients.

  Attributes:
    clients: Their indices.
    phones: Their phones, ascending.
    tracks: Where the track of the phone begins.
    periods: After how many seconds it repeats.
    zeros: Where in its period second 0 of the clock is.
  """

  clients: np.ndarray
  phones: np.ndarray
  tracks: np.ndarray
  periods: np.ndarray
  zeros: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Clocked:
  """A client is available when its phone was.

  Attributes:
    trace: The phones.
    assignment: Which client has which phone.
    round_seconds: From the start of a round to that of the next one.
    trace_start: The second of the clock at which round 1 starts; 0 is a
      midnight.
  """

  trace: trace_lib.Trace
  assignment: assignment_lib.Assignment
  round_seconds: int = 600
  trace_start: int = 0

  def __post_init__(self) -> None:
    for name, least in (('round_seconds', 1), ('trace_start', 0)):
      value = getattr(self, name)
      if not least <= value <= MOST_SECONDS:
        raise ValueError(
          f'{name} must be from {least} to {MOST_SECONDS}, but it is {value}.'
        )

  @property
  def num_clients(self) -> int:
    """N."""
    return self.assignment.phones.size

  @property
  def positively_correlated(self) -> bool:
    """False: phones share the hours of a day, but hardly more than that."""
    return False

  @functools.cached_property
  def _blocks(self) -> list[_Block]:
    """The clients, by their phones: near in memory is quick to look up."""
    order = np.argsort(self.assignment.phones, kind='stable')
    return [
      self._block(order[begin : begin + _BLOCK])
      for begin in range(0, order.size, _BLOCK)
    ]

  def _block(self, clients: np.ndarray) -> _Block:
    trace = self.trace
    phones, shifts = (column[clients] for column in self.assignment)
    periods = intervals_lib.DAY * trace.days[phones]
    zeros = (intervals_lib.DAY * shifts - trace.begins[phones]) % periods
    tracks = trace.stride * phones
    return _Block(clients, phones, tracks, periods, zeros)

  def _look_up(
    self, block: _Block, round_num: int
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns where on its track each client is, and the bounds up to there.

    Args:
      block: The clients.
      round_num: The round t.

    Returns:
      The seconds, and how many of all bounds are not above each: an odd number
      where the client is available.
    """
    now = self.trace_start + (round_num - 1) * self.round_seconds
    seconds = block.tracks + (block.zeros + now) % block.periods
    first = self.trace.firsts[block.phones[0]]
    behind = self.trace.firsts[block.phones[-1] + 1]
    bounds = self.trace.bounds[first:behind]
    return seconds, first + np.searchsorted(bounds, seconds, 'right')

  def __call__(self, round_num: int) -> np.ndarray:
    """Returns the boolean mask A_t of the clients available at its start."""
    randomness.check_round(round_num)
    mask = np.empty(self.num_clients, bool)
    for block in self._blocks:
      _, not_above = self._look_up(block, round_num)
      mask[block.clients] = not_above & 1
    return mask

  def seconds_left(self, round_num: int) -> np.ndarray:
    """Returns for how long from the start of round t clients stay available.

    Args:
      round_num: The round t.

    Returns:
      Per client, the seconds until its phone is not available any more: 0 if it
      is not, infinity if it always is.
    """
    randomness.check_round(round_num)
    bounds, result = self.trace.bounds, np.zeros(self.num_clients)
    for block in self._blocks:
      seconds, not_above = self._look_up(block, round_num)
      there = np.flatnonzero(not_above & 1)
      some = _Block(*(column[there] for column in block))
      ends = bounds[not_above[there]]
      more = self._more_after(some, ends)
      result[some.clients] = ends - seconds[there] + more
    return result

  def _more_after(self, block: _Block, ends: np.ndarray) -> np.ndarray:
    """Returns for how many seconds clients stay after the ends of intervals.

    What lasts until the recording ends may go on where it begins again.

    Args:
      block: The clients, for each the one of an interval.
      ends: Where that ends, on the track.

    Returns:
      The seconds; infinity for who is always available.
    """
    bounds, first = self.trace.bounds, self.trace.firsts[block.phones]
    goes_on = (ends == block.tracks + block.periods) & (
      bounds[first] == block.tracks
    )
    more = (bounds[first + 1] - bounds[first]).astype(float)
    more[more == block.periods] = np.inf
    return np.where(goes_on, more, 0.0)

  def stays(self, round_num: int) -> np.ndarray:
    """Returns the mask of the clients that are available for all of round t."""
    return self.seconds_left(round_num) >= self.round_seconds

  def _shares_with(self, seconds: int) -> np.ndarray:
    """Returns, per client, the share of all rounds that it is available in.

    Args:
      seconds: For how long at least, from the start of the round.

    Returns:
      The exact shares.
    """
    bounds, firsts = self.trace.bounds, self.trace.firsts
    result = np.empty(self.num_clients)
    for block in self._blocks:
      # Rounds start at every g-th second of a period, where g is the greatest
      # common divisor of the period and a round.
      g = np.gcd(block.periods, self.round_seconds)
      one, _ = self._look_up(block, 1)
      # All intervals of all clients, behind each other.
      sizes = (firsts[block.phones + 1] - firsts[block.phones]) // 2
      client = np.repeat(np.arange(sizes.size), sizes)
      nth = np.arange(client.size) - (np.cumsum(sizes) - sizes)[client]
      place = firsts[block.phones][client] + 2 * nth
      start, end = bounds[place], bounds[place + 1]
      # A round that starts later than this is not over when the client leaves.
      of_intervals = _Block(*(column[client] for column in block))
      early = np.maximum(seconds - 1 - self._more_after(of_intervals, end), 0)
      end = np.maximum(start, end - early.astype(np.int64))
      # How many of one + j g are in [start, end).
      one, step = one[client], g[client]
      count = (one - start) // step - (one - end) // step
      total = np.bincount(client, count, sizes.size)
      result[block.clients] = total * g / block.periods
    result.setflags(write=False)  # It is kept.
    return result

  @functools.cached_property
  def _shares(self) -> np.ndarray:
    """Per client, the share of all rounds at whose start it is available."""
    return self._shares_with(1)

  @functools.cached_property
  def _shares_to_the_end(self) -> np.ndarray:
    """Per client, the share of all rounds in which it stays to the end."""
    return self._shares_with(self.round_seconds)

  def probabilities(self, round_num: int) -> np.ndarray:
    """Returns the share of rounds, in the long run, with each client.

    A mask is certain once phones are assigned; this is what the model comes to
    for someone who does not know the hour, as the stationary probability of a
    Markov chain is.

    Args:
      round_num: The round t; the shares are the same in all.

    Returns:
      One number per client; 0 for those that no round ever finds available.
    """
    randomness.check_round(round_num)
    return self._shares

  def long_run(self) -> NoReturn:
    """Raises a ValueError: the theory is of clients that come by chance."""
    raise ValueError(
      'The best rates are known where clients are available by chance, '
      'independent of each other given the round, but on a trace every round '
      'has one certain set of clients; choose another selection than '
      'fixed_policy.'
    )

  def shares_of_rounds(self, to_the_end: bool = False) -> np.ndarray:
    """Returns the exact share of all rounds that each client can take part in.

    Args:
      to_the_end: Whether it must stay available until the round ends, as with
        losses by the trace; else it must be when the round starts.

    Returns:
      One number per client.
    """
    return self._shares_to_the_end if to_the_end else self._shares

  def reachable_share(self, p: np.ndarray, to_the_end: bool = False) -> float:
    """Returns the share of the data that is at clients who can ever take part.

    Args:
      p: Each client's share of the data.
      to_the_end: As of `shares_of_rounds`.

    Returns:
      The sum of p over clients that some round, however late, finds available.
      No method can be unbiased for the others.
    """
    return float(p[self.shares_of_rounds(to_the_end) > 0].sum())
